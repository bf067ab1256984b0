"""Lazy imports of a package's public names."""

from __future__ import annotations

import warnings
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_NONE: Mapping[str, str] = MappingProxyType({})


def lazy_names(
    package: str, homes: Mapping[str, str], *, renamed: Mapping[str, str] = _NONE
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return a package's ``__getattr__`` and ``__dir__``.

    Args:
        package: The package's name.
        homes: The module of each public name.
        renamed: Former names that still work with a ``DeprecationWarning``, and the full path of what to use instead.
    """

    def find(name: str) -> object:
        if home := homes.get(name):
            return getattr(import_module(home), name)
        if replacement := renamed.get(name):
            # At the caller's import: find is called by it.
            warnings.warn(f"{package}.{name} is deprecated. Use {replacement}.", DeprecationWarning, stacklevel=2)
            module, _, current = replacement.rpartition(".")
            return getattr(import_module(module), current)
        msg = f"module '{package}' has no attribute '{name}'"
        raise AttributeError(msg)

    return find, lambda: sorted(homes)
