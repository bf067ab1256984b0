"""``floe tables drop --purge``: rejected under a legal hold, and an error if files remain."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from floe_core.compile import compile_project
from floe_core.errors import LegalHoldError, StorageError
from floe_iceberg import IcebergTableManager
from floe_iceberg.table.history.legal_hold import LEGAL_HOLD

TABLE = "bronze.orders"
HOLD = "governance: {enterprise: {legal_hold_days: 30, reason: case 42}}\n"
_DROP_CAPABILITY = 24
_IGNORE_PERMISSIONS = (1, 2)


@pytest.fixture
def project(tmp_path):
    (tmp_path / "floe.yaml").write_text("name: shop\n")
    with tables_of(tmp_path) as manager:
        manager.create_namespace("bronze")
        manager.create_table(TABLE, pa.schema([("id", pa.int64())]))
        manager.append(TABLE, pa.table({"id": [1, 2]}))
    return tmp_path


def tables_of(project):
    return IcebergTableManager.from_artifacts(compile_project(project))


def files_of(project):
    return sorted(path for path in project.rglob("*") if path.is_file() and "orders" in str(path))


def obey_permissions():
    """Make the super user a user whom permissions hold for, as they do for all others."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in _IGNORE_PERMISSIONS:
        libc.prctl(_DROP_CAPABILITY, capability, 0, 0, 0)


def floe(project, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "floe_cli", *arguments, "--project", str(project), "-o", "json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
        cwd=project,
        preexec_fn=obey_permissions if sys.platform == "linux" and os.getuid() == 0 else None,
    )
    return done.returncode, json.loads(done.stdout)


def test_a_purge_on_a_read_only_warehouse_says_what_is_left(project):
    before = files_of(project)
    folders = {file.parent for file in before}
    for folder in folders:
        folder.chmod(0o555)
    try:
        code, said = floe(project, "tables", "drop", TABLE, "--purge", "--yes")
    finally:
        for folder in folders:
            folder.chmod(0o755)
    assert (code, said["error"]["type"]) == (2, "StorageError")
    left = f"{len(before)} of its {len(before)} files are still in "
    assert f"Table '{TABLE}' was dropped, but {left}" in said["error"]["message"]
    assert files_of(project) == before
    with tables_of(project) as manager:
        assert not manager.table_exists(TABLE)


def test_a_store_that_ignores_deletes_is_no_success(project, monkeypatch):
    monkeypatch.setattr(PyArrowFileIO, "delete", lambda _self, _location: None)
    before = files_of(project)
    with tables_of(project) as manager:
        with pytest.raises(
            StorageError, match=rf"{len(before)} of its {len(before)} files are still in .*bronze/orders"
        ):
            manager.drop_table(TABLE, purge=True)
        assert not manager.table_exists(TABLE)


def test_a_purge_that_worked_leaves_nothing(project):
    code, said = floe(project, "tables", "drop", TABLE, "--purge", "--yes")
    assert (code, said["data"]["dropped"]) == (0, True)
    assert files_of(project) == []


@pytest.mark.parametrize("options", [("--yes",), ("--dry-run",)], ids=["in earnest", "dry run"])
def test_a_legal_hold_of_floe_yaml_stops_a_purge(project, options):
    with Path(project / "floe.yaml").open("a") as stream:
        stream.write(HOLD)
    before = files_of(project)
    code, said = floe(project, "tables", "drop", TABLE, "--purge", *options)
    assert (code, said["error"]["type"]) == (1, "LegalHoldError")
    assert "the legal hold of enterprise requires 30 days (case 42)" in said["error"]["message"]
    assert files_of(project) == before
    with tables_of(project) as manager:
        assert manager.scan(TABLE).num_rows == 2


def test_a_table_under_legal_hold_can_be_dropped_and_keeps_its_files(project):
    with Path(project / "floe.yaml").open("a") as stream:
        stream.write(HOLD)
    before = files_of(project)
    assert floe(project, "tables", "drop", TABLE, "--yes")[0] == 0
    assert files_of(project) == before


@pytest.mark.parametrize("where", [TABLE, "bronze"])
def test_a_property_holds_a_table_as_well(project, where):
    with tables_of(project) as manager:
        if where == TABLE:
            with manager.load_table(TABLE).transaction() as change:
                change.set_properties({LEGAL_HOLD: "case 42"})
        else:
            manager.namespaces.update_properties(where, updates={LEGAL_HOLD: "case 42"})
        before = files_of(project)
        for act in (
            lambda: manager.drop_table(TABLE, purge=True),
            lambda: manager.expire_snapshots(TABLE, older_than_days=0),
        ):
            with pytest.raises(LegalHoldError, match=f"'{where}' is under legal hold .case 42."):
                act()
        assert files_of(project) == before
        if where == "bronze":
            manager.namespaces.update_properties(where, updates={LEGAL_HOLD: "false"})
            manager.drop_table(TABLE, purge=True)
            assert files_of(project) == []
