"""The files of a new project, written all or not at all."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import TYPE_CHECKING

from floe_core.errors import ConfigurationError
from floe_core.runtime.files import write_together

if TYPE_CHECKING:
    from pathlib import Path

_TEMPLATES = {
    "floe.yaml": "floe.yaml.txt",
    "assets.py": "assets.py.txt",
    "README.md": "README.md.txt",
    ".gitignore": "gitignore.txt",
}
_NAME = re.compile(r"[a-z][a-z0-9_-]*")


def project_name(folder: Path, asked: str | None) -> str:
    """Return the name asked for, or one made from the folder's.

    Raises:
        ConfigurationError: The name asked for cannot be a project's.
    """
    if asked is None:
        return _tidy(folder.resolve().name) or "project"
    if not _NAME.fullmatch(asked):
        msg = f"'{asked}' cannot be a project's name: it takes lower case letters, digits, - and _."
        raise ConfigurationError(msg, hint=f"Write for example: --name {_tidy(asked) or 'my-project'}")
    return asked


def _tidy(text: str) -> str:
    return re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-_").lstrip("0123456789-_")


def write_project(folder: Path, name: str, *, force: bool) -> list[Path]:
    """Write a new project and return its files.

    Everything is written beside its place first and moved there at the end, so a full disk or an interruption
    leaves the folder as it was.

    Raises:
        ConfigurationError: A file is in the way and ``force`` is off, or the folder cannot be written to.
    """
    templates = files("floe_cli") / "templates"
    content = {
        target: (templates / source).read_text(encoding="utf-8").replace("@name@", name)
        for target, source in _TEMPLATES.items()
    }
    try:
        if folder.exists() and not folder.is_dir():
            msg = f"{folder} is a file."
            raise ConfigurationError(msg, hint="Name a folder.")
        _refuse_to_overwrite(folder, list(content), force=force)
        new = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        try:
            write_together(folder, content)
        except BaseException:
            if new:
                folder.rmdir()
            raise
        return [folder / name for name in content]
    except OSError as err:
        msg = f"Cannot write to {folder}: {err.strerror or err}."
        raise ConfigurationError(msg, hint="Choose a folder you may write to.") from err


def _refuse_to_overwrite(folder: Path, names: list[str], *, force: bool) -> None:
    if folders := [name for name in names if (folder / name).is_dir()]:
        msg = f"{folder} has a folder where a file should go: {', '.join(folders)}."
        raise ConfigurationError(msg, hint="Move it away, or choose another folder.")
    there = [name for name in names if (folder / name).exists()]
    if there and not force:
        msg = f"{folder} already has {', '.join(there)}."
        raise ConfigurationError(msg, hint="Choose another folder, or overwrite them with --force.")
