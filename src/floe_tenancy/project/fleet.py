"""The same operation for many tenants: bounded concurrency, one tenant's failure stops nobody else."""

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
    """How an operation ended for one tenant."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class TenantOutcome:
    """One tenant's line of a report."""

    tenant: str
    state: TenantState
    detail: str = ""


@dataclass(frozen=True)
class FleetReport:
    """How an operation ended for every tenant, in the order they were given."""

    outcomes: tuple[TenantOutcome, ...] = field(default=())

    def of(self, state: TenantState) -> list[TenantOutcome]:
        """Return the tenants that ended in one state."""
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
    """Run ``work`` for every tenant; an error becomes that tenant's outcome."""
    ordered = list(dict.fromkeys(tenants))

    def attempt(tenant: str) -> TenantOutcome:
        try:
            return work(tenant)
        except FloeStorageError as err:
            return TenantOutcome(tenant, TenantState.FAILED, redact_text(str(err)))
        except Exception as err:  # noqa: BLE001 - whatever befell one tenant, the others go on
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


def bootstrap_many(  # noqa: PLR0913 - what to do, for whom, and how fast
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
            detail = f"created {', '.join(result.created_tables)}" if result.created_tables else "already there"
            return TenantOutcome(tenant, state, detail)

        return for_every_tenant(tenants, work, concurrency=concurrency, on_progress=on_progress)


def evolve_all(  # noqa: PLR0913 - what to do, for whom, and how fast
    bootstrapper: IcebergCatalogBootstrapper,
    spec: IcebergTableSpec,
    config: IcebergCatalogConfig,
    tenants: Iterable[str] | None = None,
    *,
    concurrency: int = DEFAULT_CONCURRENCY,
    on_progress: Callable[[TenantOutcome], None] | None = None,
    dry_run: bool = False,
) -> FleetReport:
    """Roll a table specification's new columns over tenants.

    Args:
        bootstrapper: Opens the catalog.
        spec: What the table should look like; columns it does not name stay.
        config: The catalog the tenants share.
        tenants: Whose tables; all that have a namespace by default.
        concurrency: Tenants worked on at once.
        on_progress: Told each tenant's outcome.
        dry_run: Only tell what would change.
    """
    with bootstrapper.session(config) as session:
        evolution = SchemaEvolutionManager(session.manager)

        def work(tenant: str) -> TenantOutcome:
            table = ".".join((*config.namespace_for(tenant), spec.name))
            try:
                plan = evolution.plan(table, spec.columns)
            except TableNotFoundError:
                return TenantOutcome(tenant, TenantState.SKIPPED, f"has no table {spec.name}")
            if plan.in_step:
                return TenantOutcome(tenant, TenantState.SKIPPED, "in step already")
            columns = ", ".join(change.column for change in plan.changes)
            if dry_run:
                return TenantOutcome(tenant, TenantState.DONE, f"would add {columns}")
            evolution.apply(plan)
            return TenantOutcome(tenant, TenantState.DONE, f"added {columns}")

        chosen = session.tenants() if tenants is None else tenants
        return for_every_tenant(chosen, work, concurrency=concurrency, on_progress=on_progress)
