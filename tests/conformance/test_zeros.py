"""0.0 and -0.0: equal in SQL, but different Iceberg partitions."""

from __future__ import annotations

import pyarrow as pa
import pytest

from floe_testing.audit import assert_audited

pytestmark = pytest.mark.spark
pytest_plugins = ["floe_testing.oracles.two_engines"]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()], ids=str)
@pytest.mark.parametrize("values", [[-0.0, 0.0], [0.0, -0.0]], ids=str)
def test_both_zeros_are_found_in_a_manifest_that_holds_both(two_engines, kind, values):
    manager = two_engines.manager
    manager.create_table("n.t", pa.schema([("x", kind)]), ["x"])
    manager.append("n.t", pa.table({"x": pa.array(values, kind)}))
    expected = sorted(map(repr, values))
    for zero in ("0.0", "-0.0"):
        name = "float" if kind == pa.float32() else "double"
        found = two_engines.sql(f"SELECT x FROM floe.n.t WHERE x = {name}('{zero}')")
        # Java skips the partition with the other zero.
        assert zero in [repr(row["x"]) for row in found]
        assert sorted(map(repr, manager.scan("n.t", row_filter=f"x = {zero}")["x"].to_pylist())) == expected
    assert_audited(manager, "n.t")
