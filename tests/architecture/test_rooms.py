"""Size limits: the number of modules in a folder, and the number of lines in a module."""

from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[2] / "src"
FOLDERS = sorted(folder for folder in SRC.rglob("*") if folder.is_dir() and any(folder.glob("*.py")))
MOST_MODULES = 12
MOST_LINES = 500


def test_there_are_folders_to_look_at():
    assert len(FOLDERS) > 30


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.relative_to(SRC).as_posix())
def test_a_folder_has_few_modules(folder):
    modules = sorted(file.name for file in folder.glob("*.py"))
    assert len(modules) <= MOST_MODULES, modules


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.relative_to(SRC).as_posix())
def test_a_module_is_short(folder):
    lines = {file.name: len(file.read_text(encoding="utf-8").splitlines()) for file in folder.glob("*.py")}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}
