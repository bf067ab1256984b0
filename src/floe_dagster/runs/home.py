"""Where a project's runs are remembered: a Dagster instance below .floe, which calls nobody."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dagster import DagsterInstance

from floe_core.runtime.files import write_atomically

if TYPE_CHECKING:
    from floe_core.schemas import CompiledArtifacts

_SETTINGS = """\
# Made by floe; change it as you like.
telemetry:
  enabled: false
nux:
  enabled: false
# What a run does is in the UI step by step; the terminal of floe dev need not repeat it.
python_logs:
  python_log_level: INFO
"""


def dagster_home(artifacts: CompiledArtifacts) -> Path:
    """Return the project's Dagster home, made when missing.

    Each environment has one of its own: what was written in one says nothing about another.
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
