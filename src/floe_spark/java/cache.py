"""The folder for what floe fetches or builds once per user."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path

CACHE_VARIABLE = "FLOE_CACHE_DIR"


def cache_dir() -> Path:
    """Return the user's cache folder: ``FLOE_CACHE_DIR``, else ``floe`` in the platform's cache folder.

    On Linux that is ``$XDG_CACHE_HOME/floe`` or ``~/.cache/floe``.
    """
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen)
    return user_cache_path("floe", appauthor=False)
