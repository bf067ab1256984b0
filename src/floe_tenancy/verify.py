"""Verify the layout of tenants."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from floe_core.declaration.locations import is_at_or_below, plain_uri
from floe_core.errors import CapabilityError, CatalogAuthorizationError, FloeStorageError, TransientError
from floe_core.observing.redaction import redact_text
from floe_core.telemetry import traced
from floe_tenancy.identity import validate_tenant_id
from floe_tenancy.layout.layout import (
    broken_of_others,
    intruders,
    is_own_location,
    namespaces_of,
    places_of_all,
    tables_of,
    tenant_files,
)
from floe_tenancy.storage import MARKER_NAME
from floe_tenancy.tables import DEFAULT_TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from floe_tenancy.bootstrap import BootstrapSession
    from floe_tenancy.isolation import PolarisIsolation
    from floe_tenancy.layout.layout import TablePlaces, TenantTable
    from floe_tenancy.tables import IcebergTableSpec

_SHOWN = 5


class CheckState(StrEnum):
    """Result of a check."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class LayoutCheck:
    """One check of a tenant's layout."""

    name: str
    state: CheckState
    detail: str


@dataclass(frozen=True, slots=True)
class LayoutReport:
    """All checks of one tenant."""

    tenant: str
    checks: tuple[LayoutCheck, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return all(check.state is not CheckState.FAILED for check in self.checks)


def verify_tenants(
    session: BootstrapSession,
    tenants: Iterable[str],
    tables: Sequence[IcebergTableSpec] = DEFAULT_TABLES,
    *,
    isolation: PolarisIsolation | None = None,
    on_progress: Callable[[LayoutReport], None] | None = None,
) -> list[LayoutReport]:
    """Verify many tenants; the locations of all tables in the catalog are read only once.

    Args:
        session: The catalog and its stores.
        tenants: The tenants.
        tables: The tables every tenant has.
        isolation: Reviews the tenants' privileges, on Polaris.
        on_progress: Called with each tenant's report.
    """
    ordered = [validate_tenant_id(tenant) for tenant in tenants]
    try:
        all_tables = places_of_all(session.manager) if ordered else {}
    except CatalogAuthorizationError:
        all_tables = None
    reports = []
    for tenant in ordered:
        report = _verified(session, tenant, tables, all_tables)
        if isolation is not None:
            report = replace(report, checks=(*report.checks, _access(isolation, tenant)))
        reports.append(report)
        if on_progress:
            on_progress(reports[-1])
    return reports


def verify_tenant(
    session: BootstrapSession, tenant: str, tables: Sequence[IcebergTableSpec] = DEFAULT_TABLES
) -> LayoutReport:
    """Verify a tenant's namespace, location, markers, tables and files; nothing is changed.

    Raises:
        InvalidIdentifierError: The tenant id is invalid.
    """
    return verify_tenants(session, [tenant], tables)[0]


def _verified(
    session: BootstrapSession,
    tenant: str,
    tables: Sequence[IcebergTableSpec],
    all_tables: Mapping[str, TablePlaces] | None,
) -> LayoutReport:
    namespace = ".".join(session.config.namespace_for(tenant))
    with traced("tenancy.verify", tenant=tenant, namespace=namespace) as operation:
        namespaces = namespaces_of(session.manager, namespace)
        found = tables_of(session.manager, namespaces)
        checks = (
            _check(
                "namespace",
                [] if namespaces else [f"{namespace} does not exist; create it with: floe tenants bootstrap {tenant}"],
                namespace,
            ),
            _location(session, tenant, exists=bool(namespaces)),
            _markers(session, tenant),
            _tables(namespace, found, tables),
            _places(session, tenant, found),
            _data_files(session, tenant, found),
            _objects(session, tenant, found),
            _intruders(session, tenant, all_tables),
        )
        report = LayoutReport(tenant, checks)
        operation.set(ok=report.ok)
        return report


def _check(name: str, wrong: Sequence[str], detail: str) -> LayoutCheck:
    more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
    if wrong:
        return LayoutCheck(name, CheckState.FAILED, "; ".join(wrong[:_SHOWN]) + more)
    return LayoutCheck(name, CheckState.OK, detail)


def _location(session: BootstrapSession, tenant: str, *, exists: bool) -> LayoutCheck:
    expected = session.config.warehouse_uri_for(tenant)
    namespace = session.config.namespace_for(tenant)
    found = session.manager.namespaces.properties(namespace).get("location") if exists else None
    right = found is not None and plain_uri(found) == plain_uri(expected)
    return _check("location", [] if right else [f"is {found or 'not set'}, should be {expected}"], expected)


def _markers(session: BootstrapSession, tenant: str) -> LayoutCheck:
    markers = session.storage.read_markers(tenant)
    wrong = [f"{uri} is missing or damaged" for uri, content in markers.items() if content is None]
    wrong += [
        f"{uri} belongs to tenant {content.get('tenant')!r}"
        for uri, content in markers.items()
        if content is not None and content.get("tenant") != tenant
    ]
    return _check("markers", wrong, ", ".join(markers))


def _tables(namespace: str, found: Sequence[TenantTable], specs: Sequence[IcebergTableSpec]) -> LayoutCheck:
    by_name = {table.name: table for table in found}
    wrong = [f"cannot read {table.name}: {table.broken}" for table in found if table.broken]
    for spec in specs:
        table = by_name.get(f"{namespace}.{spec.name}")
        if table is None:
            wrong.append(f"{spec.name} is missing")
        elif table.broken:
            continue
        elif lacking := [column.name for column in spec.columns if column.name not in table.columns]:
            wrong.append(f"{spec.name} is missing columns: {', '.join(lacking)}")
    return _check("tables", wrong, ", ".join(table.name for table in found) or "none")


def _places(session: BootstrapSession, tenant: str, found: Sequence[TenantTable]) -> LayoutCheck:
    own = tenant_files(session.config, tenant)
    wrong = [f"{t.name} uses {place}" for t in found for place in t.places if not is_own_location(own, place)]
    return _check("table locations", wrong, "all below the tenant's prefixes")


def _data_files(session: BootstrapSession, tenant: str, found: Sequence[TenantTable]) -> LayoutCheck:
    own = tenant_files(session.config, tenant)
    wrong = []
    for table in found:
        if table.snapshot_id is None:
            continue
        try:
            files = session.manager.files(table.name)
        except TransientError:
            raise
        except FloeStorageError as err:
            # A damaged table does not stop the check of the others.
            wrong.append(f"cannot read {table.name}: {redact_text(err.message)}")
            continue
        wrong += [f"{table.name} reads {file.path}" for file in files if file.path not in own]
    return _check("data files", wrong, "all below the tenant's prefixes")


def _objects(session: BootstrapSession, tenant: str, found: Sequence[TenantTable]) -> LayoutCheck:
    owned = [place for table in found for place in table.places]
    wrong, count = [], 0
    for address, prefix in session.storage.prefixes(tenant):
        for item in session.storage.store(address).list(prefix):
            count += 1
            if item.key != prefix + MARKER_NAME and not is_at_or_below(address.uri(item.key), owned):
                wrong.append(address.uri(item.key))
    return _check("foreign files", wrong, f"none among {count:,}")


def _intruders(session: BootstrapSession, tenant: str, all_tables: Mapping[str, TablePlaces] | None) -> LayoutCheck:
    if all_tables is None:
        detail = "these credentials are not allowed to list the tables of others"
        return LayoutCheck("tables of others", CheckState.SKIPPED, detail)
    wrong = [f"{name} is located below the tenant's prefixes" for name in intruders(session.config, tenant, all_tables)]
    unreadable = broken_of_others(session.config, tenant, all_tables)
    note = f"; cannot read: {', '.join(unreadable)}" if unreadable else ""
    return _check("tables of others", wrong, f"none below the tenant's prefixes{note}")


def _access(isolation: PolarisIsolation, tenant: str) -> LayoutCheck:
    try:
        review, unsafe = isolation.review(tenant), isolation.unsafe_settings()
    except CatalogAuthorizationError:
        return LayoutCheck("access", CheckState.SKIPPED, "these credentials are not allowed to list privileges")
    except CapabilityError:
        return LayoutCheck("access", CheckState.SKIPPED, "this catalog has no Polaris management API")
    if review is None:
        detail = f"no credentials of its own; create them with: floe tenants bootstrap {tenant} --isolate"
        return LayoutCheck("access", CheckState.SKIPPED, detail)
    wrong = [f"should not have {one}" for one in review.excess] + [f"is missing {one}" for one in review.missing]
    wrong += [f"catalog setting {one} allows table locations outside the tenant's namespace" for one in unsafe]
    return _check(
        "access", wrong, f"principal '{isolation.principal_of(tenant)}' has exactly the privileges of a tenant"
    )
