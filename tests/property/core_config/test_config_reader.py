"""The reader of floe.yaml returns the same data as ruamel.yaml's own loader, including anchors and merge keys."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from floe_core.config.document import parse_document
from floe_core.config.nodes import locate, plain_data

KEYS = ("name", "a", "b.c", "'d e'", '"f"', "7g")
PLAIN = (
    *(
        "0",
        "-1",
        "+12",
        "0.5",
        "-.5",
        "1.",
        "1e3",
        "1.5E-2",
        "0x1F",
        "0o17",
        ".inf",
        "-.Inf",
        "true",
        "False",
        "NULL",
        "~",
    ),
    *("yes", "off", "text", "a b", "a#b", "a:b", "1.2.3", "12ab", "0xZ", "s3://lake/x"),
)
QUOTED = ("'it''s'", '"tab\\t\\u00e9"', '"1"', "'true'", '""', "'# no comment'")


@st.composite
def documents(draw):
    """Write a document in flow style whose later values refer to earlier ones."""
    anchors: list[tuple[str, bool]] = []

    def value(depth):
        kind = draw(
            st.sampled_from(["plain", "quoted", "alias", "list", "map"] if depth else ["plain", "quoted", "alias"])
        )
        if kind == "alias" and anchors:
            return f"*{draw(st.sampled_from(anchors))[0]} "
        if kind in {"list", "map"}:
            text = listed(depth) if kind == "list" else mapping(depth)
        else:
            text = draw(st.sampled_from(QUOTED if kind == "quoted" else PLAIN))
        if not draw(st.booleans()):
            return text
        # An anchor can be referenced after its node, but not within it.
        name = f"n{len(anchors)}"
        anchors.append((name, kind == "map"))
        return f"&{name} {text}"

    def listed(depth):
        return f"[{', '.join(value(depth - 1) for _ in range(draw(st.integers(0, 3))))}]"

    def mapping(depth):
        keys = draw(st.lists(st.sampled_from(KEYS), unique=True, max_size=4))
        merged = [name for name, is_map in anchors if is_map]
        lines = []
        if merged and draw(st.booleans()):
            chosen = draw(st.lists(st.sampled_from(merged), min_size=1, max_size=2, unique=True))
            lines = [f"<<: *{chosen[0]} " if len(chosen) == 1 else f"<<: [{', '.join(f'*{name} ' for name in chosen)}]"]
        lines += [f"{key}: {value(depth - 1)}" for key in keys]
        return f"{{{', '.join(lines)}}}"

    return "\n".join(f"top{number}: {value(3)}" for number in range(draw(st.integers(1, 5))))


def same(ours, theirs):
    if isinstance(ours, dict):
        return isinstance(theirs, dict) and ours.keys() == theirs.keys() and all(same(ours[k], theirs[k]) for k in ours)
    if isinstance(ours, list):
        return isinstance(theirs, list) and len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, float) and math.isnan(ours):
        return isinstance(theirs, float) and math.isnan(theirs)
    return type(ours) is type(theirs) and ours == theirs


@settings(max_examples=500, deadline=None)
@given(documents())
def test_any_document_is_read_as_ruamel_reads_it(text):
    document = parse_document(text, "floe.yaml")
    assert document.problems == ()
    assert same(plain_data(document.root), YAML(typ="safe", pure=True).load(text)), text


@pytest.mark.parametrize("text", PLAIN)
def test_a_plain_value_is_read_as_ruamel_reads_it(text):
    document = parse_document(f"key: {text}", "floe.yaml")
    assert same(plain_data(document.root), YAML(typ="safe", pure=True).load(f"key: {text}"))


def test_a_value_behind_an_alias_is_located_where_it_is_written():
    root = parse_document("defaults: &d {uri: x}\ncatalog: *d\n", "floe.yaml").root
    assert locate(root, ("catalog",), key=True) == (2, 1)
    assert locate(root, ("catalog", "uri")) == (1, 20)
