"""Single flipped bytes: the auditor never crashes, names the file, and misses only changes without consequences."""

from __future__ import annotations

import io
import json
import random

import fastavro
import pytest

from floe_testing.faults.planting import plain

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("audit")]

FLIPS = 40
# The minimum share of detected flips in such a file on these tables. The other flips are in names, comments,
# properties and copies of the schema, which make up much of such small files.
SHARES = {
    "metadata": 0.75,
    "manifest list": 0.35,
    "manifest": 0.3,
    "data": 0.4,
    "position deletes": 0.2,
    "equality deletes": 0.35,
    "deletion vector": 0.8,
    "statistics": 0.75,
    "partition statistics": 0.35,
}


def files_of(table, version):
    document = table.document
    found = {
        "metadata": table.metadata_location,
        "manifest list": table.current["manifest-list"],
        "manifest": table.lines(0)[0]["manifest_path"],
        "data": table.file(0)[0],
        "statistics": document["statistics"][0]["statistics-path"],
        "partition statistics": document["partition-statistics"][0]["statistics-path"],
    }
    if version == 2:
        found |= {"position deletes": table.file(1)[0], "equality deletes": table.file(2)[0]}
    if version == 3:
        found |= {"deletion vector": table.file(1)[0]}
    return found


def facts(kind: str, content: bytes) -> object:
    """Return what a metadata file says that decides what a reader reads."""
    if kind == "metadata":
        document = json.loads(content)
        parts = {
            "snapshots": (
                "snapshot-id",
                "parent-snapshot-id",
                "sequence-number",
                "manifest-list",
                "first-row-id",
            ),
            "schemas": ("schema-id", "fields"),
            "partition-specs": ("spec-id", "fields"),
        }
        single = ("format-version", "current-schema-id", "default-spec-id", "current-snapshot-id")
        return (
            {key: document.get(key) for key in single},
            {key: [{name: one.get(name) for name in names} for one in document[key]] for key, names in parts.items()},
            [one["summary"]["operation"] for one in document["snapshots"]],
            sorted((ref["snapshot-id"], ref["type"]) for ref in document["refs"].values()),
        )
    reader = fastavro.reader(io.BytesIO(content))
    ids = {one["name"]: one.get("field-id") for one in reader.writer_schema["fields"]}
    return [sorted((str(ids[key]), repr(list(walk(value)))) for key, value in record.items()) for record in reader]


def walk(value):
    """Yield the values of a record in order, without the names a writer chose."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from walk(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from walk(inner)
    else:
        yield value


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        *((version, kind) for version in (2, 3) for kind in ("metadata", "manifest list", "manifest", "data")),
        (2, "position deletes"),
        (2, "equality deletes"),
        (3, "deletion vector"),
        (2, "statistics"),
        (2, "partition statistics"),
    ],
)
def test_a_wrong_byte_is_found_or_changes_no_fact(java_table, version, kind):
    path = files_of(java_table(version), version)[kind]
    content = java_table(version).read(path)
    dice = random.Random(version * 1000 + len(kind))  # noqa: S311 - a seed, so that a failure can be repeated
    found = named = 0
    for _ in range(FLIPS):
        place, flip = dice.randrange(len(content)), dice.randrange(1, 256)
        damaged = bytearray(content)
        damaged[place] ^= flip
        table = java_table(version)
        table.replace(path, bytes(damaged))
        report = table.audit()
        if report.ok and kind in {"metadata", "manifest list", "manifest"}:
            assert facts(kind, bytes(damaged)) == facts(kind, content), f"byte {place} ^ {flip} changed a fact unseen"
        found += not report.ok
        named += any(plain(breach.file) == plain(path) for breach in report.breaches)
    assert found / FLIPS >= SHARES[kind]
    assert named >= 0.85 * found


@pytest.mark.parametrize("kind", ["metadata", "manifest list", "manifest", "data", "statistics"])
@pytest.mark.parametrize("damage", ["empty", "half", "zeros"])
def test_a_file_that_lost_its_content_is_named(java_table, kind, damage):
    path = files_of(java_table(2), 2)[kind]
    content = java_table(2).read(path)
    table = java_table(2)
    table.replace(path, {"empty": b"", "half": content[: len(content) // 2], "zeros": bytes(len(content))}[damage])
    report = table.audit()
    assert any(plain(breach.file) == plain(path) and breach.rule == "file.unreadable" for breach in report.breaches)
