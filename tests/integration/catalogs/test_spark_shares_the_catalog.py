"""Spark and PyIceberg on the same SQL catalog see each other's changes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from floe_core.dataplane import ReadRequest, WriteKind, WriteRequest
from floe_core.schemas import CompiledArtifacts
from floe_iceberg.catalog.connection import open_project

pytestmark = [
    pytest.mark.spark,
    # When a driver stops, py4j leaves its sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


def shared_rows(project):
    """Write with both engines and return what each of them reads."""
    project.namespaces.create("bronze.raw", {"team": "ingest"})
    table = project.catalog.create_table("bronze.raw.events", ROWS.schema)
    table.append(ROWS)
    plane = project.data_plane()
    plane.write(WriteRequest("bronze.raw.events", WriteKind.APPEND, pa.table({"id": pa.array([3], pa.int64())})))
    by_spark = plane.read_arrow(ReadRequest("bronze.raw.events"))
    by_pyiceberg = table.refresh().scan().to_arrow()
    return sorted(by_spark["id"].to_pylist()), sorted(by_pyiceberg["id"].to_pylist())


def open_as(root, name, **catalog):
    settings = {"name": "demo", "floe_version": "0.1.0", "catalog": {"name": name, **catalog}}
    return open_project(CompiledArtifacts.model_validate(settings).rooted_at(root))


@pytest.mark.parametrize("folder", ["plain", "with space", "größe-日本"])
def test_both_engines_share_a_sqlite_file(tmp_path, folder):
    with open_as(tmp_path / folder, f"sqlite_{len(folder)}") as project:
        assert shared_rows(project) == ([1, 2, 3], [1, 2, 3])


def test_both_engines_share_a_postgres_database(tmp_path, postgres_catalog):
    with open_as(tmp_path, "pg_shared", **postgres_catalog) as project:
        assert shared_rows(project) == ([1, 2, 3], [1, 2, 3])
