"""Configuration models: bounds, types and the JSON Schema for editors."""

from __future__ import annotations

import re

import pytest
from pydantic import ValidationError

from floe_core.config import json_schema
from floe_core.schemas import CatalogConfig, CatalogCredentials, ProjectConfig, RetryConfig, TableConfig

BOUNDS = {
    "max_attempts": (7, 1, 10),
    "initial_wait_seconds": (1.0, 0.1, 30.0),
    "max_wait_seconds": (30.0, 1.0, 300.0),
    "jitter_seconds": (1.0, 0.0, 10.0),
}


@pytest.mark.req("RD-01", "FR-006a")
@pytest.mark.parametrize("field", BOUNDS)
def test_retry_has_the_documented_bounds(field):
    default, least, most = BOUNDS[field]
    step = 1 if field == "max_attempts" else 0.001
    assert getattr(RetryConfig(), field) == default
    assert getattr(RetryConfig(**{field: least}), field) == least
    assert getattr(RetryConfig(**{field: most}), field) == most
    for value in (least - step, most + step, True, float("nan"), "many"):
        with pytest.raises(ValidationError):
            RetryConfig(**{field: value})


@pytest.mark.req("FR-036")
def test_configuration_is_frozen_and_closed():
    config = CatalogConfig()
    with pytest.raises(ValidationError):
        config.type = "rest"
    with pytest.raises(ValidationError):
        CatalogConfig(waerhouse="x")


def test_a_refused_value_is_not_printed():
    with pytest.raises(ValidationError) as caught:
        CatalogCredentials(client_secret="canary9Xk2LmQ7")
    assert "canary9Xk2LmQ7" not in str(caught.value)


def test_settings_take_numbers_and_booleans_as_text():
    options = CatalogConfig(options={"a": 1, "b": True, "c": 0.5, "d": ""}).options
    assert options == {"a": "1", "b": "true", "c": "0.5", "d": ""}


@pytest.mark.parametrize("term", ["region", "day(ts)", "bucket(16, id)", "truncate(4, a.b)", "identity( x )"])
def test_partition_terms(term):
    assert TableConfig(partition_by=[term]).partition_by == (term,)


@pytest.mark.parametrize("term", ["week(ts)", "bucket(id)", "day()", "a b", "day(ts"])
def test_what_is_no_partition_term_is_refused(term):
    with pytest.raises(ValidationError, match="not a valid partition term"):
        TableConfig(partition_by=["id", term])


def test_a_column_of_a_type_that_does_not_exist_is_refused():
    with pytest.raises(ValidationError, match="unknown type 'money'"):
        TableConfig(columns=[{"name": "amount", "type": "money"}])


def test_the_editor_schema_describes_every_key():
    schema = json_schema()
    assert schema["title"] == "floe.yaml"
    assert schema["$id"].startswith("urn:")
    assert schema["required"] == ["name"]
    bodies = [schema, *schema["$defs"].values()]
    for body in bodies:
        for name, value in body.get("properties", {}).items():
            held = schema["$defs"].get(value.get("$ref", "").rpartition("/")[2], {})
            assert value.get("description") or held.get("description"), f"{body.get('title')}.{name}"


def test_the_editor_schema_has_no_dangling_reference():
    schema = json_schema()
    references = set(re.findall(r"#/\$defs/(\w+)", repr(schema)))
    assert references == set(schema["$defs"])


def test_the_editor_schema_asks_for_references_where_secrets_go():
    string, mounted = json_schema()["$defs"]["SecretReference"]["anyOf"]
    assert re.match(string["pattern"], "${MY_SECRET}")
    assert not re.match(string["pattern"], "hunter2")
    assert mounted["required"] == ["secret_ref"]


def test_the_editor_schema_types_environments_as_partial_projects():
    schema = json_schema()
    reference = schema["properties"]["environments"]["additionalProperties"]["$ref"]
    override = schema["$defs"][reference.rpartition("/")[2]]
    assert set(override["properties"]) == set(ProjectConfig.model_fields) - {"schema_version"}
    assert "required" not in override
    assert "required" not in schema["$defs"]["ScheduleConfigOverride"]
    columns = schema["$defs"]["TableConfigOverride"]["properties"]["columns"]
    assert columns["items"]["$ref"] == "#/$defs/ColumnConfig"


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ([("a", "a")], "renamed_from of a is 'a', which is a declared column"),
        ([("a", "b"), ("b", None)], "renamed_from of a is 'b', which is a declared column"),
        ([("a", "B"), ("b", None)], "renamed_from of a is 'B', which is a declared column"),
        ([("a", "c"), ("b", "c")], "two columns have renamed_from 'c'"),
        ([("a", "b"), ("b", "a")], "which is a declared column"),
    ],
)
def test_renames_that_cannot_be_are_refused(columns, told):
    declared = [{"name": name, "type": "int", "renamed_from": old} for name, old in columns]
    with pytest.raises(ValidationError, match=told):
        TableConfig.model_validate({"columns": declared})


def test_a_rename_may_change_the_case_of_letters():
    column = {"name": "id", "type": "int", "renamed_from": "ID"}
    assert TableConfig.model_validate({"columns": [column]}).columns[0].renamed_from == "ID"
