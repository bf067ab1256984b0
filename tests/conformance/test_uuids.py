"""UUIDs: Java orders them as signed numbers, Parquet as bytes; filters must not lose rows."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

from floe_iceberg import CommitStrategy, Engine
from floe_testing.audit import assert_audited

pytestmark = pytest.mark.spark
pytest_plugins = ["floe_testing.oracles.two_engines"]

# Both halves of a UUID, with and without the bit that Java treats as the sign.
NUMBERS = [0, 7, 2**63, 2**64 - 1, 2**127 - 1, 2**127, 2**127 + 2**63, 2**128 - 1]


@pytest.mark.parametrize("spec", [[], ["u"], ["bucket(2, u)"]], ids=str)
@pytest.mark.parametrize("numbers", [NUMBERS, NUMBERS[1:3]], ids=len)
def test_spark_finds_every_uuid_that_floe_wrote(two_engines, spec, numbers):
    manager = two_engines.manager
    values = [uuid.UUID(int=number) for number in numbers]
    rows = pa.table({"u": pa.array([one.bytes for one in values], pa.uuid())})
    manager.create_table("n.t", rows.schema, spec)
    manager.append("n.t", rows, commit_strategy=CommitStrategy.MERGE)
    for one in values:
        found = two_engines.sql(f"SELECT u FROM floe.n.t WHERE u = '{one}'")
        assert found == [{"u": str(one)}]
        assert manager.scan("n.t", row_filter=f"u = '{one}'")["u"].to_pylist() == [one]
    # Spark misses rows of its own files, whose statistics are in byte order, until floe rewrites them.
    two_engines.sql("INSERT INTO floe.n.t SELECT * FROM floe.n.t")
    manager.rewrite_manifests("n.t", engine=Engine.ARROW)
    manager.compact_table("n.t", engine=Engine.ARROW)
    for one in values:
        assert len(two_engines.sql(f"SELECT u FROM floe.n.t WHERE u = '{one}'")) == 2
        assert manager.scan("n.t", row_filter=f"u = '{one}'").num_rows == 2
    assert_audited(manager, "n.t")
