"""Run an operation for many tenants, with bounded concurrency; one tenant's failure does not stop the others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from floe_core.errors import FloeStorageError, TableNotFoundError
from floe_core.observing.redaction import redact_text
from floe_core.telemetry import get_logger
from floe_tenancy.evolution import SchemaEvolutionManager
from floe_tenancy.tables import DEFAULT_TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from floe_tenancy.bootstrap import IcebergCatalogBootstrapper
    from floe_tenancy.config import IcebergCatalogConfig
    from floe_tenancy.tables import IcebergTableSpec

DEFAULT_CONCURRENCY = 4

_log = get_logger(__name__)


class TenantState(StrEnum):
    """Result of an operation for one tenant."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class TenantOutcome:
    """Outcome of an operation for one tenant."""

    tenant: str
    state: TenantState
    detail: str = ""


@dataclass(frozen=True)
class FleetReport:
    """Outcomes of an operation for all tenants, in the given order."""

    outcomes: tuple[TenantOutcome, ...] = field(default=())

    def of(self, state: TenantState) -> list[TenantOutcome]:
        """Return the outcomes with the given state."""
        return [outcome for outcome in self.outcomes if outcome.state is state]

    @property
    def ok(self) -> bool:
        """Whether no tenant failed."""
        return not self.of(TenantState.FAILED)


def for_every_tenant(
    tenants: Iterable[str],
    work: Callable[[str], TenantOutcome],
    *,
    concurrency: int = DEFAULT_CONCURRENCY,
    on_progress: Callable[[TenantOutcome], None] | None = None,
) -> FleetReport:
    """Run ``work`` for every tenant; an error becomes the tenant's outcome."""
    ordered = list(dict.fromkeys(tenants))

    def attempt(tenant: str) -> TenantOutcome:
        try:
            return work(tenant)
        except FloeStorageError as err:
            return TenantOutcome(tenant, TenantState.FAILED, redact_text(str(err)))
        except Exception as err:  # noqa: BLE001 - one tenant's failure does not stop the others
            _log.exception("tenancy.failed", tenant=tenant)
            return TenantOutcome(tenant, TenantState.FAILED, redact_text(f"{type(err).__name__}: {err}"))

    outcomes: dict[str, TenantOutcome] = {}
    with ThreadPoolExecutor(max_workers=concurrency, thread_name_prefix="floe-tenants") as pool:
        for future in as_completed([pool.submit(attempt, tenant) for tenant in ordered]):
            outcome = future.result()
            outcomes[outcome.tenant] = outcome
            if on_progress:
                on_progress(outcome)
    return FleetReport(tuple(outcomes[tenant] for tenant in ordered))


def bootstrap_many(  # noqa: PLR0913 - operation, tenants and concurrency
    bootstrapper: IcebergCatalogBootstrapper,
    tenants: Iterable[str],
    config: IcebergCatalogConfig,
    tables: Sequence[IcebergTableSpec] = DEFAULT_TABLES,
    *,
    concurrency: int = DEFAULT_CONCURRENCY,
    on_progress: Callable[[TenantOutcome], None] | None = None,
) -> FleetReport:
    """Bootstrap many tenants."""
    with bootstrapper.session(config) as session:

        def work(tenant: str) -> TenantOutcome:
            result = session.bootstrap(tenant, tables)
            state = TenantState.DONE if result.created_tables else TenantState.SKIPPED
            detail = f"created {', '.join(result.created_tables)}" if result.created_tables else "already exists"
            return TenantOutcome(tenant, state, detail)

        return for_every_tenant(tenants, work, concurrency=concurrency, on_progress=on_progress)


def evolve_all(  # noqa: PLR0913 - operation, tenants and concurrency
    bootstrapper: IcebergCatalogBootstrapper,
    spec: IcebergTableSpec,
    config: IcebergCatalogConfig,
    tenants: Iterable[str] | None = None,
    *,
    concurrency: int = DEFAULT_CONCURRENCY,
    on_progress: Callable[[TenantOutcome], None] | None = None,
    dry_run: bool = False,
) -> FleetReport:
    """Add the new columns of a table specification to the tables of many tenants.

    Args:
        bootstrapper: Opens the catalog.
        spec: Specification of the table; other columns are kept.
        config: Configuration of the shared catalog.
        tenants: The tenants; by default, all tenants with a namespace.
        concurrency: Maximum number of tenants processed at the same time.
        on_progress: Called with each tenant's outcome.
        dry_run: Whether to only report what would change.
    """
    with bootstrapper.session(config) as session:
        evolution = SchemaEvolutionManager(session.manager)

        def work(tenant: str) -> TenantOutcome:
            table = ".".join((*config.namespace_for(tenant), spec.name))
            try:
                plan = evolution.plan(table, spec.columns)
            except TableNotFoundError:
                return TenantOutcome(tenant, TenantState.SKIPPED, f"no table {spec.name}")
            if plan.in_step:
                return TenantOutcome(tenant, TenantState.SKIPPED, "up to date")
            columns = ", ".join(change.column for change in plan.changes)
            if dry_run:
                return TenantOutcome(tenant, TenantState.DONE, f"would add {columns}")
            evolution.apply(plan)
            return TenantOutcome(tenant, TenantState.DONE, f"added {columns}")

        chosen = session.tenants() if tenants is None else tenants
        return for_every_tenant(chosen, work, concurrency=concurrency, on_progress=on_progress)
