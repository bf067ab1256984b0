"""How long a table's snapshots are kept: what its project and the table itself ask for, before the default."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from floe_core.errors import UnsafeRetentionError
from floe_iceberg.models import PRODUCTION_PROPERTIES
from floe_iceberg.read.versions import name_of, to_millis
from floe_iceberg.table.history.retention import MIN_SNAPSHOTS_PROPERTY, Floor

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyiceberg.table import Table

    from floe_core.governance import RetentionDays
    from floe_iceberg.context import ManagerContext

MAX_AGE_PROPERTY = "history.expire.max-snapshot-age-ms"
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)
_MILLIS_OF_DAY = _DAY // timedelta(milliseconds=1)
# The largest number that Java takes for an age; it stands for "for ever".
_MOST_MILLIS = 2**63 - 1
# Nothing is older.
LONGEST_DAYS = 365_000
# An age is counted back from a moment that has passed by the time it is looked at.
_GRACE = timedelta(seconds=1)
_WAY_AROUND = "allow_below_retention=True (--allow-below-retention)"


@dataclass(frozen=True)
class Keeping:
    """How long snapshots of a table are kept.

    Attributes:
        age: The age at which a snapshot may expire.
        derivation: Who asked for what, one line each.
        declared: Whether somebody asked for it, so that no caller may undercut it without saying so.
        count: Snapshots that the table asks to keep on each branch, whatever their age.
    """

    age: timedelta
    derivation: tuple[str, ...]
    declared: bool
    count: int = 1

    @property
    def days(self) -> float:
        """The age in days; a whole number where it is one."""
        count = self.age / _DAY
        return int(count) if count.is_integer() else count

    @property
    def text(self) -> str:
        """The age for people, such as ``7 days``."""
        return _days(self.age)

    @property
    def floor(self) -> Floor:
        """What stays whatever branches, tags and callers say."""
        since = moment_before(self.age)
        return Floor(to_millis(since) if self.declared else None, self.count)

    def require(self, table: Table, moment: datetime | None, snapshot_ids: Collection[int]) -> None:
        """Refuse an expiry of what must still be kept.

        Args:
            table: The table.
            moment: Snapshots older than this would go; None when none goes by age.
            snapshot_ids: Snapshots that would go whatever their age.

        Raises:
            UnsafeRetentionError: The declared retention asks to keep some of it; the message gives the derivation.
        """
        if not self.declared:
            return
        limit = moment_before(self.age) + _GRACE
        chosen = [table.metadata.snapshot_by_id(snapshot_id) for snapshot_id in snapshot_ids]
        young = any(one is not None and one.timestamp_ms > limit.timestamp() * 1000 for one in chosen)
        if young or (moment is not None and moment > limit):
            raise self._refusal(table, "Choose a longer age")

    def require_count(self, table: Table, retain_last: int | None) -> None:
        """Refuse to keep fewer snapshots than the table asks for.

        Raises:
            UnsafeRetentionError: It asks for more.
        """
        if retain_last is not None and retain_last < self.count:
            msg = f"Each branch of table '{name_of(table)}' must keep {self.count} snapshots: "
            msg += f"the table's {MIN_SNAPSHOTS_PROPERTY} asks for {self.count}."
            hint = f"Keep more; to undercut it on purpose, {_WAY_AROUND}."
            raise UnsafeRetentionError(msg, hint=hint, table=name_of(table))

    def require_end(self, table: Table) -> None:
        """Refuse to delete a whole table while it has snapshots that must still be kept.

        Raises:
            UnsafeRetentionError: The declared retention asks to keep some; the message gives the derivation.
        """
        since = self.floor.since_ms
        if since is not None and any(snapshot.timestamp_ms >= since for snapshot in table.metadata.snapshots):
            raise self._refusal(table, "Drop it without purge, which leaves the files")

    def _refusal(self, table: Table, instead: str) -> UnsafeRetentionError:
        reasons = "; ".join(self.derivation)
        msg = f"Snapshots of table '{name_of(table)}' must be kept for {_days(self.age)}: {reasons}."
        hint = f"{instead}; to undercut it on purpose, {_WAY_AROUND}."
        return UnsafeRetentionError(msg, hint=hint, table=name_of(table))


def keeping_of(context: ManagerContext, table: Table, declared: RetentionDays | None = None) -> Keeping:
    """Return how long a table's snapshots are kept.

    The longest of what the project declares and what the table's own ``history.expire.max-snapshot-age-ms`` says holds.
    The value that every new table gets is no such ask; it only comes before the manager's default. The same goes for
    the number of snapshots that ``history.expire.min-snapshots-to-keep`` says.

    Args:
        context: The manager's context.
        table: The table.
        declared: What the project asks for; by default what the manager's own project says.

    Raises:
        UnsafeRetentionError: The table's property is not a number.
    """
    keeping = _keeping(context, table, context.retention(name_of(table)) if declared is None else declared)
    return replace(keeping, count=_own_count(context, table))


def _keeping(context: ManagerContext, table: Table, declared: RetentionDays | None) -> Keeping:
    own = _own_age(table)
    asks: list[tuple[timedelta, tuple[str, ...]]] = []
    if declared is not None:
        lines = tuple(getattr(declared, "derivation", ())) or (f"the project asks for {_days(timedelta(declared))}",)
        asks.append((timedelta(days=declared), lines))
    if own is not None and _is_ask(context, table, MAX_AGE_PROPERTY):
        asks.append((own, (f"the table's {MAX_AGE_PROPERTY} asks for {_days(own)}",)))
    if asks:
        return Keeping(max(age for age, _ in asks), tuple(line for _, lines in asks for line in lines), declared=True)
    if own is not None:
        line = f"no level asks for a retention: the table's {MAX_AGE_PROPERTY} is {_days(own)}"
        return Keeping(own, (line,), declared=False)
    age = timedelta(days=context.config.default_retention_days)
    return Keeping(age, (f"no level asks for a retention: the default is {_days(age)}",), declared=False)


def _is_ask(context: ManagerContext, table: Table, name: str) -> bool:
    """Whether a table's property says something that not every new table is given."""
    # A table may have got it from a manager with other defaults than this one's.
    given = {context.config.default_properties.get(name), PRODUCTION_PROPERTIES[name], None}
    return table.metadata.properties.get(name) not in given


def least_snapshots(table: Table) -> int:
    """Return how many snapshots of each branch a table's own property keeps.

    Raises:
        UnsafeRetentionError: The property is not a number.
    """
    text = table.metadata.properties.get(MIN_SNAPSHOTS_PROPERTY, "1")
    try:
        return int(text)
    except ValueError:
        msg = f"The property {MIN_SNAPSHOTS_PROPERTY} of table '{name_of(table)}' is '{text}', which is not a number."
        raise UnsafeRetentionError(msg, hint="Set it to a number of snapshots.", table=name_of(table)) from None


def moment_before(age: timedelta) -> datetime:
    """Return the moment that long ago, or the first there is."""
    now = datetime.now(UTC)
    return now - min(age, now - _FIRST)


def _own_count(context: ManagerContext, table: Table) -> int:
    return least_snapshots(table) if _is_ask(context, table, MIN_SNAPSHOTS_PROPERTY) else 1


def _own_age(table: Table) -> timedelta | None:
    text = table.metadata.properties.get(MAX_AGE_PROPERTY)
    if text is None:
        return None
    try:
        millis: int | None = int(text)
    except ValueError:
        millis = None
    if millis is None or millis > _MOST_MILLIS:
        msg = f"The property {MAX_AGE_PROPERTY} of table '{name_of(table)}' is '{text}', which is not an age."
        raise UnsafeRetentionError(msg, hint="Set it to a number of milliseconds.", table=name_of(table))
    return timedelta(milliseconds=min(millis, LONGEST_DAYS * _MILLIS_OF_DAY))


def _days(age: timedelta) -> str:
    count = age / _DAY
    return "1 day" if count == 1 else f"{count:g} days"
