"""``floe tables`` on tables with missing or damaged metadata: list, drop, register."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from floe_cli.workspace import Workspace

BROKEN, SOUND = "bronze.broken", "bronze.sound"


def place_of(table):
    with Workspace().tables() as manager:
        return Path(manager.load_table(table).metadata_location.removeprefix("file://"))


@pytest.fixture(params=["gone", "damaged"])
def broken(shop, request):
    """A project with one sound table and one whose current metadata file cannot be read."""
    with Workspace().tables() as manager:
        manager.create_namespace("bronze")
        for name in (BROKEN, SOUND):
            manager.create_table(name, pa.schema([("id", pa.int64())]))
            manager.append(name, pa.table({"id": [1, 2]}))
            manager.append(name, pa.table({"id": [3]}))
    place = place_of(BROKEN)
    if request.param == "gone":
        place.unlink()
    else:
        place.write_text('{"format-version": 2, "tabl')
    return shop


def files():
    return sorted(path for path in Path().rglob("*") if path.is_file() and "bronze/broken" in str(path))


def test_it_is_listed_as_broken_and_spoils_nothing(broken):
    assert {BROKEN, SOUND} <= {entry["table"] for entry in broken("tables", "list", "-o", "json").data}
    run = broken("tables", "list", "--long", "-n", "bronze", "-o", "json")
    found = {entry["table"]: entry for entry in run.data}
    assert run.code == 2
    assert found[BROKEN]["broken"] is True
    assert ".metadata.json" in found[BROKEN]["problem"]
    assert (found[SOUND]["broken"], found[SOUND]["rows"]) == (False, 3)
    text = broken("tables", "list", "--long", "-n", "bronze")
    assert "broken" in text.out
    assert "Traceback" not in text.out + text.err


def test_commands_over_all_tables_name_it_and_go_on(broken):
    Path("floe.yaml").write_text(
        Path("floe.yaml").read_text()
        + f"""
  {BROKEN}: {{columns: [{{name: id, type: long}}]}}
  {SOUND}: {{columns: [{{name: id, type: long}}, {{name: more, type: string}}]}}
"""
    )
    drifted = broken("tables", "drift", "-o", "json")
    assert drifted.code == 2
    found = {entry["table"]: entry for entry in drifted.data}
    assert ".metadata.json" in found[BROKEN]["problem"]
    assert [item["path"] for item in found[SOUND]["items"]] == ["more"]
    for command in ("publish", "discard"):
        waiting = broken(command, "-o", "json")
        assert waiting.code == 2
        assert [entry["table"] for entry in waiting.data] == [BROKEN]
    text = broken("publish").out
    assert "No staged writes." in text
    assert f"floe tables drop {BROKEN}" in text


@pytest.mark.parametrize("options", [(), ("--force",)], ids=["plain", "as scripts of earlier versions do"])
def test_it_is_dropped_and_the_place_of_its_files_is_named(broken, options):
    before = files()
    planned = broken("tables", "drop", BROKEN, "--dry-run", *options)
    assert ".metadata.json" in planned.out
    dropped = broken("tables", "drop", BROKEN, "--yes", "-o", "json", *options)
    assert (dropped.code, dropped.data["dropped"], dropped.data["broken"]) == (0, True, True)
    assert dropped.data["location"].endswith("bronze/broken")
    assert dropped.data["left"] == [dropped.data["location"]]
    assert BROKEN not in {entry["table"] for entry in broken("tables", "list", "-o", "json").data}
    assert files() == before


def test_it_is_not_purged_and_the_place_of_its_files_is_named(broken):
    before = files()
    refused = broken("tables", "drop", BROKEN, "--purge", "--yes", "-o", "json")
    assert (refused.code, refused.error["type"]) == (1, "ConfigurationError")
    assert ".metadata.json" in refused.error["message"]
    assert "bronze/broken" in refused.error["hint"]
    assert BROKEN in {entry["table"] for entry in broken("tables", "list", "-o", "json").data}
    assert files() == before


def test_it_is_registered_again_from_the_newest_metadata_file_that_is_left(broken):
    assert broken("tables", "register", BROKEN, "-o", "json").error["type"] == "CorruptFileError"
    planned = broken("tables", "register", BROKEN, "--replace", "--dry-run", "-o", "json")
    assert planned.data["registered"] is False
    done = broken("tables", "register", BROKEN, "--replace", "--yes", "-o", "json")
    assert (done.code, done.data["replaced"]) == (0, True)
    assert done.data["metadata_location"] == planned.data["metadata_location"]
    with Workspace().tables() as manager:
        assert manager.scan(BROKEN)["id"].to_pylist() == [1, 2]
        assert manager.append(BROKEN, pa.table({"id": [4]})).snapshot_id


def test_a_place_without_metadata_changes_nothing(broken):
    run = broken("tables", "register", BROKEN, "file:///nowhere/v1.metadata.json", "--replace", "--yes", "-o", "json")
    assert (run.code, run.error["type"]) == (1, "ConfigurationError")
    assert BROKEN in {entry["table"] for entry in broken("tables", "list", "-o", "json").data}


def test_a_table_that_can_be_read_is_not_replaced(shop):
    with Workspace().tables() as manager:
        manager.create_namespace("bronze")
        manager.create_table(SOUND, pa.schema([("id", pa.int64())]))
    place = f"file://{place_of(SOUND)}"
    assert (
        shop("tables", "register", SOUND, place, "--replace", "--yes", "-o", "json").error["type"] == "TableExistsError"
    )
    assert shop("tables", "drop", SOUND, "--yes").code == 0
    again = shop("tables", "register", SOUND, place, "-o", "json")
    assert (again.code, again.data["registered"]) == (0, True)
    unnamed = shop("tables", "register", "bronze.unknown", "-o", "json")
    assert (unnamed.code, unnamed.error["type"]) == (1, "ConfigurationError")
