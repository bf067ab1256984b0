"""The report of an audit: breaches, and the number of objects checked."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from floe_audit.spec.rules import Rule

# If every file breaks the same rule, the first breaches describe the problem well enough.
_KEPT_PER_RULE = 100


class AuditDepth(StrEnum):
    """How deep an audit reads."""

    METADATA = "metadata"
    """Table metadata, manifest lists and manifests."""
    FILES = "files"
    """Also the size, footer and statistics of every data, delete and statistics file."""
    VALUES = "values"
    """Also every value of every row."""


@dataclass(frozen=True)
class Breach:
    """A contradiction between metadata and files."""

    rule: str
    message: str
    file: str = ""
    expected: str | None = None
    found: str | None = None

    def __str__(self) -> str:
        """Return the breach as one line."""
        figures = f" (expected {self.expected}, found {self.found})" if self.expected is not None else ""
        return f"[{self.rule}] {self.message}{figures}" + (f" in {self.file}" if self.file else "")

    def to_dict(self) -> dict[str, Any]:
        """Return the breach as JSON values."""
        return {
            "rule": self.rule,
            "message": self.message,
            "file": self.file,
            "expected": self.expected,
            "found": self.found,
        }


@dataclass(frozen=True)
class Checked:
    """The number of objects an audit checked."""

    snapshots: int = 0
    manifest_lists: int = 0
    manifests: int = 0
    data_files: int = 0
    delete_files: int = 0
    statistics_files: int = 0
    rows: int = 0
    rules: Mapping[str, int] = field(default_factory=dict)
    """How often each rule was applied."""

    @property
    def files(self) -> int:
        """The number of files read, including the metadata file."""
        parts = (self.manifest_lists, self.manifests, self.data_files, self.delete_files, self.statistics_files)
        return 1 + sum(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        return {
            "files": self.files,
            "snapshots": self.snapshots,
            "manifest_lists": self.manifest_lists,
            "manifests": self.manifests,
            "data_files": self.data_files,
            "delete_files": self.delete_files,
            "statistics_files": self.statistics_files,
            "rows": self.rows,
            "rules": dict(self.rules),
        }


@dataclass(frozen=True)
class AuditReport:
    """The audit report of one table."""

    metadata_location: str
    depth: AuditDepth
    breaches: tuple[Breach, ...]
    checked: Checked
    live_rows: Mapping[int, int] = field(default_factory=dict)
    """Rows of each snapshot after applying deletes; only known with depth ``values``."""
    withheld: int = 0
    """Number of breaches beyond the first 100 per rule."""

    @property
    def ok(self) -> bool:
        """Whether there are no breaches."""
        return not self.breaches

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return {
            "ok": self.ok,
            "metadata_location": self.metadata_location,
            "depth": str(self.depth),
            "breaches": [breach.to_dict() for breach in self.breaches],
            "withheld": self.withheld,
            "checked": self.checked.to_dict(),
            "live_rows": {str(snapshot): rows for snapshot, rows in self.live_rows.items()},
        }


class Findings:
    """Collects breaches and counts. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._breaches: dict[Breach, None] = {}
        self._per_rule: Counter[str] = Counter()
        self._applied: Counter[str] = Counter()
        self._counts: Counter[str] = Counter()
        self.withheld = 0

    @property
    def clean(self) -> bool:
        """Whether there are no breaches so far."""
        return not self._breaches

    def check(
        self,
        ok: object,
        rule: Rule,
        message: str,
        *,
        file: str = "",
        expected: object = None,
        found: object = None,
    ) -> bool:
        """Count one application of a rule, and record a breach unless the rule holds."""
        with self._lock:
            self._applied[rule.value] += 1
            if ok:
                return True
            shown = None if expected is None and found is None else _shown(expected)
            breach = Breach(rule.value, message, file, shown, None if shown is None else _shown(found))
            if breach in self._breaches:
                return False
            self._per_rule[rule.value] += 1
            if self._per_rule[rule.value] > _KEPT_PER_RULE:
                self.withheld += 1
            else:
                self._breaches[breach] = None
        return False

    def equal(self, rule: Rule, what: str, expected: object, found: object, *, file: str = "") -> bool:
        """Check that a recorded value equals the recomputed one."""
        return self.check(expected == found, rule, f"{what} is wrong", file=file, expected=expected, found=found)

    def breach(self, rule: Rule, message: str, *, file: str = "") -> None:
        """Record a breach."""
        self.check(False, rule, message, file=file)  # noqa: FBT003 - the rule does not hold

    def count(self, kind: str, number: int = 1) -> None:
        """Count checked objects; ``kind`` is a field name of ``Checked``."""
        with self._lock:
            self._counts[kind] += number

    def report(self, location: str, depth: AuditDepth, live_rows: Mapping[int, int]) -> AuditReport:
        """Return the report."""
        checked = Checked(**self._counts, rules=dict(sorted(self._applied.items())))
        return AuditReport(location, depth, tuple(self._breaches), checked, dict(live_rows), self.withheld)


def _shown(value: object, limit: int = 200) -> str:
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"
