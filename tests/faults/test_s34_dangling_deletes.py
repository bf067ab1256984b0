"""S34: compaction removes delete files that no longer apply, and keeps the others."""

from __future__ import annotations

import pyarrow as pa
import pytest

from floe_iceberg.maintenance.rewrite import Rewriter
from floe_testing.audit import assert_audited
from floe_testing.java.comparison import JavaComparison

pytestmark = pytest.mark.spark
pytest_plugins = ["floe_testing.oracles.two_engines"]

ALL = {"older_than_days": 0, "retain_last": 1}


@pytest.fixture
def engines(two_engines):
    """A table of two partitions with two data files in each, rows 1 to 8."""
    two_engines.sql("CREATE TABLE floe.n.t (id bigint, part string) USING iceberg PARTITIONED BY (part)")
    for start in (1, 3):
        rows = ", ".join(f"({n}, 'a'), ({n + 4}, 'b')" for n in (start, start + 1))
        two_engines.sql(f"INSERT INTO floe.n.t VALUES {rows}")
    return two_engines


def settled(engines, expected, *, delete_files):
    """Hold rows and delete files against both engines and the auditor."""
    assert sorted(engines.manager.scan("n.t")["id"].to_pylist()) == expected
    assert sorted(row["id"] for row in engines.sql("SELECT id FROM floe.n.t")) == expected
    listed = engines.sql("SELECT file_path, referenced_data_file FROM floe.n.t.delete_files")
    assert len(listed) == delete_files
    summary = engines.manager.get_current_snapshot("n.t").summary
    assert summary["total-delete-files"] == str(delete_files)
    assert_audited(engines.manager, "n.t")
    location = engines.manager.load_table("n.t").metadata_location
    judge = JavaComparison(engines.session, "floe.n.t")
    judge.check_entries(location)
    judge.check_tables(location)
    return listed


@pytest.mark.parametrize(("writer", "count"), [("java", 4), ("java, for partitions", 2), ("spark", 4)])
def test_s34_compaction_removes_the_delete_files_it_has_applied(engines, writer, count):
    if writer == "spark":
        engines.sql("ALTER TABLE floe.n.t SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
        engines.sql("DELETE FROM floe.n.t WHERE id in (1, 4, 5, 8)")
    else:
        engines.java("n.t").delete_positions("id in (1, 4, 5, 8)", per_file=writer == "java")
    before = settled(engines, [2, 3, 6, 7], delete_files=count)
    result = engines.manager.compact_table("n.t", engine="arrow", row_filter="part = 'a'")
    assert result.rewritten_files == 2
    left = settled(engines, [2, 3, 6, 7], delete_files=count // 2)
    # The rewritten manifest still contains the data file that the deletes refer to, if Java recorded it.
    assert all(file in before for file in left)
    engines.manager.compact_table("n.t", engine="arrow")
    settled(engines, [2, 3, 6, 7], delete_files=0)
    assert engines.manager.table_health("n.t").rows == 4
    engines.manager.expire_snapshots("n.t", engine="spark", **ALL)
    settled(engines, [2, 3, 6, 7], delete_files=0)
    assert not list(engines.root.rglob("*deletes*.parquet"))


def test_s34_compaction_removes_delete_files_that_others_left_behind(engines):
    engines.java("n.t").delete_positions("id = 1")
    engines.manager.overwrite(
        "n.t", pa.table({"id": [9], "part": ["a"]}), overwrite_filter="part = 'a'", engine="arrow"
    )
    settled(engines, [5, 6, 7, 8, 9], delete_files=1)
    # Data files of about this size are not rewritten.
    result = engines.manager.compact_table("n.t", engine="arrow", target_file_size=800)
    assert (result.rewritten_files, result.files_after) == (0, 3)
    settled(engines, [5, 6, 7, 8, 9], delete_files=0)
    assert engines.manager.compact_table("n.t", engine="arrow", target_file_size=800).snapshot_id is None


def test_s34_a_delete_that_lands_during_a_compaction_keeps_its_delete_file(engines, monkeypatch):
    engines.java("n.t").delete_positions("id in (1, 5)")
    rewrite = Rewriter.rewrite

    def meanwhile(self, groups):
        done = rewrite(self, groups)
        monkeypatch.setattr(Rewriter, "rewrite", rewrite)
        engines.java("n.t").delete_positions("id = 2")
        return done

    monkeypatch.setattr(Rewriter, "rewrite", meanwhile)
    engines.manager.compact_table("n.t", engine="arrow")
    settled(engines, [3, 4, 6, 7, 8], delete_files=0)


def test_s34_deletes_in_a_partition_of_nan_are_applied(two_engines):
    two_engines.sql("CREATE TABLE floe.n.t (id bigint, x double) USING iceberg PARTITIONED BY (x)")
    for start in (1, 3):
        two_engines.sql(f"INSERT INTO floe.n.t VALUES ({start}, double('NaN')), ({start + 1}, double('NaN'))")
    two_engines.java("n.t").delete_positions("id in (1, 4)", per_file=False)
    settled(two_engines, [2, 3], delete_files=1)
    two_engines.manager.compact_table("n.t", engine="arrow")
    settled(two_engines, [2, 3], delete_files=0)
