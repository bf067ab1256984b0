"""``floe init``: the new project runs, and is written completely or not at all."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

FILES = ["floe.yaml", "assets.py", "README.md", ".gitignore"]


def names(folder: str = ".") -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


def test_init_writes_a_project(floe, tmp_path):
    run = floe("init", "shop")
    assert run.code == 0
    assert names("shop") == sorted(FILES)
    assert "name: shop" in Path("shop/floe.yaml").read_text()
    assert "@name@" not in "".join(Path("shop", name).read_text() for name in FILES)
    ast.parse(Path("shop/assets.py").read_text())


def test_json_shape(floe, tmp_path):
    run = floe("init", "shop", "--output", "json")
    assert run.json == {"ok": True, "data": {"name": "shop", "path": str(tmp_path / "shop"), "files": FILES}}


def test_init_here(floe):
    assert floe("init", "--name", "shop").code == 0
    assert Path("floe.yaml").exists()


def test_existing_files_are_kept(floe):
    Path("README.md").write_text("mine")
    run = floe("init")
    assert run.code == 1
    assert "already contains README.md" in run.err
    assert names() == ["README.md"]
    assert Path("README.md").read_text() == "mine"


def test_force_overwrites(floe):
    Path("README.md").write_text("mine")
    assert floe("init", "--name", "shop", "--force").code == 0
    assert Path("README.md").read_text().startswith("# shop")


@pytest.mark.parametrize(("folder", "name"), [("My.Shop", "my-shop"), ("1st_Shop", "st_shop"), ("ÄÖ", "project")])
def test_the_name_comes_from_the_folder(floe, folder, name):
    assert floe("init", folder, "-o", "json").data["name"] == name


def test_a_name_that_cannot_be_is_refused(floe):
    run = floe("init", "shop", "--name", "My Shop")
    assert run.code == 1
    assert "--name my-shop" in run.err
    assert not Path("shop").exists()


def test_a_failure_half_way_leaves_nothing(floe, monkeypatch):
    real = Path.write_text

    def full_disk(self: Path, *args: object, **kwargs: object) -> int:
        if self.name == "README.md":
            raise OSError(28, "No space left on device")
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Path, "write_text", full_disk)
    run = floe("init", "shop")
    assert run.code == 1
    assert "No space left on device" in run.err
    assert not Path("shop").exists()


def test_a_file_where_the_folder_should_be(floe):
    Path("shop").write_text("mine")
    run = floe("init", "shop", "--force")
    assert run.code == 1
    assert "shop is a file" in run.err


def test_a_folder_where_a_file_should_be(floe):
    Path("floe.yaml").mkdir()
    run = floe("init", "--force")
    assert run.code == 1
    assert "a folder with that name exists" in run.err
    assert names() == ["floe.yaml"]
