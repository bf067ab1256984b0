"""The distribution name of floe. It differs from the command's because ``floe`` on PyPI is a different project."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version

DISTRIBUTION = "floe-lakehouse"


def version() -> str:
    """Return the installed version; a placeholder for a checkout that is not installed."""
    try:
        return installed_version(DISTRIBUTION)
    except PackageNotFoundError:
        return "0+unknown"


def install_hint(extra: str) -> str:
    """Return the command that installs an extra, as a hint."""
    return f"Install it with: pip install '{DISTRIBUTION}[{extra}]'"
