"""Write the files of a new project, all or none."""

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


def project_name(folder: Path, given: str | None) -> str:
    """Return the given project name, or derive one from the folder's name.

    Raises:
        ConfigurationError: The given name is not valid.
    """
    if given is None:
        return _tidy(folder.resolve().name) or "project"
    if not _NAME.fullmatch(given):
        msg = (
            f"'{given}' is not a valid project name: "
            "start with a lowercase letter and use lowercase letters, digits, - and _."
        )
        raise ConfigurationError(msg, hint=f"For example: --name {_tidy(given) or 'my-project'}")
    return given


def _tidy(text: str) -> str:
    return re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-_").lstrip("0123456789-_")


def write_project(folder: Path, name: str, *, force: bool) -> list[Path]:
    """Write a new project and return its files.

    Files are written to temporary names and renamed at the end, so a full disk or an interruption leaves the folder
    unchanged.

    Raises:
        ConfigurationError: A file already exists and ``force`` is off, or the folder is not writable.
    """
    templates = files("floe_cli") / "templates"
    content = {
        target: (templates / source).read_text(encoding="utf-8").replace("@name@", name)
        for target, source in _TEMPLATES.items()
    }
    try:
        if folder.exists() and not folder.is_dir():
            msg = f"{folder} is a file, not a folder."
            raise ConfigurationError(msg, hint="Pass a folder.")
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
        raise ConfigurationError(msg, hint="Choose a folder you can write to.") from err


def _refuse_to_overwrite(folder: Path, names: list[str], *, force: bool) -> None:
    if folders := [name for name in names if (folder / name).is_dir()]:
        msg = f"Cannot write {', '.join(folders)} to {folder}: a folder with that name exists."
        raise ConfigurationError(msg, hint="Move it, or choose another folder.")
    existing = [name for name in names if (folder / name).exists()]
    if existing and not force:
        msg = f"{folder} already contains {', '.join(existing)}."
        raise ConfigurationError(msg, hint="Choose another folder, or overwrite them with --force.")
