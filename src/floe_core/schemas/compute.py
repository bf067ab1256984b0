"""The ``compute`` and ``orchestration`` sections."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from floe_core.declaration.cron import require_cron, require_timezone
from floe_core.schemas.base import FrozenModel, Number, Setting, Text
from floe_core.schemas.checks import OtherTable

Cron = Annotated[Text, AfterValidator(require_cron)]
TimeZone = Annotated[Text, AfterValidator(require_timezone)]

_SCHEMES = ("spark://", "yarn", "k8s://", "sc://")


class ComputeConfig(FrozenModel):
    """The engine that runs the pipeline."""

    type: Text = Field(default="spark", description="Compute plugin.")
    master: Text = Field(
        default="local[*]",
        description="Spark master (local[*], spark://…, yarn, k8s://…) or a Spark Connect address (sc://…).",
    )
    driver_memory: Text = Field(
        default="2g",
        pattern=r"^\d+[kmgKMG]$",
        description="Heap size of the driver that floe starts, such as 2g or 512m.",
    )
    conf: dict[Text, Setting] = Field(default_factory=dict, description="Spark configuration, passed on unchanged.")
    packages: tuple[Text, ...] = Field(default=(), description="Extra Maven packages, group:artifact:version.")
    jars_dir: Text | None = Field(
        default=None, description="Folder with the jars, for machines without network access."
    )
    idle_timeout_minutes: Number = Field(
        default=30.0, ge=0, description="Idle time after which the warm Spark server stops; 0: never."
    )

    @field_validator("master")
    @classmethod
    def _known_master(cls, value: str) -> str:
        if "${" in value or value == "local" or value.startswith(("local[", *_SCHEMES)):
            return value
        msg = f"'{value}' is not a valid Spark master; use local[*], spark://host:port, yarn, k8s://… or sc://host:port"
        raise ValueError(msg)


class ScheduleConfig(FrozenModel):
    """A cron schedule over a selection of assets."""

    cron: Cron = Field(description="Cron expression with five fields, such as 0 6 * * * for every day at 06:00.")
    select: Text = Field(default="*", description="Asset selection.")
    timezone: TimeZone = Field(default="UTC", description="Time zone of the schedule.")


class CheckResultsConfig(FrozenModel):
    """Where the results of checks are stored."""

    enabled: bool = Field(default=True, description="Whether runs and floe test store the results of their checks.")
    table: OtherTable = Field(
        default="floe_checks.results",
        description="Table to append them to, created on first use; a tenant's table is in the tenant's namespace.",
    )


class OrchestrationConfig(FrozenModel):
    """The orchestrator and the definitions of the assets."""

    type: Text = Field(default="dagster", description="Orchestrator plugin.")
    module: Text | None = Field(default=None, description="Python module that defines the assets.")
    models: Text = Field(
        default="models", description="Folder of SQL models, relative to floe.yaml; it need not exist."
    )
    schedules: dict[Text, ScheduleConfig] = Field(default_factory=dict, description="Schedules by name.")
    per_tenant: bool = Field(default=False, description="Whether every asset has one partition per tenant.")
    check_results: CheckResultsConfig = Field(
        default_factory=CheckResultsConfig, description="Where the results of checks are stored."
    )
