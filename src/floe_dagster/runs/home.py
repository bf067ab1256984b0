"""The project's Dagster instance, stored below .floe, with telemetry disabled."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dagster import DagsterInstance

from floe_core.runtime.files import write_atomically

if TYPE_CHECKING:
    from floe_core.schemas import CompiledArtifacts

_SETTINGS = """\
# Created by floe; edit as you like.
telemetry:
  enabled: false
nux:
  enabled: false
# The UI shows the log of every step; floe dev does not repeat it in the terminal.
python_logs:
  python_log_level: INFO
"""


def dagster_home(artifacts: CompiledArtifacts) -> Path:
    """Return the project's Dagster home; create it if missing.

    Each environment has a separate home, because the run history of one does not apply to another.
    """
    name = f"dagster-{artifacts.environment}" if artifacts.environment else "dagster"
    home = Path(artifacts.project_root).resolve() / ".floe" / name
    home.mkdir(parents=True, exist_ok=True)
    if not (home / "dagster.yaml").exists():
        write_atomically(home / "dagster.yaml", _SETTINGS, mode=0o644)
    return home


def open_instance(artifacts: CompiledArtifacts) -> DagsterInstance:
    """Open the project's Dagster instance; also a context manager."""
    return DagsterInstance.from_config(str(dagster_home(artifacts)))
