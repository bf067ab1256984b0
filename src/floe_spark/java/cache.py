"""The per-user cache directory for downloaded and generated files."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path

CACHE_VARIABLE = "FLOE_CACHE_DIR"


def cache_dir() -> Path:
    """Return the user's cache directory: ``FLOE_CACHE_DIR``, or else ``floe`` in the platform's cache directory.

    On Linux that is ``$XDG_CACHE_HOME/floe`` or ``~/.cache/floe``.
    """
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen)
    return user_cache_path("floe", appauthor=False)
