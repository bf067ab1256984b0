"""The project as Dagster's own commands load it: ``dagster dev -m floe_dagster.code_location``.

``FLOE_PROJECT`` names the folder of floe.yaml (the working directory by default) and ``FLOE_ENV`` its environment;
with ``FLOE_PER_TENANT`` assets have a partition for each tenant, as if floe.yaml said so.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from dagster import Definitions, JobDefinition, definitions

from floe_core.compile import compile_project
from floe_dagster.pipeline import Pipeline
from floe_dagster.tenants import for_tenants

if TYPE_CHECKING:
    from floe_core.schemas import CompiledArtifacts

PROJECT_VARIABLE = "FLOE_PROJECT"
ENVIRONMENT_VARIABLE = "FLOE_ENV"
PER_TENANT_VARIABLE = "FLOE_PER_TENANT"


def artifacts_from_environment() -> CompiledArtifacts:
    """Compile the project that the environment names."""
    folder = Path(os.environ.get(PROJECT_VARIABLE) or Path.cwd())
    artifacts = compile_project(folder, environment=os.environ.get(ENVIRONMENT_VARIABLE) or None)
    return for_tenants(artifacts) if os.environ.get(PER_TENANT_VARIABLE) else artifacts


@definitions
def defs() -> Definitions:
    """Load the project's definitions."""
    return Pipeline.of(artifacts_from_environment()).definitions


def all_assets_job() -> JobDefinition:
    """Return the job that holds every asset, for step processes to load again."""
    return Pipeline.of(artifacts_from_environment()).definitions.resolve_implicit_global_asset_job_def()
