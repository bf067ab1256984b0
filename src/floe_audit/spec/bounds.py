"""Column metrics: recompute counts and bounds from values, and compare them with the manifest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe_audit.spec.rules import Rule
from floe_audit.spec.schemas import MalformedError
from floe_audit.spec.values import UNBOUNDED, decode, is_nan, order, unscaled

if TYPE_CHECKING:
    from floe_audit.manifests.manifest_files import ContentFile
    from floe_audit.report import Findings
    from floe_audit.spec.schemas import Field, Type
    from floe_audit.spec.values import Value


@dataclass
class ColumnMetrics:
    """Counts, minimum and maximum of a column, computed incrementally."""

    values: int = 0
    nulls: int = 0
    nans: int = 0
    lower: Value | None = None
    upper: Value | None = None

    def add(self, array: pa.Array, kind: Type) -> None:
        """Add normalized values."""
        self.values += len(array)
        self.nulls += array.null_count
        if kind.name in UNBOUNDED or kind.nested:
            return
        if kind.floating:
            self.nans += pc.sum(pc.is_nan(array)).as_py() or 0
            self._zeros(array)
        extremes = pc.min_max(array)
        self.widen(_plain(extremes["min"], kind), _plain(extremes["max"], kind))

    def merge(self, other: ColumnMetrics) -> None:
        """Add the metrics of other rows."""
        self.values += other.values
        self.nulls += other.nulls
        self.nans += other.nans
        self.widen(other.lower, other.upper)

    def widen(self, lower: Value | None, upper: Value | None) -> None:
        """Extend the range by a lower and an upper value."""
        if lower is not None and not is_nan(lower) and (self.lower is None or order(lower) < order(self.lower)):
            self.lower = lower
        if upper is not None and not is_nan(upper) and (self.upper is None or order(upper) > order(self.upper)):
            self.upper = upper

    def _zeros(self, array: pa.Array) -> None:
        """Track -0.0 and 0.0 separately, because ``min_max`` treats them as equal."""
        plain = array.drop_null().to_numpy(zero_copy_only=False)
        zeros = plain[plain == 0]
        if len(zeros):
            signs = np.signbit(zeros)
            self.widen(-0.0 if signs.any() else 0.0, 0.0 if not signs.all() else -0.0)


def _plain(scalar: pa.Scalar, kind: Type) -> Any:
    value = scalar.as_py()
    if value is None:
        return None
    if kind.name == "decimal":
        return unscaled(value, kind.scale)
    return value


def check_counts(file: ContentFile, column: Field, metrics: ColumnMetrics, findings: Findings) -> None:
    """Compare the counts of a column with one value per row."""
    values = (file.value_counts or {}).get(column.id, metrics.values)
    # ORC does not count a field's value if its struct is null.
    hidden = metrics.values - values if file.format == "orc" and column.parent is not None else 0
    hidden = hidden if 0 <= hidden <= metrics.nulls else 0
    for rule, name, stated, counted in (
        (Rule.DATA_VALUE_COUNTS, "value", file.value_counts, metrics.values - hidden),
        (Rule.DATA_NULL_COUNTS, "null", file.null_counts, metrics.nulls - hidden),
    ):
        found = (stated or {}).get(column.id)
        if found is not None:
            what = f"The {name} count of column {column.path!r}"
            findings.equal(rule, what, counted, found, file=file.path)


def check_nans(file: ContentFile, column: Field, metrics: ColumnMetrics, findings: Findings) -> None:
    """Compare the NaN count of a column."""
    found = (file.nan_counts or {}).get(column.id)
    if found is not None:
        what = f"The NaN count of column {column.path!r}"
        findings.equal(Rule.DATA_NAN_COUNTS, what, metrics.nans, found, file=file.path)


def check_bounds(
    file: ContentFile, column: Field, metrics: ColumnMetrics, findings: Findings, *, zeros: bool = True
) -> None:
    """Check that all values of a column are within its bounds."""
    kind = column.type
    if kind.name in UNBOUNDED or kind.nested:
        return
    for name, stated, extreme in (
        ("lower", file.lower_bounds, metrics.lower),
        ("upper", file.upper_bounds, metrics.upper),
    ):
        raw = (stated or {}).get(column.id)
        if raw is None or extreme is None:
            continue
        try:
            bound = decode(kind, raw, truncated=True)
        except MalformedError:
            continue  # already reported for the manifest
        if is_nan(bound):
            continue
        limit, value = _key(bound, zeros=zeros), _key(extreme, zeros=zeros)
        ok = limit <= value if name == "lower" else limit >= value
        what = f"A value of column {column.path!r} is {'below' if name == 'lower' else 'above'} its {name} bound"
        findings.check(ok, Rule.DATA_BOUNDS, what, file=file.path, expected=repr(extreme), found=repr(bound))


def _key(value: Value, *, zeros: bool) -> Any:
    if isinstance(value, float) and not zeros:
        return value
    return order(value)
