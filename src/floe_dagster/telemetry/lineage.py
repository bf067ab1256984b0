"""OpenLineage events for runs: which job read and wrote which tables, and how it ended.

If the receiver is unavailable, a process tries again at most once every half minute.
"""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from floe_core.declaration.expansion import expand_section
from floe_core.errors import InvalidIdentifierError, MissingDependencyError
from floe_core.observing.observability import Receiver
from floe_core.observing.redaction import redact_text
from floe_dagster.assets.keys import DEFAULT_NAMESPACE, table_of
from floe_dagster.tenants import tenant_of_run
from floe_tenancy import tenant_namespace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dagster import AssetKey, DagsterRun
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import InputDataset, OutputDataset

    from floe_core.schemas import CompiledArtifacts, OpenLineageConfig
    from floe_dagster.telemetry.observer import StepAssets

API_KEY_VARIABLE = "OPENLINEAGE_API_KEY"
"""Environment variable with the receiver's API key, if it requires one."""

# OpenLineage requires a URI; this one is a name and does not resolve.
_PRODUCER = "urn:floe:floe-lakehouse"
_SETTING = "observability.openlineage"
# Jobs over an arbitrary set of assets, by the names that Dagster and floe use for them.
_UNNAMED_JOBS = frozenset({"__ASSET_JOB", "__ephemeral_asset_job__", "floe_run"})


def attempt_name(step: str, attempt: int) -> str:
    """Return a name for an attempt that is unique in its run and the same in every process."""
    return f"{step}:{attempt}" if attempt else step


class Lineage:
    """Sends OpenLineage events for the runs of a project."""

    def __init__(self, artifacts: CompiledArtifacts, config: OpenLineageConfig) -> None:
        """Send to the configured receiver; the connection is opened with the first event."""
        self._artifacts = artifacts
        self._config = config
        self._receiver = Receiver.of(_SETTING)

    @classmethod
    def of(cls, artifacts: CompiledArtifacts) -> Lineage | None:
        """Return the lineage of a project; None if floe.yaml configures no receiver.

        Raises:
            MissingDependencyError: A receiver is configured, but the extra ``openlineage`` is not installed.
        """
        config = artifacts.observability.openlineage
        if config is None:
            return None
        try:
            import openlineage.client  # noqa: F401 - checks that it is installed
        except ImportError as err:
            raise MissingDependencyError(_SETTING, extra="openlineage") from err
        return cls(artifacts, expand_section(config, path=_SETTING))

    @property
    def namespace(self) -> str:
        """Namespace of the jobs."""
        return self._config.namespace or self._artifacts.name

    def of_run(self, run_id: str, job: str) -> StepLineage:
        """Describe a run as a whole."""
        return StepLineage(self, run_id, self._job_name(job), kind="JOB")

    def of_step(self, run: DagsterRun, step: str, assets: StepAssets, *, attempt: int = 0) -> StepLineage:
        """Describe an attempt at a step of a run; the job is named after the asset it makes.

        Each retry has a run id of its own, because a failed OpenLineage run cannot start again.
        """
        name = assets.made[0].to_user_string() if len(assets.made) == 1 else step
        prefix = ""
        if self._artifacts.orchestration.per_tenant:
            prefix = f"{tenant_namespace(self._artifacts, tenant_of_run(run.tags))}."
        return StepLineage(
            self,
            str(uuid.uuid5(uuid.UUID(run.run_id), attempt_name(step, attempt))),
            name,
            kind="ASSET",
            parent=(run.run_id, self._job_name(run.job_name)),
            reads=tuple(f"{prefix}{table}" for table in _tables(assets.used)),
        )

    def _job_name(self, job: str) -> str:
        return self._artifacts.name if job in _UNNAMED_JOBS else job

    @property
    def datasets(self) -> str:
        """Namespace of the tables."""
        return f"iceberg://{self._artifacts.catalog.name}"

    @cached_property
    def _client(self) -> OpenLineageClient:
        from openlineage.client import OpenLineageClient
        from openlineage.client.transport.http import ApiKeyTokenProvider, HttpConfig, HttpTransport, TokenProvider

        key = os.environ.get(API_KEY_VARIABLE)
        config = HttpConfig(
            # With a trailing slash, the endpoint is resolved below the full URL and not only below its host.
            url=f"{self._config.url.rstrip('/')}/",
            endpoint=self._config.endpoint,
            timeout=self._config.timeout_seconds,
            auth=ApiKeyTokenProvider({"api_key": key}) if key else TokenProvider({}),
            # No read retries: wait only once for a receiver that hangs.
            retry={"total": 1, "read": 0, "backoff_factor": 0.3, "allowed_methods": ["POST"]},
        )
        return OpenLineageClient(transport=HttpTransport(config))

    def send(self, event: Any) -> None:  # noqa: ANN401 - a RunEvent
        """Send an event; after a failure, sending pauses for a while."""
        if self._receiver.paused:
            return
        try:
            self._receiver.take(lambda: self._client.emit(event), seconds=self._config.timeout_seconds)
        except Exception as err:  # noqa: BLE001 - lineage must not fail the run
            # The response is not logged: it may repeat the request.
            self._receiver.failed("lineage_not_sent", url=redact_text(self._config.url), error=type(err).__name__)


@dataclass
class StepLineage:
    """The events of one run of one job."""

    lineage: Lineage
    run_id: str
    name: str
    kind: str
    parent: tuple[str, str] | None = None
    reads: tuple[str, ...] = ()
    outputs: dict[str, OutputDataset] = field(default_factory=dict)

    def start(self) -> None:
        """Send the START event."""
        self._send("START")

    def complete(self) -> None:
        """Send the COMPLETE event."""
        self._send("COMPLETE")

    def fail(self, reason: str) -> None:
        """Send the FAIL event with the reason."""
        self._send("FAIL", reason)

    def wrote(self, metadata: Mapping[str, Any]) -> None:
        """Record a write from the materialization's metadata."""
        from openlineage.client.event_v2 import OutputDataset
        from openlineage.client.facet_v2 import (
            dataset_version_dataset,
            output_statistics_output_dataset,
            schema_dataset,
        )

        if "table" not in metadata:
            return
        facets: dict[str, Any] = {}
        if (schema := getattr(metadata.get("dagster/column_schema"), "schema", None)) is not None:
            columns = [
                schema_dataset.SchemaDatasetFacetFields(
                    name=column.name, type=column.type, description=column.description
                )
                for column in schema.columns
            ]
            facets["schema"] = schema_dataset.SchemaDatasetFacet(fields=columns)
        if "snapshot_id" in metadata:
            version = str(metadata["snapshot_id"].value)
            facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=version)
        statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
            rowCount=_number(metadata, "num_rows"),
            size=_number(metadata, "bytes"),
            fileCount=_number(metadata, "files"),
        )
        name = str(metadata["table"].value)
        # A write of several partitions logs one materialization each, all with the statistics of the whole write.
        self.outputs[name] = OutputDataset(
            namespace=self.lineage.datasets,
            name=name,
            facets=facets,
            outputFacets={"outputStatistics": statistics},
        )

    def _send(self, state: str, reason: str | None = None) -> None:
        from openlineage.client.event_v2 import Job, Run, RunEvent, RunState
        from openlineage.client.facet_v2 import error_message_run, job_type_job, parent_run

        facets: dict[str, Any] = {}
        if self.parent is not None:
            run_id, job = self.parent
            facets["parent"] = parent_run.ParentRunFacet(
                run=parent_run.Run(runId=run_id), job=parent_run.Job(namespace=self.lineage.namespace, name=job)
            )
        if reason is not None:
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(
                message=redact_text(reason), programmingLanguage="python"
            )
        kind = job_type_job.JobTypeJobFacet(processingType="BATCH", integration="DAGSTER", jobType=self.kind)
        self.lineage.send(
            RunEvent(
                eventType=RunState[state],
                eventTime=datetime.now(UTC).isoformat(),
                run=Run(runId=self.run_id, facets=facets),
                job=Job(namespace=self.lineage.namespace, name=self.name, facets={"jobType": kind}),
                inputs=self._inputs(),
                outputs=list(self.outputs.values()),
                producer=_PRODUCER,
            )
        )

    def _inputs(self) -> list[InputDataset]:
        from openlineage.client.event_v2 import InputDataset

        return [InputDataset(namespace=self.lineage.datasets, name=table) for table in self.reads]


def _tables(keys: Iterable[AssetKey]) -> list[str]:
    found = []
    for key in keys:
        try:
            found.append(table_of(key.path, default_namespace=DEFAULT_NAMESPACE))
        except InvalidIdentifierError:
            # An external asset need not be a table.
            found.append(key.to_user_string())
    return found


def _number(metadata: Mapping[str, Any], key: str) -> int | None:
    value = getattr(metadata.get(key), "value", None)
    return value if isinstance(value, int) else None
