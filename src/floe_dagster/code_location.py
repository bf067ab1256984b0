"""The project as a Dagster code location: ``dagster dev -m floe_dagster.code_location``.

``FLOE_PROJECT`` is the folder that contains floe.yaml (default: the working directory), ``FLOE_ENV`` the environment.
``FLOE_PER_TENANT`` partitions assets by tenant, like ``per_tenant`` in floe.yaml.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from dagster import AssetKey, AssetSelection, Definitions, JobDefinition, define_asset_job, definitions

from floe_core.compile import compile_project
from floe_dagster.runs.pipeline import Pipeline
from floe_dagster.tenants import for_tenants

if TYPE_CHECKING:
    from floe_core.schemas import CompiledArtifacts

PROJECT_VARIABLE = "FLOE_PROJECT"
ENVIRONMENT_VARIABLE = "FLOE_ENV"
PER_TENANT_VARIABLE = "FLOE_PER_TENANT"


def artifacts_from_environment() -> CompiledArtifacts:
    """Compile the project that the environment variables select."""
    folder = Path(os.environ.get(PROJECT_VARIABLE) or Path.cwd())
    artifacts = compile_project(folder, environment=os.environ.get(ENVIRONMENT_VARIABLE) or None)
    return for_tenants(artifacts) if os.environ.get(PER_TENANT_VARIABLE) else artifacts


def export_project(artifacts: CompiledArtifacts, *, tenant: str | None) -> None:
    """Set the environment variables that select a project, for child processes."""
    os.environ[PROJECT_VARIABLE] = str(artifacts.project_root)
    os.environ[ENVIRONMENT_VARIABLE] = artifacts.environment or ""
    os.environ[PER_TENANT_VARIABLE] = "1" if tenant else ""


@definitions
def defs() -> Definitions:
    """Load the project's definitions."""
    return Pipeline.of(artifacts_from_environment()).definitions


def job_of_assets(keys: list[str]) -> JobDefinition:
    """Return a job over the given assets that step processes can reconstruct."""
    # Dagster reserves the name of its implicit global asset job, so the job cannot be loaded again by that name.
    selection = AssetSelection.assets(*(AssetKey.from_user_string(key) for key in keys))
    whole = Definitions(jobs=[define_asset_job("floe_run", selection)])
    return Definitions.merge(Pipeline.of(artifacts_from_environment()).definitions, whole).resolve_job_def("floe_run")
