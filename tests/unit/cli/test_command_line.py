"""Behavior of all commands: help, usage errors, output formats, exit codes."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from floe_cli.app import RootGroup
from floe_cli.failures import describe, wants_json
from floe_core.errors import (
    CatalogUnavailableError,
    ColumnMismatch,
    ConfigProblem,
    ConfigurationError,
    SchemaEvolutionError,
    TableNotFoundError,
)

HEAVY = ("pydantic", "structlog", "rich", "ruamel", "opentelemetry", "pyiceberg", "pyarrow", "pyspark", "dagster")
SINGLE = {"init", "validate", "compile", "doctor", "run", "test", "plan", "apply", "dev", "publish", "discard"}
GROUPS = [name for name in RootGroup.members if name not in SINGLE]


def test_help_imports_nothing_heavy():
    script = (
        "import sys\n"
        "from floe_cli.app import main\n"
        "code = main(['--help'])\n"
        f"print('HEAVY', [name for name in {HEAVY!r} if name in sys.modules])\n"
        "sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("HEAVY []\n")


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_names_every_command(floe, option):
    run = floe(option)
    assert run.code == 0
    assert all(re.search(rf"^  {name}\s", run.out, re.MULTILINE) for name in RootGroup.members)


@pytest.mark.parametrize("arguments", [(), *[(name,) for name in GROUPS]], ids=lambda a: " ".join(a) or "floe")
def test_a_group_alone_shows_its_help(floe, arguments):
    run = floe(*arguments)
    assert (run.code, run.err) == (0, "")
    assert run.out.startswith("Usage: floe")


@pytest.mark.parametrize("name", RootGroup.members)
def test_every_command_has_help(floe, name):
    assert floe(name, "--help").out.startswith(f"Usage: floe {name}")


def test_version(floe):
    assert re.fullmatch(r"floe \d+\.\d+\.\d+\n", floe("--version").out)


def test_a_mistyped_command_is_a_user_error_with_a_suggestion(floe):
    run = floe("valdate")
    assert (run.code, run.out) == (1, "")
    assert "Did you mean 'validate'?" in run.err


def test_a_mistyped_option_is_a_user_error_with_a_suggestion(floe):
    run = floe("init", "--forec")
    assert run.code == 1
    assert "Did you mean --force?" in run.err


def test_a_wrong_value_is_a_user_error(floe):
    run = floe("plugins", "list", "--type", "nonsense")
    assert run.code == 1
    assert "nonsense" in run.err
    assert "catalog" in run.err


@pytest.mark.parametrize("place", ["before", "after"])
def test_errors_are_json_on_stdout_when_json_is_asked_for(floe, place):
    run = floe("--output", "json", "valdate") if place == "before" else floe("valdate", "--output", "json")
    assert (run.code, run.err) == (1, "")
    assert run.json == {
        "ok": False,
        "error": {
            "type": "UsageError",
            "message": "No such command 'valdate'. Did you mean 'validate'?",
            "hint": "See: floe --help",
            "problems": [],
        },
    }


@pytest.mark.parametrize("arguments", [("-o", "json"), ("--output=json",), ("--output", "json")], ids=" ".join)
def test_the_format_can_stand_before_or_after_the_command(floe, arguments):
    assert floe(*arguments, "plugins", "list").data == floe("plugins", "list", *arguments).data


@pytest.mark.parametrize(
    ("argv", "asked"),
    [(["-ojson"], True), (["-o", "text"], False), (["--output"], False), (["json"], False)],
)
def test_json_is_recognised_on_a_broken_command_line(argv, asked):
    assert wants_json(argv) is asked


@pytest.mark.req("RD-05")
def test_a_floe_error_is_told_with_its_way_out_and_its_exit_code():
    failure = describe(TableNotFoundError("Table 'a.b' not found.", hint="Tables there: a.c."))
    assert failure.lines() == ["Error: Table 'a.b' not found.", "Hint: Tables there: a.c."]
    assert failure.exit_code == 1
    assert describe(CatalogUnavailableError("down")).exit_code == 2


def test_problems_come_one_a_line_with_their_place():
    problem = ConfigProblem("unknown key 'x'", file="floe.yaml", line=3, column=5, fix="Did you mean 'y'?")
    lines = describe(ConfigurationError("1 mistake.", problems=[problem])).lines()
    assert lines[1] == "  floe.yaml:3:5: unknown key 'x'. Did you mean 'y'?"


def test_columns_that_do_not_fit_are_problems_too():
    mismatch = ColumnMismatch("id", "long", "string", "not widening")
    payload = describe(SchemaEvolutionError("No.", mismatches=[mismatch])).payload()
    assert payload["error"]["problems"][0]["path"] == "id"


def test_an_unexpected_failure_is_a_system_error_without_traceback(floe, monkeypatch):
    def explode(*_args: object, **_kwargs: object) -> None:
        msg = "token=hunter2secret broke"
        raise RuntimeError(msg)

    monkeypatch.setattr("floe_cli.scaffold.write_project", explode)
    run = floe("init", "shop")
    assert run.code == 2
    assert "Traceback" not in run.err
    assert "--debug" in run.err
    assert "hunter2secret" not in run.err


def test_debug_adds_the_traceback_without_secrets(floe, monkeypatch):
    def explode(*_args: object, **_kwargs: object) -> None:
        msg = "token=hunter2secret broke"
        raise RuntimeError(msg)

    monkeypatch.setattr("floe_cli.scaffold.write_project", explode)
    run = floe("init", "shop", "--debug")
    assert run.code == 2
    assert "Traceback" in run.err
    assert "hunter2secret" not in run.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_and_groups(shell):
    done = subprocess.run(
        [sys.executable, "-m", "floe_cli"],
        capture_output=True,
        text=True,
        check=False,
        env={
            "_FLOE_COMPLETE": f"complete_{shell}",
            "COMP_WORDS": "floe pl",
            "COMP_CWORD": "1",
            "_TYPER_COMPLETE_ARGS": "floe pl",
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        },
    )
    assert "plugins" in done.stdout
