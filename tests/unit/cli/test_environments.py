"""The environment of a command, and the confirmations that irreversible commands require."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import pyarrow as pa
import pytest

import floe_cli.commands
from floe_cli.workspace import Workspace
from floe_iceberg.models import WriteMode
from floe_iceberg.staging.staged import StagedMark, open_staged


class Terminal(io.StringIO):
    """A person at the keyboard."""

    def isatty(self) -> bool:
        return True


def with_environments() -> None:
    with Path("floe.yaml").open("a") as stream:
        stream.write("\nenvironments:\n  dev: {storage: {root: dev}}\n  prod: {catalog: {uri: '${NOT_SET_HERE}'}}\n")


def test_later_commands_do_not_inherit_the_environment_last_compiled(shop):
    with_environments()
    shop("compile", "--env", "dev")
    run = shop("namespaces", "create", "bronze", "-o", "json")
    assert (run.code, run.json["environment"], run.json["catalog"]) == (0, None, "sql:floe")
    assert "Using the base environment, sql catalog 'floe'." in shop("namespaces", "list").err
    config = next(check for check in shop("doctor", "-o", "json").data if check["name"] == "config")
    assert "(dev)" not in config["detail"]


def test_what_was_compiled_last_is_not_what_a_plain_command_destroys(shop):
    with Path("floe.yaml").open("a") as stream:
        stream.write("\nenvironments:\n  dev: {catalog: {uri: 'sqlite:///dev.db'}}\n")
    for environment in ((), ("--env", "dev")):
        assert shop("namespaces", "create", "bronze", *environment).code == 0
    assert shop("compile", "--env", "dev").code == 0
    assert shop("namespaces", "delete", "bronze", "--yes").code == 0
    assert shop("namespaces", "list", "-o", "json").data == []
    assert shop("namespaces", "list", "--env", "dev", "-o", "json").data == ["bronze"]


def test_every_command_that_touches_data_names_environment_and_catalog(shop, monkeypatch):
    with_environments()
    run = shop("namespaces", "list", "--env", "dev")
    assert "Using environment 'dev', sql catalog 'floe'." in run.err
    monkeypatch.setenv("FLOE_ENV", "dev")
    assert shop("tables", "list", "-o", "json").json["environment"] == "dev"
    assert shop("tables", "list", "--env", "", "-o", "json").json["environment"] is None
    failed = shop("tables", "show", "bronze.nope", "-o", "json")
    assert (failed.code, failed.json["environment"], failed.json["catalog"]) == (1, "dev", "sql:floe")


def test_compile_says_for_which_environment(shop):
    with_environments()
    assert "project 'shop' in environment 'dev'" in shop("compile", "--env", "dev").out
    assert "environment" not in shop("compile").out


def test_what_cannot_be_undone_in_an_environment_has_to_name_it(shop, monkeypatch):
    with_environments()
    monkeypatch.setenv("FLOE_ENV", "dev")
    shop("namespaces", "create", "bronze")
    run = shop("namespaces", "delete", "bronze", "--yes")
    assert run.code == 1
    assert "Run the command again with --env dev --yes." in run.err
    assert shop("namespaces", "list", "-o", "json").data == ["bronze"]
    assert shop("namespaces", "delete", "bronze", "--env", "dev", "--yes").code == 0


@pytest.mark.parametrize(("typed", "deleted"), [("dev", True), ("y", False), ("", False)])
def test_a_person_is_asked_for_the_name_of_the_environment(shop, monkeypatch, typed, deleted):
    with_environments()
    shop("namespaces", "create", "bronze", "--env", "dev")
    monkeypatch.setattr("sys.stdin", Terminal(f"{typed}\n"))
    run = shop("namespaces", "delete", "bronze", "--env", "dev")
    assert "Type 'dev' to continue: " in run.err
    assert (run.code == 0) is deleted


DESTRUCTIVE = (
    "namespaces delete empty",
    "tables drop x.t",
    "tables drop x.t --purge",
    "tables rollback x.t --to 0s",
    "tables expire x.old --older-than 0s --retain-last 1",
    "tables sweep x.t --delete",
    "tables evolve x.old --drop more",
    "tables set x.old write.data.path=file:///elsewhere",
    "tables tag x.t v1 --delete",
    "tables branch x.t side --delete",
    "tables branch x.t side --publish",
    "discard x.t",
    "publish x.t",
    "tenants offboard acme",
    "tenants bootstrap acme --isolate --rotate",
)


@pytest.fixture
def filled(shop):
    """Give something to destroy in an environment."""
    with_environments()
    assert shop("namespaces", "create", "empty", "--env", "dev").code == 0
    assert shop("tenants", "bootstrap", "acme", "--env", "dev").code == 0
    with Workspace(environment="dev").tables() as manager:
        manager.create_namespace("x")
        for name in ("x.t", "x.old"):
            manager.create_table(name, pa.schema([("id", pa.int64()), ("more", pa.int64())]))
            for number in range(2):
                manager.append(name, pa.table({"id": [number]}))
        manager.create_tag("x.t", "v1")
        manager.create_branch("x.t", "side")
        branch = "audit.x_t.0123abcd"
        open_staged(manager, "x.t", branch)
        marks = StagedMark(branch, WriteMode.APPEND).properties()
        manager.append("x.t", pa.table({"id": [9]}), branch=branch, operation_id="op", snapshot_properties=marks)
        location = manager.load_table("x.t").location().removeprefix("file://")
    orphan = Path(location) / "data" / "orphan.parquet"
    orphan.write_bytes(b"orphan")
    os.utime(orphan, (0, 0))
    return shop


def state():
    with Workspace(environment="dev").tables() as manager:
        places = [manager.load_table(name).metadata_location for name in ("x.t", "x.old")]
        return manager.namespaces.tree(), places, sorted(path for path in Path("dev").rglob("*") if path.is_file())


@pytest.mark.parametrize("command", DESTRUCTIVE)
def test_destruction_in_an_environment_has_to_name_it(filled, monkeypatch, command):
    before = state()
    monkeypatch.setenv("FLOE_ENV", "dev")
    unasked = filled(*command.split())
    assert (unasked.code, unasked.out) == (1, "")
    assert "Using environment 'dev', sql catalog 'floe'." in unasked.err
    assert "--env dev --yes." in unasked.err
    inherited = filled(*command.split(), "--yes")
    assert inherited.code == 1
    assert "--yes requires --env in environment 'dev'" in inherited.err
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert filled(*command.split()).code == 1
    assert state() == before


def test_deployed_artifacts_are_of_one_environment(shop):
    with_environments()
    shop("compile", "--env", "dev")
    Path("floe.yaml").unlink()
    assert shop("namespaces", "list", "-o", "json").json["environment"] == "dev"
    run = shop("namespaces", "list", "--env", "prod")
    assert run.code == 1
    assert "compiled artifacts are for dev, not for prod" in run.err


def test_commands_ask_through_their_workspace_alone():
    commands = sorted(Path(floe_cli.commands.__file__).parent.rglob("*.py"))
    assert len(commands) > 20
    assert [path.name for path in commands if re.search(r"(?<!workspace\.)\bconfirm\(", path.read_text())] == []
