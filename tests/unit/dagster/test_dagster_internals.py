"""Dagster's private API behaves as floe expects; failures name the code to change after an upgrade."""

from __future__ import annotations

import dagster as dg
import pytest

from floe_dagster.dagster_internals import LaunchHook


def broken(what: str) -> str:
    return f"Dagster no longer {what}: change LaunchHook in floe_dagster/dagster_internals.py."


class Hooked(LaunchHook):
    greeting: str = "of the class"

    def launch_schema(self, schema, given):
        calls.append(("launch_schema", dict(given), hasattr(schema, "as_field")))
        return schema

    def copy_for_run(self, values):
        calls.append(("copy_for_run", dict(values)))
        copy = self.plain_copy(values)
        calls.append(("plain_copy", type(copy), copy is not self, copy.greeting))
        return copy

    def handle_output(self, context, obj):
        calls.append(("handle_output", self.greeting))

    def load_input(self, context): ...


calls: list[tuple] = []


@pytest.fixture(scope="module")
def launched():
    """Run an asset with the hook; gives the calls by name."""
    calls.clear()

    @dg.asset
    def orders():
        return 1

    config = {"resources": {"io_manager": {"config": {"greeting": "of the launch"}}}}
    io = Hooked(greeting="of the definition")
    assert dg.materialize([orders], resources={"io_manager": io}, run_config=config).success
    return {name: rest for name, *rest in calls}


def test_the_schema_of_a_launch_comes_from_the_hook(launched):
    assert "launch_schema" in launched, broken("reads a resource's schema from _config_schema")
    given, is_definition = launched["launch_schema"]
    assert given == {"greeting": "of the definition"}, broken("keeps the given values in _resolved_config_dict")
    assert is_definition, broken("has a definition schema with as_field in _config_schema")


def test_a_run_gets_the_copy_of_the_hook(launched):
    assert "copy_for_run" in launched, broken("copies a resource for a run with _with_updated_values")
    assert launched["copy_for_run"] == [{"greeting": "of the launch"}], broken(
        "passes the launch's configuration to _with_updated_values"
    )
    assert launched["plain_copy"] == [Hooked, True, "of the launch"], broken(
        "makes a copy with the new values in _with_updated_values"
    )
    assert launched["handle_output"] == ["of the launch"], broken("writes with the copy of _with_updated_values")
