"""The rules of an audit, each with a stable name."""

from __future__ import annotations

from enum import StrEnum


class Rule(StrEnum):
    """A rule of the Iceberg specification that an audit checks."""

    # Any file
    FILE_MISSING = "file.missing"
    FILE_UNREADABLE = "file.unreadable"

    # Table metadata
    METADATA_FIELD = "metadata.required-field"
    METADATA_VERSION = "metadata.format-version"
    METADATA_UUID = "metadata.table-uuid"
    METADATA_LOCATION = "metadata.location"
    METADATA_COLUMN_IDS = "metadata.column-ids"
    METADATA_LAST_COLUMN_ID = "metadata.last-column-id"
    METADATA_SCHEMA = "metadata.schema"
    METADATA_SCHEMA_ID = "metadata.current-schema-id"
    METADATA_IDENTIFIER_FIELDS = "metadata.identifier-fields"
    METADATA_DEFAULTS = "metadata.default-values"
    METADATA_PROMOTION = "metadata.type-promotion"
    METADATA_SPEC = "metadata.partition-spec"
    METADATA_SPEC_ID = "metadata.default-spec-id"
    METADATA_LAST_PARTITION_ID = "metadata.last-partition-id"
    METADATA_SORT_ORDER = "metadata.sort-order"
    METADATA_SORT_ORDER_ID = "metadata.default-sort-order-id"
    METADATA_PROPERTIES = "metadata.properties"
    METADATA_LAST_UPDATED = "metadata.last-updated"
    METADATA_SNAPSHOT_LOG = "metadata.snapshot-log"
    METADATA_LOG = "metadata.metadata-log"
    METADATA_REFS = "metadata.refs"
    METADATA_CURRENT_SNAPSHOT = "metadata.current-snapshot-id"
    METADATA_LAST_SEQUENCE_NUMBER = "metadata.last-sequence-number"
    METADATA_NEXT_ROW_ID = "metadata.next-row-id"
    METADATA_ENCRYPTION_KEYS = "metadata.encryption-keys"

    # Snapshots
    SNAPSHOT_ID = "snapshot.id"
    SNAPSHOT_FIELD = "snapshot.required-field"
    SNAPSHOT_PARENT = "snapshot.parent"
    SNAPSHOT_SEQUENCE_NUMBER = "snapshot.sequence-number"
    SNAPSHOT_SCHEMA_ID = "snapshot.schema-id"
    SNAPSHOT_OPERATION = "snapshot.operation"
    SNAPSHOT_FIRST_ROW_ID = "snapshot.first-row-id"
    SNAPSHOT_ADDED_ROWS = "snapshot.added-rows"
    SNAPSHOT_DUPLICATE_FILE = "snapshot.duplicate-file"
    SNAPSHOT_CONTINUITY = "snapshot.continuity"
    SUMMARY_CHANGE = "summary.change"
    SUMMARY_TOTAL = "summary.total"
    SUMMARY_PARTITIONS = "summary.changed-partition-count"

    # Manifest lists
    LIST_HEADER = "manifest-list.header"
    LIST_SCHEMA = "manifest-list.avro-schema"
    LIST_LENGTH = "manifest-list.manifest-length"
    LIST_SPEC_ID = "manifest-list.partition-spec-id"
    LIST_CONTENT = "manifest-list.content"
    LIST_SEQUENCE_NUMBER = "manifest-list.sequence-number"
    LIST_MIN_SEQUENCE_NUMBER = "manifest-list.min-sequence-number"
    LIST_ADDED_SNAPSHOT = "manifest-list.added-snapshot-id"
    LIST_FILE_COUNTS = "manifest-list.file-counts"
    LIST_ROW_COUNTS = "manifest-list.row-counts"
    LIST_SUMMARIES = "manifest-list.partition-summaries"
    LIST_DUPLICATE = "manifest-list.duplicate-manifest"
    LIST_FIRST_ROW_ID = "manifest-list.first-row-id"

    # Manifests
    MANIFEST_HEADER = "manifest.header"
    MANIFEST_SCHEMA = "manifest.avro-schema"
    MANIFEST_STATUS = "manifest.status"
    MANIFEST_SNAPSHOT_ID = "manifest.snapshot-id"
    MANIFEST_SEQUENCE_NUMBER = "manifest.sequence-number"
    MANIFEST_CONTENT = "manifest.content"
    MANIFEST_FIELD = "manifest.required-field"
    MANIFEST_PARTITION = "manifest.partition"
    MANIFEST_FILE_CHANGED = "manifest.file-changed"
    MANIFEST_FIRST_ROW_ID = "manifest.first-row-id"
    MANIFEST_SORT_ORDER = "manifest.sort-order-id"
    MANIFEST_METRICS = "manifest.metrics"
    MANIFEST_EQUALITY_IDS = "manifest.equality-ids"
    MANIFEST_DELETION_VECTOR = "manifest.deletion-vector"

    # Data files
    DATA_SIZE = "data-file.size"
    DATA_RECORD_COUNT = "data-file.record-count"
    DATA_FORMAT = "data-file.format"
    DATA_FIELD_IDS = "data-file.field-ids"
    DATA_TYPES = "data-file.types"
    DATA_REQUIRED = "data-file.required-column"
    DATA_PARTITION = "data-file.partition"
    DATA_VALUE_COUNTS = "data-file.value-counts"
    DATA_NULL_COUNTS = "data-file.null-counts"
    DATA_NAN_COUNTS = "data-file.nan-counts"
    DATA_BOUNDS = "data-file.bounds"
    DATA_STATISTICS = "data-file.parquet-statistics"
    DATA_COLUMN_SIZES = "data-file.column-sizes"
    DATA_SPLIT_OFFSETS = "data-file.split-offsets"
    DATA_SORTED = "data-file.sorted"
    DATA_ROW_IDS = "data-file.row-ids"

    # Deletes
    DELETE_COLUMNS = "delete-file.columns"
    DELETE_SORTED = "delete-file.sorted"
    DELETE_REFERENCE = "delete-file.referenced-data-file"
    DELETE_POSITION = "delete-file.position"
    DELETE_VECTOR = "delete-file.deletion-vector"

    # Statistics
    STATISTICS_SNAPSHOT = "statistics.snapshot"
    STATISTICS_FILE = "statistics.file"
    PARTITION_STATISTICS_SNAPSHOT = "partition-statistics.snapshot"
    PARTITION_STATISTICS_FILE = "partition-statistics.file"
