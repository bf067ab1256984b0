"""A table's own files are inside its folder, however a client interprets their names."""

from __future__ import annotations

import os.path
from urllib.parse import unquote, urlparse

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from floe_iceberg.commit.own_files import OwnFiles

TRICKS = [
    "..",
    ".",
    "",
    "%2e%2e",
    "%2E.",
    "%252e%252e",
    "..%2f..",
    "%2F..%2F..",
    "a\\..\\..",
    "x?y",
    "x#y",
    "\t",
    "p=%00",
]
NAMES = ["data", "link", "t", "t1", "victim", "p=1", "p=a%2Fb", "x.parquet", "..data", "a.b"]
parts = st.lists(st.sampled_from([*TRICKS, *NAMES]), min_size=1, max_size=6)


def readings(location: str) -> set[str]:
    """Every path that some client would open: names cut as a URI is, decoded, and with backslashes for slashes."""
    found = {location}
    for _ in range(6):
        found |= {unquote(name) for name in found} | {name.replace("\\", "/") for name in found}
    return {name for name in found if "\0" not in name}


def cut(location: str) -> str:
    parsed = urlparse(location)
    return f"{parsed.netloc}{parsed.path}" if parsed.scheme else location


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    """A table's folder with a link out of it, beside those of others."""
    root = tmp_path_factory.mktemp("warehouse")
    for name in ("t/data", "t1/data", "victim/data"):
        (root / name).mkdir(parents=True)
    (root / "t" / "link").symlink_to(root / "victim" / "data")
    return str(root)


@given(parts=parts, scheme=st.sampled_from(["file://", "file:", ""]))
@example(parts=["link", "..", "x.parquet"], scheme="file://")
@example(parts=["..", "t1", "x.parquet"], scheme="")
def test_a_local_file_that_counts_as_own_is_in_the_folder_for_every_client(warehouse, parts, scheme):
    home = f"{warehouse}/t"
    location = f"{scheme}{home}/{'/'.join(parts)}"
    if location not in OwnFiles.below([f"file://{home}"]):
        return
    for name in readings(cut(location)):
        folder, last = os.path.split(name)
        reached = {os.path.normpath(name), f"{os.path.realpath(os.path.normpath(folder))}/{last}"}
        reached.add(f"{os.path.realpath(folder)}/{last}")
        assert all(path.startswith(f"{home}/") for path in reached), name


@given(parts=parts, scheme=st.sampled_from(["s3", "s3a", "gs", "abfss", "S3"]), root=st.sampled_from(["t", "t%2Fu"]))
@example(parts=["%2e%2e", "victim", "x.parquet"], scheme="s3", root="t")
@example(parts=["data", "x?y", "..", ".."], scheme="s3", root="t")
def test_an_object_that_counts_as_own_is_below_the_prefix_for_every_client(parts, scheme, root):
    location = f"{scheme}://lake/{root}/{'/'.join(parts)}"
    if location not in OwnFiles.below([f"{scheme}://lake/{root}"]):
        return
    for name in readings(cut(location)):
        assert os.path.normpath(name).startswith(("lake/t/", "lake/t%2Fu/")), name


plain = st.lists(st.sampled_from(["data", "p=1", "p=a%2Fb", "p=%3F", "..data", "a.b", "_x"]), min_size=1, max_size=4)


@given(
    parts=plain, place=st.sampled_from(["s3://lake/t", "gs://lake/a/t/", "file:///wh/t", "/wh/t", "s3://lake/100%25"])
)
def test_what_writers_put_in_a_folder_is_its_own(parts, place):
    assert f"{place.rstrip('/')}/{'/'.join(parts)}/00000-0-x.parquet" in OwnFiles.below([place])
