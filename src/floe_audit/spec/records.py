"""Read the records of manifests and manifest lists by field id, as the specification requires."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from floe_audit.files.avro import unwrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Expected = tuple[str, frozenset[str], int, bool]
"""Name of a field, its allowed Avro types, the first format version with the field, and whether it is required."""

_INT, _LONG, _TEXT, _BYTES = frozenset({"int"}), frozenset({"long"}), frozenset({"string"}), frozenset({"bytes"})
_INTS, _FLAG = frozenset({"int", "long"}), frozenset({"boolean"})
_MAP, _LIST, _RECORD = frozenset({"array", "map"}), frozenset({"array"}), frozenset({"record"})

LIST_FIELDS: dict[int, Expected] = {
    500: ("manifest_path", _TEXT, 1, True),
    501: ("manifest_length", _LONG, 1, True),
    502: ("partition_spec_id", _INT, 1, True),
    517: ("content", _INT, 2, True),
    515: ("sequence_number", _LONG, 2, True),
    516: ("min_sequence_number", _LONG, 2, True),
    503: ("added_snapshot_id", _LONG, 1, True),
    504: ("added_files_count", _INT, 2, True),
    505: ("existing_files_count", _INT, 2, True),
    506: ("deleted_files_count", _INT, 2, True),
    512: ("added_rows_count", _LONG, 2, True),
    513: ("existing_rows_count", _LONG, 2, True),
    514: ("deleted_rows_count", _LONG, 2, True),
    507: ("partitions", _LIST, 1, False),
    519: ("key_metadata", _BYTES, 1, False),
    520: ("first_row_id", _LONG, 3, False),
}
SUMMARY_FIELDS: dict[int, Expected] = {
    509: ("contains_null", _FLAG, 1, True),
    518: ("contains_nan", _FLAG, 1, False),
    510: ("lower_bound", _BYTES, 1, False),
    511: ("upper_bound", _BYTES, 1, False),
}
ENTRY_FIELDS: dict[int, Expected] = {
    0: ("status", _INT, 1, True),
    1: ("snapshot_id", _LONG, 1, False),
    3: ("sequence_number", _LONG, 2, False),
    4: ("file_sequence_number", _LONG, 2, False),
    2: ("data_file", _RECORD, 1, True),
}
FILE_FIELDS: dict[int, Expected] = {
    134: ("content", _INT, 2, True),
    100: ("file_path", _TEXT, 1, True),
    101: ("file_format", _TEXT, 1, True),
    102: ("partition", _RECORD, 1, True),
    103: ("record_count", _LONG, 1, True),
    104: ("file_size_in_bytes", _LONG, 1, True),
    108: ("column_sizes", _MAP, 1, False),
    109: ("value_counts", _MAP, 1, False),
    110: ("null_value_counts", _MAP, 1, False),
    137: ("nan_value_counts", _MAP, 1, False),
    125: ("lower_bounds", _MAP, 1, False),
    128: ("upper_bounds", _MAP, 1, False),
    131: ("key_metadata", _BYTES, 1, False),
    132: ("split_offsets", _LIST, 1, False),
    135: ("equality_ids", _LIST, 2, False),
    140: ("sort_order_id", _INT, 1, False),
    142: ("first_row_id", _LONG, 3, False),
    143: ("referenced_data_file", _TEXT, 2, False),
    144: ("content_offset", _LONG, 3, False),
    145: ("content_size_in_bytes", _LONG, 3, False),
}


# Deprecated fields, and one field that is reserved.
_DEPRECATED = {105, 106, 107, 111, 141}


@dataclass(frozen=True)
class Projection:
    """Maps record fields by id."""

    names: Mapping[str, str]
    """Field name in the specification to field name in the file."""

    def read(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return a record with the field names of the specification; missing fields are None."""
        return {name: record.get(written) for name, written in self.names.items()}


def project(schema: Any, fields: Mapping[int, Expected]) -> Projection:
    """Match the fields of a record schema with those of the specification."""
    written = {one.get("field-id"): one["name"] for one in record_fields(schema)}
    return Projection({expected[0]: written.get(identity, "") for identity, expected in fields.items()})


def record_fields(schema: Any) -> list[dict[str, Any]]:
    """Return the fields of a record schema."""
    plain = unwrapped(schema)
    if isinstance(plain, dict) and isinstance(plain.get("type"), dict):
        plain = plain["type"]
    members = plain.get("fields") if isinstance(plain, dict) else None
    return [one for one in members or [] if isinstance(one, dict) and isinstance(one.get("name"), str)]


def field_schema(schema: Any, identity: int) -> Any:
    """Return the Avro type of a record's field."""
    return next((one["type"] for one in record_fields(schema) if one.get("field-id") == identity), None)


def check_record(schema: Any, fields: Mapping[int, Expected], version: int, complain: Callable[[str], None]) -> None:
    """Report missing fields and wrong types in a record schema."""
    present: dict[object, dict[str, Any]] = {}
    for one in record_fields(schema):
        identity = one.get("field-id")
        if not isinstance(identity, int) or identity in present:
            complain(f"Field {one['name']!r} has no unique field id")
        elif identity not in fields and identity not in _DEPRECATED:
            complain(f"Field {one['name']!r} has the unknown field id {identity}")
        present[identity] = one
    for identity, (name, kinds, since, required) in fields.items():
        if version < since:
            continue
        member = present.get(identity)
        if member is None:
            if required:
                complain(f"Field {identity} ({name}) is missing")
            continue
        kind = unwrapped(member["type"])
        shape = kind.get("type") if isinstance(kind, dict) else kind
        if isinstance(shape, dict):
            shape = shape.get("type")
        if shape not in kinds:
            complain(f"Field {identity} ({name}) has the wrong type {shape}")


def pairs(value: Any) -> dict[int, Any] | None:
    """Read a map with integer keys, which Avro stores as a list of key-value records."""
    if value is None:
        return None
    if isinstance(value, dict):
        return {int(key): item for key, item in value.items()}
    return {one["key"]: one["value"] for one in value}
