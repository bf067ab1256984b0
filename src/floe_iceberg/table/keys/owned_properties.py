"""Table properties that users cannot set, and properties that are dangerous to change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_iceberg.commit.own_files import is_collected
from floe_iceberg.table.history.legal_hold import LEGAL_HOLD, hold_of
from floe_iceberg.table.keys.dependent_properties import NAME_MAPPING
from floe_iceberg.table.keys.key_property import KEYS_PROPERTY, NULL_KEYS_PROPERTY

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT_VERSION = "format-version"

_ICEBERG_PROPERTIES = frozenset(
    {
        "uuid",
        "snapshot-count",
        "current-snapshot-id",
        "current-snapshot-summary",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    }
)
_GC_ENABLED = "gc.enabled"
_FLOE_PREFIX = "floe."
_PATHS = frozenset({"write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path"})


def reserved_reason(key: str) -> str | None:
    """Return why a property cannot be set manually; None if it can."""
    if key == FORMAT_VERSION:
        return "The format version is not a property. Upgrade it with Spark SQL: ALTER TABLE … SET TBLPROPERTIES."
    if key in _ICEBERG_PROPERTIES:
        return "Iceberg manages it."
    if key in {KEYS_PROPERTY, NULL_KEYS_PROPERTY}:
        return "floe records upsert keys in it: declare keys in floe.yaml, then run floe apply."
    if key.startswith(_FLOE_PREFIX) and key != LEGAL_HOLD:
        return "floe manages it."
    return None


def change_risk(key: str, before: Mapping[str, str], value: str | None) -> str | None:
    """Return the risk of changing a property; None if it is harmless.

    Args:
        key: The property.
        before: The table's properties.
        value: The new value; None removes the property.
    """
    after = {name: text for name, text in before.items() if name != key} | ({key: value} if value is not None else {})
    if key == _GC_ENABLED and is_collected(after) and not is_collected(before):
        return "Expiry and purges may then delete files that other tables share"
    if key == LEGAL_HOLD and hold_of(before) is not None and hold_of(after) is None:
        return "This lifts a legal hold"
    if key == NAME_MAPPING and key in before:
        return "Files written outside of Iceberg are read through it"
    if key in _PATHS:
        return "New files go to another location, and maintenance skips files outside the table's own locations"
    return None
