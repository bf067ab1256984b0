"""Ownership of files, on which every deletion depends."""

from __future__ import annotations

import pytest

from floe_core.declaration.locations import normal, path_only, spellings
from floe_iceberg.commit.own_files import OwnFiles, is_collected


class Metadata:
    """As much of a table's metadata as the decision needs."""

    def __init__(self, location, **properties):
        self.location = location
        self.properties = {key.replace("__", ".").replace("_", "-"): value for key, value in properties.items()}


def own(location, **properties):
    return OwnFiles.of(Metadata(location, **properties))


@pytest.mark.parametrize(
    ("location", "file"),
    [
        ("s3://lake/ns/t1", "s3://lake/ns/t1/data/a.parquet"),
        ("s3://lake/ns/t1/", "s3a://lake/ns/t1/data/a.parquet"),
        ("s3a://lake/ns/t1", "s3n://lake/ns/t1//data/a.parquet"),
        ("abfss://lake@acct.dfs.core.windows.net/t1", "abfs://lake@acct.dfs.core.windows.net/t1/a"),
        ("file:///wh/t1", "/wh/t1/data/a.parquet"),
        ("file:/wh/t1", "file:///wh/t1/data/a.parquet"),
        ("/wh/t1", "file:/wh/t1//data/../data/a.parquet"),
        ("file:///wh/t1", "file:////wh/t1/data/a.parquet"),
    ],
)
def test_files_below_the_location_are_the_tables_own(location, file):
    assert file in own(location)


@pytest.mark.parametrize(
    ("location", "file"),
    [
        ("s3://lake/ns/t1", "s3://lake/ns/t10/data/a.parquet"),
        ("s3://lake/ns/t1", "s3://lake/ns/t1"),
        ("s3://lake/ns/t1", "s3://lake/ns/t1/../t2/data/a.parquet"),
        ("s3://lake/ns/t1", "s3://lake/ns/t1/./a.parquet"),
        ("s3://lake/ns/t1", "s3://other/ns/t1/data/a.parquet"),
        ("s3://lake/ns/t1", "gs://lake/ns/t1/data/a.parquet"),
        ("s3://lake/ns/t1", "/ns/t1/data/a.parquet"),
        ("file:///wh/t1", "file:///wh/t10/a.parquet"),
        ("file:///wh/t1", "file:///wh/t1/../t2/a.parquet"),
        ("file:///wh/t1", "/wh/t1/data/../../t2/a.parquet"),
        ("file:///wh/t1", "file://wh/t1/a.parquet"),
        ("file:///wh/t1", "wh/t1/a.parquet"),
        ("file:///wh/t1", ""),
        ("s3://lake/ns/t1", "s3://lake/ns/t1/%2e%2e/t2/a.parquet"),
        ("s3://lake/ns/t1", "s3://lake/ns/t1/..%2Ft2/a.parquet"),
        ("s3://lake/ns/t1", "s3://lake/ns/t1/%252E%252e/t2/a.parquet"),
        ("s3://lake/ns/t1", "s3://lake/ns/t1/a\\..\\..\\t2\\a.parquet"),
        ("s3://lake/ns/t1", "s3://lake/ns/t1/a.parquet?versionId=1"),
        ("abfss://lake@acct.dfs.core.windows.net/t1", "abfss://lake@acct.dfs.core.windows.net/t1/%2e%2e/t2/a"),
        ("abfss://lake@acct.dfs.core.windows.net/t1", "abfss://other@acct.dfs.core.windows.net/t1/a"),
        ("gs://lake/ns/t1", "gs://lake/ns/t1%2F..%2Ft2/a.parquet"),
        ("file:///wh/t1", "file:///wh/t1/%2e%2e/t2/a.parquet"),
        ("file:///wh/t1", "file:///wh/t1/data#/../../t2/a.parquet"),
    ],
)
def test_files_elsewhere_are_not(location, file):
    assert file not in own(location)


def test_declared_paths_count(tmp_path):
    places = own(f"file://{tmp_path}/t", write__data__path="s3://bulk/t", write__metadata__path="s3://meta/t/")
    assert "s3://bulk/t/a.parquet" in places
    assert "s3a://meta/t/00000.metadata.json" in places
    assert "s3://bulk/t2/a.parquet" not in places


def test_a_link_out_of_the_folder_leads_to_foreign_files(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "link").symlink_to(tmp_path / "other")
    assert f"file://{tmp_path}/t/link/a.parquet" not in own(f"file://{tmp_path}/t")
    assert f"file://{tmp_path}/t/link" in own(f"file://{tmp_path}/t")


def test_going_up_from_a_link_leads_to_foreign_files(tmp_path):
    """The system follows the link first; a tidied name would stay in the folder."""
    (tmp_path / "other" / "data").mkdir(parents=True)
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "link").symlink_to(tmp_path / "other" / "data")
    assert f"file://{tmp_path}/t/link/../secret.parquet" not in own(f"file://{tmp_path}/t")


def test_a_folder_that_became_a_link_is_looked_at_anew(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "t" / "data").mkdir(parents=True)
    assert f"file://{tmp_path}/t/data/a.parquet" in own(f"file://{tmp_path}/t")
    (tmp_path / "t" / "data").rmdir()
    (tmp_path / "t" / "data").symlink_to(tmp_path / "other")
    assert f"file://{tmp_path}/t/data/a.parquet" not in own(f"file://{tmp_path}/t")


def test_encoded_partition_values_are_the_tables_own():
    assert "s3://lake/t/data/name=a%2Fb/a.parquet" in own("s3://lake/t")
    assert "file:///wh/t/data/name=100%25/a.parquet" in own("file:///wh/t")


def test_a_table_whose_name_looks_encoded_owns_its_files_only():
    """To a client that decodes names, the location is the folder of another."""
    assert "s3://lake/t%2D2/data/a.parquet" in own("s3://lake/t%2D2")
    assert "s3://lake/t-2/data/a.parquet" not in own("s3://lake/t%2D2")


def test_a_table_whose_location_is_a_link_owns_what_the_link_leads_to(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "t").symlink_to(tmp_path / "real")
    assert f"file://{tmp_path}/real/a.parquet" in own(f"file://{tmp_path}/t")


def test_places_of_other_tables_are_left_out():
    places = own("s3://lake/t").without(["s3://lake/t/data/other"])
    assert "s3://lake/t/data/a.parquet" in places
    assert "s3://lake/t/data/other/data/a.parquet" not in places


def test_files_are_split_into_own_and_foreign():
    kept, foreign = own("s3://lake/t1").split(["s3://lake/t2/b", "s3://lake/t1/x", "s3://lake/t10/a"])
    assert (kept, foreign) == (["s3://lake/t1/x"], ("s3://lake/t10/a", "s3://lake/t2/b"))


@pytest.mark.parametrize(("value", "collected"), [(None, True), ("true", True), ("TRUE", True), ("false", False)])
def test_gc_enabled_is_read_as_java_reads_it(value, collected):
    assert is_collected({} if value is None else {"gc.enabled": value}) is collected
    assert not is_collected({"gc.enabled": "no"})


def test_one_file_has_one_normal_spelling():
    assert len({normal(name) for name in ("/x//y", "file:/x/y", "file:///x/y")}) == 1
    assert normal("s3a://b/k") == normal("s3://b/k")
    assert path_only("s3://b/k/x") == path_only("gs://other/k/x") == "/k/x"


def test_prefixes_cover_every_spelling():
    assert set(spellings("file:///wh/t/")) == {"/wh/t/", "file:/wh/t/", "file:///wh/t/"}
    assert set(spellings("s3a://b/t")) == {"s3://b/t/", "s3a://b/t/", "s3n://b/t/"}
