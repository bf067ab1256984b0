"""What tests do when a program they need is not there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable


def missing_toolchain(reason: str) -> NoReturn:
    """Skip the test by name; with ``CI=true`` fail it, because there the set-up has to bring the program."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"missing toolchain: {reason}", pytrace=False)
    pytest.skip(f"missing toolchain: {reason}")


def require(tool: str, *, folders: Iterable[Path] = (), hint: str = "") -> Path:
    """Return the program's path, looked up in the folders given and on the PATH, or give up on the test."""
    for folder in folders:
        if (candidate := folder / tool).is_file():
            return candidate
    if found := shutil.which(tool):
        return Path(found)
    missing_toolchain(f"{tool} is not installed{'; ' + hint if hint else ''}")
