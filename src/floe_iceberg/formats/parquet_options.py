"""Parquet writer options from table properties."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from floe_core.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MIB = 1024 * 1024
_CODEC = "write.parquet.compression-codec"
_LEVEL = "write.parquet.compression-level"
_ROW_GROUP_BYTES = "write.parquet.row-group-size-bytes"
_ROW_GROUP_ROWS = "write.parquet.row-group-limit"
_ROW_GROUP_LIMIT = 1_048_576

# Java's names of Parquet codecs mapped to PyArrow's; Iceberg's lz4 is Hadoop's framing, which only Hadoop reads.
_CODECS = {
    "uncompressed": "none",
    "none": "none",
    "snappy": "snappy",
    "gzip": "gzip",
    "brotli": "brotli",
    "lz4": "lz4",
    "lz4_raw": "lz4",
    "zstd": "zstd",
}
# Levels of each codec; as in Java, codecs without levels ignore the property.
_LEVELS = {"gzip": range(1, 10), "brotli": range(12), "zstd": range(1, 23)}
_GZIP_NAMES = {
    "best_speed": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "best_compression": 9,
    "default_compression": 6,
}


def with_statistics(schema: pa.Schema) -> bool | list[str]:
    """Return the columns for which Parquet stores statistics, True for all; UUIDs get none.

    Iceberg's Java implementation compares UUIDs as two signed numbers and Parquet by their bytes, so Java would skip
    row groups that contain the UUID.
    """
    found = [(path, kind) for field in schema for path, kind in _leaves(field.name, field.type)]
    kept = [path for path, kind in found if kind != pa.uuid()]
    return True if len(kept) == len(found) else kept


def _leaves(path: str, kind: pa.DataType) -> Iterator[tuple[str, pa.DataType]]:
    if pa.types.is_struct(kind):
        children = [
            (f"{path}.{kind.field(position).name}", kind.field(position).type) for position in range(kind.num_fields)
        ]
    elif pa.types.is_map(kind):
        children = [(f"{path}.key_value.key", kind.key_type), (f"{path}.key_value.value", kind.item_type)]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        children = [(f"{path}.list.element", kind.value_type)]
    else:
        yield path, kind
        return
    for child, inner in children:
        yield from _leaves(child, inner)


def positive_int(properties: Mapping[str, str], key: str, default: int) -> int:
    """Parse a property that must be a positive integer.

    Raises:
        ConfigurationError: The value is invalid.
    """
    text = properties.get(key, str(default)).strip()
    if not text.isdigit() or int(text) < 1:
        msg = f"The table's {key} is '{text}', which is not a positive integer."
        raise ConfigurationError(msg, hint="Set the property to a number of at least 1.")
    return int(text)


def writer_options(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the Parquet writer options.

    Raises:
        ConfigurationError: The codec, its level or a size is invalid.
    """
    spelled = properties.get(_CODEC, "zstd")
    codec = _CODECS.get(spelled.strip().lower())
    if codec is None:
        msg = f"The table's {_CODEC} is '{spelled}', which floe does not support."
        raise ConfigurationError(msg, hint=f"Codecs: {', '.join(_CODECS)}.")
    return {
        "compression": codec,
        "compression_level": _level(properties.get(_LEVEL), codec),
        "data_page_size": positive_int(properties, "write.parquet.page-size-bytes", _MIB),
        "dictionary_pagesize_limit": positive_int(properties, "write.parquet.dict-size-bytes", 2 * _MIB),
        "write_batch_size": positive_int(properties, "write.parquet.page-row-limit", 20_000),
        # Costs about 1 % of a write, and detects every byte that a disk or network corrupts later.
        "write_page_checksum": True,
    }


def _level(spelled: str | None, codec: str) -> int | None:
    if not spelled or codec not in _LEVELS:
        return None
    text = spelled.strip().lower()
    level = _GZIP_NAMES.get(text) if codec == "gzip" else None
    if level is None and text.isdigit():
        level = int(text)
    if level not in _LEVELS[codec]:
        allowed = _LEVELS[codec]
        msg = f"The table's {_LEVEL} is '{spelled}', which {codec} does not support."
        raise ConfigurationError(msg, hint=f"Set a number from {allowed.start} to {allowed.stop - 1}.")
    return level


def row_group_rows(rows: pa.Table, properties: Mapping[str, str]) -> int:
    """Return the number of rows per row group."""
    limit = positive_int(properties, _ROW_GROUP_ROWS, _ROW_GROUP_LIMIT)
    group_bytes = positive_int(properties, _ROW_GROUP_BYTES, 128 * _MIB)
    width = max(1.0, rows.nbytes / max(1, rows.num_rows))
    return max(1, min(limit, int(group_bytes / width)))
