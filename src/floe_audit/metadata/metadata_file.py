"""Read the table metadata file, and check each of its fields."""

from __future__ import annotations

import functools
import gzip
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from floe_audit.spec.rules import Rule
from floe_audit.spec.schemas import MalformedError, Schema, parse_schema, promotes
from floe_audit.spec.specs import FIRST_PARTITION_ID, SortField, Spec, parse_order, parse_spec

if TYPE_CHECKING:
    from floe_audit.report import Findings
    from floe_audit.spec.schemas import Field, Type
    from floe_audit.spec.transforms import Transform

_GZIP = b"\x1f\x8b"
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_VERSIONS = (1, 2, 3)
ROW_LINEAGE = 3
_FIRST_RESERVED_ID = 2147483447
_REQUIRED: dict[str, tuple[int, type]] = {
    # The first version that requires the field, and its type.
    "format-version": (1, int),
    "location": (1, str),
    "last-updated-ms": (1, int),
    "last-column-id": (1, int),
    "table-uuid": (2, str),
    "last-sequence-number": (2, int),
    "schemas": (2, list),
    "current-schema-id": (2, int),
    "partition-specs": (2, list),
    "default-spec-id": (2, int),
    "last-partition-id": (2, int),
    "sort-orders": (2, list),
    "default-sort-order-id": (2, int),
    "next-row-id": (3, int),
}
_OPTIONAL: dict[str, type] = {
    "properties": dict,
    "current-snapshot-id": int,
    "snapshots": list,
    "snapshot-log": list,
    "metadata-log": list,
    "refs": dict,
    "statistics": list,
    "partition-statistics": list,
    "encryption-keys": list,
}


@dataclass(frozen=True)
class TableMetadata:
    """Parsed table metadata, as far as it is valid."""

    location: str
    document: dict[str, Any]
    version: int
    schemas: dict[int, Schema] = field(default_factory=dict)
    current_schema: Schema | None = None
    specs: dict[int, Spec] = field(default_factory=dict)
    orders: dict[int, tuple[SortField, ...]] = field(default_factory=dict)
    snapshots: tuple[dict[str, Any], ...] = ()

    def source_type(self, source_id: int | None) -> Type | None:
        """Return a column's type from the newest schema that contains it."""
        newest_first = [self.current_schema, *sorted(self.schemas.values(), key=lambda one: -one.id)]
        for schema in newest_first:
            if schema is not None and source_id in schema.fields:
                return schema.fields[source_id].type
        return None

    def partition_types(self, spec: Spec) -> list[Type | None]:
        """Return the types of a spec's partition values; None for a column that is in no schema."""
        kinds = [self.source_type(one.source_id) for one in spec.fields]
        return [
            one.transform.result(kind) if kind is not None else None
            for one, kind in zip(spec.fields, kinds, strict=True)
        ]

    @functools.cached_property
    def all_fields(self) -> dict[int, Field]:
        """The fields of all schemas by id, each from the newest schema that contains it."""
        fields: dict[int, Field] = {}
        for schema in sorted(self.schemas.values(), key=lambda one: one.id):
            fields.update(schema.fields)
        if self.current_schema is not None:
            fields.update(self.current_schema.fields)
        return fields

    @property
    def name_mapping(self) -> bool:
        """Whether the table has a name mapping for files without field ids."""
        return bool((self.document.get("properties") or {}).get("schema.name-mapping.default"))

    def snapshot(self, identity: int) -> dict[str, Any] | None:
        """Return a snapshot by id."""
        return next((one for one in self.snapshots if one.get("snapshot-id") == identity), None)


def read_metadata(location: str, content: bytes, findings: Findings) -> TableMetadata | None:
    """Read and check a metadata file; return None if it cannot be read."""
    try:
        plain = gzip.decompress(content) if content[:2] == _GZIP else content
        document = json.loads(plain)
    except (ValueError, OSError, EOFError) as err:
        findings.breach(Rule.FILE_UNREADABLE, f"The metadata is not JSON: {err}", file=location)
        return None
    except Exception as err:  # noqa: BLE001 - damage can cause any error
        findings.breach(Rule.FILE_UNREADABLE, f"Cannot decompress the metadata: {err}", file=location)
        return None
    if not isinstance(document, dict):
        findings.breach(Rule.FILE_UNREADABLE, "The metadata is not a JSON object", file=location)
        return None
    version = document.get("format-version")
    if not findings.check(
        version in _VERSIONS and not isinstance(version, bool),
        Rule.METADATA_VERSION,
        "The format version is not one of 1, 2 and 3",
        file=location,
        expected="1, 2 or 3",
        found=version,
    ):
        return None
    assert isinstance(version, int)  # noqa: S101 - checked above
    _check_fields(location, document, version, findings)
    schemas, current = _check_schemas(location, document, version, findings)
    reading = TableMetadata(location, document, version, schemas, current)
    specs = _check_specs(reading, findings)
    orders = _check_orders(reading, findings)
    snapshots = tuple(one for one in _list(document, "snapshots") if isinstance(one, dict))
    return TableMetadata(location, document, version, schemas, current, specs, orders, snapshots)


def _list(document: dict[str, Any], key: str) -> list[Any]:
    value = document.get(key)
    return value if isinstance(value, list) else []


def _check_fields(location: str, document: dict[str, Any], version: int, findings: Findings) -> None:
    for name, (since, kind) in _REQUIRED.items():
        value = document.get(name)
        if value is None and version < since:
            continue
        findings.check(
            isinstance(value, kind) and not isinstance(value, bool),
            Rule.METADATA_FIELD,
            f"{name} is missing or has the wrong type",
            file=location,
            expected=kind.__name__,
            found=value if not isinstance(value, (list, dict)) else type(value).__name__,
        )
    if version == 1:
        for name, shape in (("schema", dict), ("partition-spec", list)):
            ok = isinstance(document.get(name), shape)
            findings.check(ok, Rule.METADATA_FIELD, f"{name} is missing, which version 1 requires", file=location)
    for name, kind in _OPTIONAL.items():
        value = document.get(name)
        ok = value is None or (isinstance(value, kind) and not isinstance(value, bool))
        findings.check(ok, Rule.METADATA_FIELD, f"{name} has the wrong type", file=location)
    identity = document.get("table-uuid")
    if isinstance(identity, str):
        ok = _UUID.fullmatch(identity) is not None
        findings.check(
            ok, Rule.METADATA_UUID, "table-uuid is not a UUID", file=location, found=identity, expected="a UUID"
        )
    base = document.get("location")
    findings.check(isinstance(base, str) and base, Rule.METADATA_LOCATION, "location is empty", file=location)
    properties = document.get("properties")
    if isinstance(properties, dict):
        wrong = sorted(key for key, value in properties.items() if not isinstance(value, str))
        findings.check(not wrong, Rule.METADATA_PROPERTIES, f"Property values are not strings: {wrong}", file=location)
        _check_name_mapping(location, properties, findings)
    for key in _list(document, "encryption-keys"):
        ok = isinstance(key, dict) and all(
            isinstance(key.get(one), str) for one in ("key-id", "encrypted-key-metadata")
        )
        findings.check(
            ok, Rule.METADATA_ENCRYPTION_KEYS, "An encryption key is missing its id or its data", file=location
        )


def _check_name_mapping(location: str, properties: dict[str, Any], findings: Findings) -> None:
    text = properties.get("schema.name-mapping.default")
    if not isinstance(text, str):
        return
    try:
        ok = isinstance(json.loads(text), list)
    except ValueError:
        ok = False
    findings.check(ok, Rule.METADATA_PROPERTIES, "schema.name-mapping.default is not a JSON list", file=location)


def _check_schemas(
    location: str, document: dict[str, Any], version: int, findings: Findings
) -> tuple[dict[int, Schema], Schema | None]:
    documents = _list(document, "schemas")
    if not documents and version == 1:
        documents = [document.get("schema")]
    schemas: dict[int, Schema] = {}
    for one in documents:
        try:
            schema = parse_schema(one)
        except MalformedError as err:
            findings.breach(Rule.METADATA_SCHEMA, f"A schema is malformed: {err}", file=location)
            continue
        ok = schema.id not in schemas
        findings.check(ok, Rule.METADATA_SCHEMA, f"Two schemas have the id {schema.id}", file=location)
        schemas[schema.id] = schema
        _check_schema(location, schema, document, version, findings)
    current_id = document.get("current-schema-id", 0 if version == 1 else None)
    current = schemas.get(current_id) if isinstance(current_id, int) else None
    findings.check(
        current,
        Rule.METADATA_SCHEMA_ID,
        "current-schema-id is not the id of a schema",
        file=location,
        expected=sorted(schemas),
        found=current_id,
    )
    if version == 1 and current is not None and documents and isinstance(document.get("schema"), dict):
        try:
            ok = parse_schema(document["schema"]).fields == current.fields
        except MalformedError:
            ok = False
        findings.check(ok, Rule.METADATA_SCHEMA, "schema differs from the current schema in schemas", file=location)
    _check_evolution(location, schemas, version, findings)
    return schemas, current


def _check_schema(location: str, schema: Schema, document: dict[str, Any], version: int, findings: Findings) -> None:
    last = document.get("last-column-id")
    highest = max(schema.fields, default=0)
    if isinstance(last, int):
        ok = highest <= last
        what = f"last-column-id is lower than a column id of schema {schema.id}"
        findings.check(
            ok, Rule.METADATA_LAST_COLUMN_ID, what, file=location, expected=f"at least {highest}", found=last
        )
    reserved = [one for one in schema.fields if not 0 < one <= _FIRST_RESERVED_ID]
    findings.check(not reserved, Rule.METADATA_COLUMN_IDS, f"Columns use reserved ids: {reserved}", file=location)
    for one in schema.fields.values():
        findings.check(
            one.type.since <= version,
            Rule.METADATA_SCHEMA,
            f"Column {one.path!r} has type {one.type}, which format version {version} does not support",
            file=location,
        )
        null_only = one.type.name in {"unknown", "variant", "geometry", "geography"}
        defaulted = one.default is not None or one.write_default is not None
        findings.check(
            not (null_only and defaulted) and (version >= ROW_LINEAGE or one.default is None),
            Rule.METADATA_DEFAULTS,
            f"Column {one.path!r} may not have a default value",
            file=location,
        )
        ok = one.type.name != "unknown" or not one.required
        findings.check(ok, Rule.METADATA_SCHEMA, f"Column {one.path!r} has type unknown but is required", file=location)
    for identity in schema.identifier_ids:
        identifier = schema.fields.get(identity)
        findings.check(
            identifier is not None
            and identifier.never_null
            and not identifier.repeated
            and not identifier.type.nested
            and not identifier.type.floating,
            Rule.METADATA_IDENTIFIER_FIELDS,
            f"Identifier field {identity} of schema {schema.id} is not a required, non-floating primitive column",
            file=location,
        )


def _check_evolution(location: str, schemas: dict[int, Schema], version: int, findings: Findings) -> None:
    """Check that column types only change by type promotion between schemas."""
    seen: dict[int, tuple[int, Type]] = {}
    for schema in sorted(schemas.values(), key=lambda one: one.id):
        for one in schema.fields.values():
            earlier = seen.get(one.id)
            if earlier is not None:
                # Reverting to an older schema is allowed, so a promotion in either direction is valid.
                ok = promotes(earlier[1], one.type, version) or promotes(one.type, earlier[1], version)
                what = f"Column {one.path!r} has incompatible types in schemas {earlier[0]} and {schema.id}"
                findings.check(ok, Rule.METADATA_PROMOTION, what, file=location, expected=earlier[1], found=one.type)
            seen[one.id] = (schema.id, one.type)


def _check_specs(metadata: TableMetadata, findings: Findings) -> dict[int, Spec]:
    location, document = metadata.location, metadata.document
    documents = _list(document, "partition-specs")
    if not documents and metadata.version == 1 and isinstance(document.get("partition-spec"), list):
        documents = [{"spec-id": 0, "fields": document["partition-spec"]}]
    specs: dict[int, Spec] = {}
    meaning: dict[int, tuple[int | None, Transform]] = {}
    for one in documents:
        try:
            spec = parse_spec(one)
        except MalformedError as err:
            findings.breach(Rule.METADATA_SPEC, f"A partition spec is malformed: {err}", file=location)
            continue
        ok = spec.id not in specs
        findings.check(ok, Rule.METADATA_SPEC, f"Two partition specs have the id {spec.id}", file=location)
        ok = metadata.version == 1 or all("field-id" in part for part in one["fields"])
        findings.check(ok, Rule.METADATA_SPEC, f"A field of partition spec {spec.id} has no id", file=location)
        specs[spec.id] = spec
        for part in spec.fields:
            if metadata.version > 1:
                known = meaning.setdefault(part.id, (part.source_id, part.transform))
                # Dropping a field in format version 1 replaces its transform with void, also after an upgrade.
                ok = known == (part.source_id, part.transform) or "void" in {part.transform.name, known[1].name}
                what = f"Partition field id {part.id} has different definitions in different specs"
                findings.check(ok, Rule.METADATA_SPEC, what, file=location)
            kind = metadata.source_type(part.source_id)
            if kind is not None:
                ok = part.transform.accepts(kind)
                what = f"Partition field {part.name!r} applies {part.transform} to type {kind}"
                findings.check(ok, Rule.METADATA_SPEC, what, file=location)
    default = document.get("default-spec-id", 0 if metadata.version == 1 else None)
    chosen = specs.get(default) if isinstance(default, int) else None
    if findings.check(
        chosen,
        Rule.METADATA_SPEC_ID,
        "default-spec-id is not the id of a partition spec",
        file=location,
        expected=sorted(specs),
        found=default,
    ):
        assert chosen is not None  # noqa: S101 - checked above
        _check_sources(
            metadata, [(one.name, one.source_id, one.transform) for one in chosen.fields], Rule.METADATA_SPEC, findings
        )
    highest = max((part.id for spec in specs.values() for part in spec.fields), default=FIRST_PARTITION_ID - 1)
    last = document.get("last-partition-id")
    if isinstance(last, int):
        ok = last >= highest
        what = "last-partition-id is lower than a partition field id"
        findings.check(
            ok, Rule.METADATA_LAST_PARTITION_ID, what, file=location, expected=f"at least {highest}", found=last
        )
    return specs


def _check_sources(
    metadata: TableMetadata, fields: list[tuple[str, int | None, Transform]], rule: Rule, findings: Findings
) -> None:
    """Check that the source columns of fields used for new files are in the current schema."""
    for name, source_id, transform in fields:
        if metadata.current_schema is None or source_id is None or transform.name == "void":
            continue
        source = metadata.current_schema.fields.get(source_id)
        ok = source is not None and not source.repeated and not source.type.nested
        what = f"The source column {source_id} of {name!r} is not a primitive column of the current schema"
        findings.check(ok, rule, what, file=metadata.location)


def _check_orders(metadata: TableMetadata, findings: Findings) -> dict[int, tuple[SortField, ...]]:
    location, document = metadata.location, metadata.document
    orders: dict[int, tuple[SortField, ...]] = {}
    for one in _list(document, "sort-orders"):
        try:
            identity, fields = parse_order(one)
        except MalformedError as err:
            findings.breach(Rule.METADATA_SORT_ORDER, f"A sort order is malformed: {err}", file=location)
            continue
        ok = identity not in orders and (identity == 0) == (not fields)
        what = f"Sort order {identity} is a duplicate, or breaks the rule that only order 0 is unsorted"
        findings.check(ok, Rule.METADATA_SORT_ORDER, what, file=location)
        orders[identity] = fields
    default = document.get("default-sort-order-id")
    if default is not None and orders:
        ok = default in orders
        what = "default-sort-order-id is not the id of a sort order"
        if findings.check(ok, Rule.METADATA_SORT_ORDER_ID, what, file=location, expected=sorted(orders), found=default):
            sources = [(f"sort order {default}", one.source_id, one.transform) for one in orders[default]]
            _check_sources(metadata, sources, Rule.METADATA_SORT_ORDER, findings)
    return orders
