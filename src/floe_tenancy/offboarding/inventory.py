"""The off-boarding plan: what would be removed, and what prevents it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from floe_core.errors import ConfigurationError, LegalHoldError, SharedFilesError
from floe_core.telemetry import traced
from floe_iceberg.commit.own_files import GC_PROPERTY, is_collected
from floe_iceberg.table.history.legal_hold import LEGAL_HOLD, hold_of, namespace_holds
from floe_tenancy.layout.contents import contents_of
from floe_tenancy.layout.layout import (
    broken_of_others,
    intruders,
    is_own_location,
    namespaces_of,
    places_of_all,
    tables_of,
    tenant_files,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from floe_tenancy.bootstrap import BootstrapSession
    from floe_tenancy.isolation import PolarisIsolation
    from floe_tenancy.layout.contents import NamespaceContent
    from floe_tenancy.layout.layout import TenantTable


@dataclass(frozen=True)
class OffboardingPlan:
    """What off-boarding a tenant would remove, and what prevents it.

    Attributes:
        tenant: The tenant.
        namespaces: Namespaces that would be dropped, parents first.
        tables: Tables that would be dropped, including broken ones.
        contents: Views and generic tables that would be dropped.
        objects: Objects that would be deleted.
        bytes: Their size.
        outside: Places of the tenant's tables outside its prefixes, which would not be deleted.
        holds: Legal holds, as ``name: reason``.
        intruders: Tables of others that are located below the tenant's prefixes.
        unreadable: Tables of others that cannot be read; their places are derived from their metadata file and their
            namespace.
        sharing: Tables of the tenant whose files may not be deleted, because ``gc.enabled=false`` indicates that
            other tables share them.
        has_access: Whether the tenant has credentials that would be revoked.
    """

    tenant: str
    namespaces: tuple[str, ...]
    tables: tuple[TenantTable, ...]
    contents: tuple[NamespaceContent, ...]
    objects: int
    bytes: int
    outside: tuple[str, ...]
    holds: tuple[str, ...]
    intruders: tuple[str, ...]
    unreadable: tuple[str, ...]
    sharing: tuple[str, ...]
    has_access: bool

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to remove."""
        return not (self.namespaces or self.objects or self.has_access)

    @property
    def broken(self) -> tuple[TenantTable, ...]:
        """Tables of the tenant that cannot be read."""
        return tuple(table for table in self.tables if table.broken)

    def refuse_obstacles(self) -> None:
        """Refuse a plan that is blocked.

        Raises:
            LegalHoldError: The tenant is under legal hold.
            SharedFilesError: Files of the tenant are shared with other tables.
            ConfigurationError: Tables of others would lose their files.
        """
        if self.holds:
            msg = f"Tenant '{self.tenant}' is under legal hold: {'; '.join(self.holds)}."
            properties = f"{LEGAL_HOLD}, or {LEGAL_HOLD}.{self.tenant} on its parent namespace"
            hint = f"Nothing was removed. To lift the hold, remove the property {properties}."
            raise LegalHoldError(msg, hint=hint)
        if self.intruders:
            msg = f"Tables of others are located in the prefix of tenant '{self.tenant}': {', '.join(self.intruders)}."
            raise ConfigurationError(msg, hint="Nothing was removed. Move these tables first.")
        if self.sharing:
            msg = f"Tables of tenant '{self.tenant}' share their files with other tables: {', '.join(self.sharing)}."
            hint = f"Nothing was removed. Set {GC_PROPERTY}=true on them once no other table needs the files."
            raise SharedFilesError(msg, hint=hint)

    @property
    def is_blocked(self) -> bool:
        """Whether off-boarding would be refused."""
        return bool(self.holds or self.intruders or self.sharing)


def plan_offboarding(session: BootstrapSession, tenant: str, isolation: PolarisIsolation | None) -> OffboardingPlan:
    """Take the inventory of a tenant and locate the tables of others, without changing anything."""
    all_tables = places_of_all(session.manager)
    return take_inventory(
        session,
        tenant,
        isolation,
        others=tuple(intruders(session.config, tenant, all_tables)),
        unreadable=tuple(broken_of_others(session.config, tenant, all_tables)),
    )


def take_inventory(
    session: BootstrapSession,
    tenant: str,
    isolation: PolarisIsolation | None,
    *,
    others: tuple[str, ...] = (),
    unreadable: tuple[str, ...] = (),
) -> OffboardingPlan:
    """Take the inventory of a tenant, without changing anything."""
    own = tenant_files(session.config, tenant)
    with traced("tenancy.offboard.inventory", tenant=tenant) as operation:
        namespaces = namespaces_of(session.manager, ".".join(session.config.namespace_for(tenant)))
        tables = tables_of(session.manager, namespaces)
        sizes = [
            item.size
            for address, prefix in session.storage.prefixes(tenant)
            for item in session.storage.store(address).list(prefix)
        ]
        plan = OffboardingPlan(
            tenant=tenant,
            namespaces=tuple(namespaces),
            tables=tuple(tables),
            contents=tuple(contents_of(session.manager, namespaces)),
            objects=len(sizes),
            bytes=sum(sizes),
            outside=tuple(place for table in tables for place in table.places if not is_own_location(own, place)),
            holds=tuple(_holds(session, tenant, namespaces, tables)),
            intruders=others,
            unreadable=unreadable,
            sharing=tuple(table.name for table in tables if not is_collected(table.properties)),
            has_access=isolation is not None and isolation.has_access(tenant),
        )
        operation.set(tables=len(tables), objects=plan.objects, bytes=plan.bytes)
        return plan


def _holds(session: BootstrapSession, tenant: str, namespaces: list[str], tables: list[TenantTable]) -> list[str]:
    """Return the holds on the tenant's namespace, its parents, and its contents."""
    catalog = session.manager.namespaces
    holds = namespace_holds(catalog, session.config.namespace_for(tenant))
    found: list[tuple[str, Mapping[str, str]]] = [(name, catalog.properties(name)) for name in namespaces[1:]]
    found += [(table.name, table.properties) for table in tables]
    holds |= {name: reason for name, properties in found if (reason := hold_of(properties)) is not None}
    return [f"{name}: {reason}" for name, reason in holds.items()]
