"""Reading any floe.yaml takes limited time and memory, and gives a document or an error."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import pytest

from floe_core.config import find_project_file, load_project
from floe_core.config.tree import MAX_DEPTH
from floe_core.errors import ConfigurationError


def refused(folder: Path, content: bytes) -> ConfigurationError:
    path = folder / "floe.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        load_project(path, environ={})
    return caught.value


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join(f'*{below}' for _ in range(10))}]\n"
    for below, name in zip("abcdefghi", "bcdefghij", strict=True)
)
MAPPING_BOMB = "a: &a {k0: x, k1: x}\n" + "".join(
    f"{name}: &{name} {{{', '.join(f'k{n}: *{below}' for n in range(10))}}}\n"
    for below, name in zip("abcdefghi", "bcdefghij", strict=True)
)
LONG_TEXT_BOMB = f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 10_000)}]\n"


@pytest.mark.parametrize("bomb", [BOMB, MAPPING_BOMB, LONG_TEXT_BOMB], ids=["lists", "mappings", "long text"])
def test_s25_exploding_anchors_end_in_an_error_with_its_place_and_bounded_memory(tmp_path, bomb):
    tracemalloc.start()
    try:
        error = refused(tmp_path, bomb.encode())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    (problem,) = error.problems
    assert "expand to more than 500,000 values" in problem.message
    assert problem.line > 1
    assert peak < 64_000_000


def test_a_file_of_ten_megabytes_is_refused_without_reading_all_of_it(tmp_path):
    path = tmp_path / "floe.yaml"
    with path.open("wb") as stream:
        stream.write(b"name: a\n")
        stream.truncate(4_000_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(ConfigurationError) as caught:
            load_project(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "larger than 8 MB" in caught.value.problems[0].message
    assert peak < 32_000_000
    assert "larger than 8 MB" in refused(tmp_path, b"name: a\n" + b"# filler\n" * 1_200_000).problems[0].message


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        (b"name: a\n\x00\x01\x02", (2, 1), "binary"),
        (b"\x7fELF\x02\x01\x01\x00", (1, 8), "binary"),
        (b"name: a\ndescription: caf\xe9\n", (2, 17), "0xe9 is not UTF-8"),
        ("name: é\n".encode() + b"x: \xff", (2, 4), "0xff is not UTF-8"),
        ("name: a".encode("utf-16"), (1, 1), "UTF-16"),
    ],
    ids=["nul", "executable", "latin-1", "after a multibyte character", "utf-16"],
)
def test_a_file_that_is_not_utf8_text_is_refused_at_the_byte(tmp_path, content, place, message):
    (problem,) = refused(tmp_path, content).problems
    assert (problem.line, problem.column) == place
    assert message in problem.message


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_endless_nesting_is_refused(tmp_path, opening):
    (problem,) = refused(tmp_path, (opening * 100_000).encode()).problems
    assert f"more than {MAX_DEPTH} levels deep" in problem.message


def test_nesting_by_aliases_is_refused(tmp_path):
    links = "".join(f"k{n}: &k{n} [*k{n - 1}]\n" for n in range(1, 60))
    (problem,) = refused(tmp_path, f"k0: &k0 [x]\n{links}".encode()).problems
    assert f"more than {MAX_DEPTH} levels deep" in problem.message


def test_a_byte_order_mark_and_windows_lines_are_fine(tmp_path):
    path = tmp_path / "floe.yaml"
    path.write_bytes(b"\xef\xbb\xbfname: a\r\ndescription: b\r\n")
    assert load_project(path).name == "a"


def test_ten_thousand_columns_are_fine(tmp_path):
    path = tmp_path / "floe.yaml"
    columns = "".join(f"      - {{name: c{n}, type: long}}\n" for n in range(10_000))
    path.write_text(f"name: a\ntables:\n  b.c:\n    keys: [c9999]\n    columns:\n{columns}", encoding="utf-8")
    assert len(load_project(path).tables["b.c"].columns) == 10_000


def test_a_duplicate_among_ten_thousand_columns_is_found(tmp_path):
    columns = "".join(f"      - {{name: c{n % 9_999}, type: long}}\n" for n in range(10_000))
    (problem,) = refused(tmp_path, f"name: a\ntables:\n  b.c:\n    columns:\n{columns}".encode()).problems
    assert "column declared twice: c0" in problem.message


def test_a_missing_file_a_folder_and_a_pipe_are_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="does not exist"):
        load_project(tmp_path / "floe.yaml")
    with pytest.raises(ConfigurationError, match=r"No floe\.yaml found in"):
        load_project(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigurationError, match="not a regular file"):
        load_project(tmp_path / "pipe")
    with pytest.raises(ConfigurationError, match="Cannot read"):
        load_project(Path("a\0b"))


def test_the_project_file_is_found_from_below(tmp_path):
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="floe init"):
        find_project_file(below)
    (tmp_path / "floe.yaml").write_text("name: a\n", encoding="utf-8")
    assert find_project_file(below) == (tmp_path / "floe.yaml").resolve()
    (below / "floe.yml").write_text("name: b\n", encoding="utf-8")
    assert find_project_file(below) == (below / "floe.yml").resolve()
    assert find_project_file(below / "floe.yml") == below / "floe.yml"
    assert load_project(below).name == "b"
