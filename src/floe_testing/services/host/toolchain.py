"""Skips or fails tests whose tools are not installed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable


def missing_toolchain(reason: str) -> NoReturn:
    """Skip the test with a reason; fail it if ``CI=true``, where all tools must be installed."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"missing toolchain: {reason}", pytrace=False)
    pytest.skip(f"missing toolchain: {reason}")


def require(tool: str, *, folders: Iterable[Path] = (), hint: str = "") -> Path:
    """Return the path of a tool in the given folders or on PATH; skip the test if there is none."""
    for folder in folders:
        if (candidate := folder / tool).is_file():
            return candidate
    if found := shutil.which(tool):
        return Path(found)
    missing_toolchain(f"{tool} is not installed{'; ' + hint if hint else ''}")
