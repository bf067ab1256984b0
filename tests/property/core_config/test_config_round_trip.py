"""Valid projects survive compile -> JSON -> load; arbitrary bytes give a project or an error with a location."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floe_core.compile import compile_project, write_artifacts
from floe_core.config import load_project
from floe_core.errors import ConfigProblem, ConfigurationError
from floe_core.schemas import CompiledArtifacts

words = st.from_regex(r"\A[a-z][a-z0-9_]{0,8}\Z")
prose = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn", "Co"]), max_size=30).map(
    lambda text: text.replace("$", "")
)
references = words.map(lambda word: f"${{{word.upper()}}}")
# Plain words: strings that look like secrets or addresses are rejected, and have their own tests.
settings_maps = st.dictionaries(words.map(lambda w: f"x.{w}"), words | st.integers() | st.booleans(), max_size=3)


@st.composite
def tables(draw):
    names = draw(st.lists(words, min_size=1, max_size=5, unique=True))
    kinds = st.sampled_from(["long", "string", "double", "timestamptz", "decimal(10, 2)", "list<string>"])
    columns = [
        {"name": name, "type": draw(kinds), "required": draw(st.booleans()), "doc": draw(st.none() | prose)}
        for name in names
    ]
    return {
        "columns": columns,
        "keys": draw(st.lists(st.sampled_from(names), max_size=2)),
        "partition_by": [f"bucket({draw(st.integers(1, 64))}, {draw(st.sampled_from(names))})"],
        "sort_by": [f"{names[0]} desc nulls last"],
        "properties": draw(settings_maps),
        "retention": {"snapshot_days": draw(st.none() | st.integers(0, 36500))},
    }


@st.composite
def sections(draw):
    return {
        "catalog": {
            "name": draw(words),
            "uri": draw(st.none() | words.map(lambda w: f"https://{w}.example/api") | references),
            "options": draw(settings_maps),
            "credentials": {"client_secret": draw(st.none() | references | words.map(lambda w: {"secret_ref": w}))},
            "retry": {"max_attempts": draw(st.integers(1, 10)), "jitter_seconds": draw(st.floats(0, 10))},
        },
        "storage": {"prefix": draw(prose), "options": draw(settings_maps)},
        "compute": {"conf": draw(settings_maps), "packages": draw(st.lists(words, max_size=2))},
        "governance": {"enterprise": {"snapshot_retention_days": draw(st.none() | st.integers(0, 36500))}},
        "tables": draw(st.dictionaries(st.builds("{}.{}".format, words, words), tables(), max_size=3)),
    }


projects = st.builds(
    lambda name, description, base, environments: {
        "name": name,
        "description": description,
        **base,
        "environments": environments,
    },
    words,
    prose,
    sections(),
    st.dictionaries(words, sections(), max_size=2),
)


@pytest.mark.req("FR-036", "API-14")
@settings(max_examples=30, deadline=None)
@given(projects)
def test_any_valid_project_round_trips(project):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "floe.yaml"
        # JSON is YAML, and every generated character is written as an escape sequence.
        path.write_text(json.dumps(project), encoding="utf-8")
        for environment in (None, *project["environments"]):
            artifacts = compile_project(path, environment=environment, allow_missing_env=True)
            written = write_artifacts(artifacts)
            assert CompiledArtifacts.from_json_file(written) == artifacts
            first = written.read_bytes()
            again = compile_project(path, environment=environment, allow_missing_env=True)
            assert write_artifacts(again).read_bytes() == first


yaml_like = st.text(st.sampled_from("nameclog: \n\t-{}[]&*<'\"|>!%#?,${}0.é\x00\x85"), max_size=60)


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=60) | yaml_like.map(str.encode))
def test_any_bytes_end_in_a_project_or_a_located_error(content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "floe.yaml"
        path.write_bytes(content)
        assert all(problem.line >= 1 and problem.column >= 1 for problem in mistakes(path))


def mistakes(path: Path) -> tuple[ConfigProblem, ...]:
    try:
        load_project(path, environ={})
    except ConfigurationError as error:
        return error.problems or (ConfigProblem("an error without a place"),)
    return ()
