"""Lazy imports of a package's public names."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return a package's ``__getattr__`` and ``__dir__``.

    Args:
        package: The package's name.
        homes: The module of each public name.
    """

    def find(name: str) -> object:
        if home := homes.get(name):
            return getattr(import_module(home), name)
        msg = f"module '{package}' has no attribute '{name}'"
        raise AttributeError(msg)

    return find, lambda: sorted(homes)
