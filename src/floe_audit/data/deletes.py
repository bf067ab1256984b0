"""Check delete files and deletion vectors: contents, referenced data files and positions."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from floe_audit.files.avro import DamagedFileError
from floe_audit.files.puffin import read_blob, read_footer, read_vector
from floe_audit.spec.columns import nodes
from floe_audit.spec.rules import Rule

if TYPE_CHECKING:
    from floe_audit.files.access import FileSource
    from floe_audit.files.open_files import OpenFile
    from floe_audit.manifests.manifest_files import ContentFile
    from floe_audit.report import Findings

PATH_ID, POSITION_ID = 2147483546, 2147483545
Positions = np.ndarray[Any, np.dtype[np.int64]]


@dataclass
class DeletedPositions:
    """The positions deleted by one delete file or deletion vector, by data file."""

    by_file: dict[str, Positions] = field(default_factory=dict)


def read_position_deletes(file: ContentFile, source: OpenFile, findings: Findings) -> DeletedPositions:
    """Read and check a position delete file."""
    names = {one.id: one.path[0] for one in nodes(source.schema) if len(one.path) == 1}
    findings.equal(Rule.DATA_RECORD_COUNT, "The record count", source.rows, file.records, file=file.path)
    what = "The position delete file does not have the columns file_path and pos"
    if not findings.check(PATH_ID in names and POSITION_ID in names, Rule.DELETE_COLUMNS, what, file=file.path):
        return DeletedPositions()
    found: dict[str, list[Positions]] = defaultdict(list)
    last: tuple[bytes, int] | None = None
    in_order = True
    for batch in source.batches([names[PATH_ID], names[POSITION_ID]]):
        paths, positions = batch.column(names[PATH_ID]), batch.column(names[POSITION_ID])
        if not findings.check(
            not paths.null_count and not positions.null_count,
            Rule.DELETE_COLUMNS,
            "A deleted position is null",
            file=file.path,
        ):
            continue
        encoded = paths.cast(pa.string()).dictionary_encode()
        keys = [one.as_py() for one in encoded.dictionary]
        indices = encoded.indices.to_numpy(zero_copy_only=False)
        numbers = positions.cast(pa.int64()).to_numpy(zero_copy_only=False)
        ranks = np.argsort(np.argsort([key.encode() for key in keys])) if keys else np.empty(0, dtype=np.int64)
        order = ranks[indices] if len(indices) else indices
        steps = np.diff(order)
        in_order &= bool((steps >= 0).all()) and bool((np.diff(numbers)[steps == 0] >= 0).all())
        if len(indices):
            first = (keys[indices[0]].encode(), int(numbers[0]))
            in_order &= last is None or last <= first
            last = (keys[indices[-1]].encode(), int(numbers[-1]))
        for place, key in enumerate(keys):
            found[key].append(numbers[indices == place])
    what = "The deleted positions are not sorted by file and position"
    findings.check(in_order, Rule.DELETE_SORTED, what, file=file.path)
    if file.referenced is not None:
        ok = set(found) <= {file.referenced}
        what = f"The delete file deletes rows of files other than {file.referenced}"
        findings.check(ok, Rule.DELETE_REFERENCE, what, file=file.path)
    findings.count("rows", source.rows)
    return DeletedPositions({key: np.unique(np.concatenate(parts)) for key, parts in found.items()})


def read_deletion_vector(file: ContentFile, files: FileSource, findings: Findings) -> DeletedPositions:
    """Read and check a deletion vector."""
    try:
        footer = read_footer(files, file.path)
        blob = next((one for one in footer.blobs if one["offset"] == file.offset), None)
        what = f"The file has no blob at offset {file.offset}"
        if not findings.check(blob is not None, Rule.DELETE_VECTOR, what, file=file.path):
            return DeletedPositions()
        assert blob is not None  # noqa: S101 - checked above
        properties = blob.get("properties") or {}
        facts: tuple[tuple[str, object, object], ...] = (
            ("type", "deletion-vector-v1", blob["type"]),
            ("length", file.length, blob["length"]),
            ("referenced-data-file", file.referenced, properties.get("referenced-data-file")),
            ("cardinality", str(file.records), properties.get("cardinality")),
            ("compression-codec", None, blob.get("compression-codec")),
            ("snapshot-id", -1, blob["snapshot-id"]),
            ("sequence-number", -1, blob["sequence-number"]),
        )
        for name, expected, found in facts:
            findings.check(
                expected == found,
                Rule.DELETE_VECTOR,
                f"The {name} of the deletion vector blob is wrong",
                file=file.path,
                expected=str(expected),
                found=str(found),
            )
        positions = read_vector(read_blob(files, file.path, blob))
    except DamagedFileError as err:
        findings.breach(Rule.FILE_UNREADABLE, f"Cannot read the deletion vector: {err}", file=file.path)
        return DeletedPositions()
    findings.equal(Rule.DATA_RECORD_COUNT, "The record count", len(positions), file.records, file=file.path)
    return DeletedPositions({file.referenced or "": positions})


def check_positions(
    deleted: DeletedPositions, delete: ContentFile, targets: dict[str, ContentFile], findings: Findings
) -> None:
    """Check that deleted positions exist in the referenced data files that are still live."""
    for path, positions in deleted.by_file.items():
        target = targets.get(path)
        if target is None or not len(positions):
            continue
        ok = int(positions[0]) >= 0 and int(positions[-1]) < target.records
        findings.check(
            ok,
            Rule.DELETE_POSITION,
            f"A deleted position is not a row of {path}",
            file=delete.path,
            expected=f"0 to {target.records - 1}",
            found=f"{positions[0]} to {positions[-1]}",
        )
