"""Retention of a table's snapshots, from the project's and the table's settings, else the default."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from floe_core.errors import UnsafeRetentionError
from floe_iceberg.models import PRODUCTION_PROPERTIES
from floe_iceberg.names import name_of
from floe_iceberg.read.versions import to_millis
from floe_iceberg.table.history.retention import MIN_SNAPSHOTS_PROPERTY, Floor

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyiceberg.table import Table

    from floe_core.governance import RetentionDays
    from floe_iceberg.context import ManagerContext

MAX_AGE_PROPERTY = "history.expire.max-snapshot-age-ms"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)
_MILLIS_OF_DAY = _DAY // timedelta(milliseconds=1)
# The largest age that Java accepts; it means "forever".
_MAX_MILLIS = 2**63 - 1
# No snapshot is older.
MAX_DAYS = 365_000
# Tolerance for the time that passes between computing an age limit and checking it.
_GRACE = timedelta(seconds=1)
_OVERRIDE = "allow_below_retention=True (--allow-below-retention)"


@dataclass(frozen=True)
class Keeping:
    """Retention of a table's snapshots.

    Attributes:
        age: The age at which a snapshot may expire.
        derivation: The settings that determine the age, one line each.
        declared: Whether a setting requires this age; callers must override it explicitly to go below it.
        count: Number of snapshots that the table requires on each branch, regardless of age.
    """

    age: timedelta
    derivation: tuple[str, ...]
    declared: bool
    count: int = 1

    @property
    def days(self) -> float:
        """The age in days; an int if it is a whole number."""
        count = self.age / _DAY
        return int(count) if count.is_integer() else count

    @property
    def text(self) -> str:
        """The age as text, such as ``7 days``."""
        return _days(self.age)

    @property
    def floor(self) -> Floor:
        """The snapshots that stay regardless of branches, tags and callers."""
        since = time_before(self.age)
        return Floor(to_millis(since) if self.declared else None, self.count)

    def require(self, table: Table, older_than: datetime | None, snapshot_ids: Collection[int]) -> None:
        """Require that an expiry respects the declared retention.

        Args:
            table: The table.
            older_than: Snapshots older than this would expire; None if none expires by age.
            snapshot_ids: Snapshots that would expire regardless of age.

        Raises:
            UnsafeRetentionError: The declared retention protects some snapshots; the message has the derivation.
        """
        if not self.declared:
            return
        limit = time_before(self.age) + _GRACE
        chosen = [table.metadata.snapshot_by_id(snapshot_id) for snapshot_id in snapshot_ids]
        young = any(one is not None and one.timestamp_ms > limit.timestamp() * 1000 for one in chosen)
        if young or (older_than is not None and older_than > limit):
            raise self._refusal(table, "Choose a longer age")

    def require_count(self, table: Table, retain_last: int | None) -> None:
        """Require that at least as many snapshots are kept as the table's property requires.

        Raises:
            UnsafeRetentionError: The property requires more.
        """
        if retain_last is not None and retain_last < self.count:
            msg = f"Each branch of table '{name_of(table)}' must keep {self.count} snapshots: "
            msg += f"the table's {MIN_SNAPSHOTS_PROPERTY} is {self.count}."
            hint = f"Keep more snapshots; to override this on purpose, pass {_OVERRIDE}."
            raise UnsafeRetentionError(msg, hint=hint, table=name_of(table))

    def require_end(self, table: Table) -> None:
        """Require that the table has no snapshots that must be kept, before all of its files are deleted.

        Raises:
            UnsafeRetentionError: The declared retention protects some snapshots; the message has the derivation.
        """
        since = self.floor.since_ms
        if since is not None and any(snapshot.timestamp_ms >= since for snapshot in table.metadata.snapshots):
            raise self._refusal(table, "Drop it without purge to keep the files")

    def _refusal(self, table: Table, instead: str) -> UnsafeRetentionError:
        reasons = "; ".join(self.derivation)
        msg = f"Snapshots of table '{name_of(table)}' must be kept for {_days(self.age)}: {reasons}."
        hint = f"{instead}; to override this on purpose, pass {_OVERRIDE}."
        return UnsafeRetentionError(msg, hint=hint, table=name_of(table))


def keeping_of(context: ManagerContext, table: Table, declared: RetentionDays | None = None) -> Keeping:
    """Return the retention of a table's snapshots.

    The longer of the project's retention and the table's ``history.expire.max-snapshot-age-ms`` applies. The value that
    every new table gets does not count as a setting; it only takes precedence over the manager's default. The same
    applies to the number of snapshots in ``history.expire.min-snapshots-to-keep``.

    Args:
        context: The manager's context.
        table: The table.
        declared: The project's retention; by default that of the manager's project.

    Raises:
        UnsafeRetentionError: The table's property is not a number.
    """
    keeping = _keeping(context, table, context.retention(name_of(table)) if declared is None else declared)
    return replace(keeping, count=_table_count(context, table))


def _keeping(context: ManagerContext, table: Table, declared: RetentionDays | None) -> Keeping:
    table_age = _table_age(table)
    settings: list[tuple[timedelta, tuple[str, ...]]] = []
    if declared is not None:
        project = f"the project's retention is {_days(timedelta(declared))}"
        lines = tuple(getattr(declared, "derivation", ())) or (project,)
        settings.append((timedelta(days=declared), lines))
    if table_age is not None and _is_set(context, table, MAX_AGE_PROPERTY):
        settings.append((table_age, (f"the table's {MAX_AGE_PROPERTY} is {_days(table_age)}",)))
    if settings:
        longest = max(age for age, _ in settings)
        return Keeping(longest, tuple(line for _, lines in settings for line in lines), declared=True)
    if table_age is not None:
        line = f"no retention is declared: the table's {MAX_AGE_PROPERTY} is {_days(table_age)}"
        return Keeping(table_age, (line,), declared=False)
    age = timedelta(days=context.config.default_retention_days)
    return Keeping(age, (f"no retention is declared: the default is {_days(age)}",), declared=False)


def _is_set(context: ManagerContext, table: Table, name: str) -> bool:
    """Whether a table's property differs from the value that every new table gets."""
    # A manager with other defaults than this one may have created the table.
    given = {context.config.default_properties.get(name), PRODUCTION_PROPERTIES[name], None}
    return table.metadata.properties.get(name) not in given


def min_snapshots(table: Table) -> int:
    """Return the minimum number of snapshots per branch from the table's property.

    Raises:
        UnsafeRetentionError: The property is not a number.
    """
    text = table.metadata.properties.get(MIN_SNAPSHOTS_PROPERTY, "1")
    try:
        return int(text)
    except ValueError:
        msg = f"The property {MIN_SNAPSHOTS_PROPERTY} of table '{name_of(table)}' is '{text}', which is not a number."
        raise UnsafeRetentionError(msg, hint="Set it to a number of snapshots.", table=name_of(table)) from None


def time_before(age: timedelta) -> datetime:
    """Return the current time minus an age, but not before the epoch."""
    now = datetime.now(UTC)
    return now - min(age, now - _EPOCH)


def _table_count(context: ManagerContext, table: Table) -> int:
    return min_snapshots(table) if _is_set(context, table, MIN_SNAPSHOTS_PROPERTY) else 1


def _table_age(table: Table) -> timedelta | None:
    text = table.metadata.properties.get(MAX_AGE_PROPERTY)
    if text is None:
        return None
    try:
        millis: int | None = int(text)
    except ValueError:
        millis = None
    if millis is None or millis > _MAX_MILLIS:
        msg = f"The property {MAX_AGE_PROPERTY} of table '{name_of(table)}' is '{text}', which is not an age."
        raise UnsafeRetentionError(msg, hint="Set it to a number of milliseconds.", table=name_of(table))
    return timedelta(milliseconds=min(millis, MAX_DAYS * _MILLIS_OF_DAY))


def _days(age: timedelta) -> str:
    count = age / _DAY
    return "1 day" if count == 1 else f"{count:g} days"
