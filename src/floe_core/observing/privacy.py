"""No usage statistics: those of dependencies are disabled unless the user enables them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import MutableMapping

OPT_OUTS = {
    "DAGSTER_DISABLE_TELEMETRY": "1",
    "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
    "DO_NOT_TRACK": "1",
}


def opt_out_of_usage_statistics(environ: MutableMapping[str, str] | None = None) -> None:
    """Disable the usage statistics of dependencies in this process and its children; the user's settings are kept."""
    environ = os.environ if environ is None else environ
    for variable, value in OPT_OUTS.items():
        environ.setdefault(variable, value)
