"""The name under which floe is installed. It is not the command's: ``floe`` on PyPI belongs to somebody else."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version

DISTRIBUTION = "floe-lakehouse"


def version() -> str:
    """Return the installed version; of a checkout that was never installed there is none."""
    try:
        return installed_version(DISTRIBUTION)
    except PackageNotFoundError:
        return "0+unknown"


def install_hint(extra: str) -> str:
    """Say how an extra is installed."""
    return f"Install it with: pip install '{DISTRIBUTION}[{extra}]'"
