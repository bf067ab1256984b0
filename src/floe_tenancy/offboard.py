"""Off-boarding: a tenant leaves, and nothing of it stays; its neighbours keep every byte."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from floe_core.errors import (
    ConfigurationError,
    LegalHoldError,
    NamespaceNotFoundError,
    SharedFilesError,
    StorageError,
    TableNotFoundError,
)
from floe_core.locations import lies_in
from floe_core.telemetry import traced
from floe_iceberg.legal_hold import LEGAL_HOLD, hold_of, namespace_holds
from floe_iceberg.own_files import GC_PROPERTY, is_collected
from floe_tenancy.export import export_root, export_table
from floe_tenancy.identity import validate_tenant_id
from floe_tenancy.journal import OffboardingJournal
from floe_tenancy.layout import intruders, namespaces_of, places_of_all, tables_of, tenant_roots
from floe_tenancy.storage import MARKER_NAME

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from floe_tenancy.bootstrap import BootstrapSession
    from floe_tenancy.isolation import PolarisIsolation
    from floe_tenancy.layout import TenantTable


class OffboardingStep(StrEnum):
    """The steps, in their order."""

    INVENTORY = "inventory"
    EXPORT = "export"
    REVOKE = "revoke"
    DROP = "drop"
    PURGE = "purge"
    VERIFY = "verify"


@dataclass(frozen=True)
class OffboardingPlan:
    """What off-boarding a tenant would remove, and what stands in its way.

    Attributes:
        tenant: Who would leave.
        namespaces: Namespaces that would be dropped, parents first.
        tables: Tables that would be dropped.
        objects: Objects that would be deleted.
        bytes: Their size.
        outside: Places of the tenant's tables beyond its prefixes, which would be left as they are.
        holds: Legal holds, as ``name: reason``.
        intruders: Tables of others that lie in the tenant's prefixes.
        sharing: Tables of the tenant whose files may not be deleted, because ``gc.enabled=false`` says that other
            tables share them.
        has_access: Whether the tenant has credentials that would end.
    """

    tenant: str
    namespaces: tuple[str, ...]
    tables: tuple[TenantTable, ...]
    objects: int
    bytes: int
    outside: tuple[str, ...]
    holds: tuple[str, ...]
    intruders: tuple[str, ...]
    sharing: tuple[str, ...]
    has_access: bool

    @property
    def is_empty(self) -> bool:
        """Whether nothing of the tenant is there."""
        return not (self.namespaces or self.objects or self.has_access)

    def refuse_obstacles(self) -> None:
        """Refuse to go on while something stands in the way.

        Raises:
            LegalHoldError: The tenant is under legal hold.
            SharedFilesError: Files of the tenant are shared with other tables.
            ConfigurationError: Tables of others would lose their files.
        """
        if self.holds:
            msg = f"The tenant '{self.tenant}' is under legal hold: {'; '.join(self.holds)}."
            raise LegalHoldError(msg, hint=f"Nothing was removed. Remove the property {LEGAL_HOLD} once it is lifted.")
        if self.intruders:
            msg = f"Tables of others lie in the prefix of tenant '{self.tenant}': {', '.join(self.intruders)}."
            raise ConfigurationError(msg, hint="Nothing was removed. Move these tables first.")
        if self.sharing:
            msg = f"Tables of tenant '{self.tenant}' share their files with other tables: {', '.join(self.sharing)}."
            hint = f"Nothing was removed. Set {GC_PROPERTY}=true on them once nobody else needs the files."
            raise SharedFilesError(msg, hint=hint)

    @property
    def is_blocked(self) -> bool:
        """Whether something stands in the way."""
        return bool(self.holds or self.intruders or self.sharing)


@dataclass(frozen=True)
class OffboardingResult:
    """What was removed.

    Attributes:
        plan: What was there.
        exported: Rows by exported table.
        deleted_objects: Objects deleted by this run.
        journal: Where the journal is kept.
        resumed: Whether this run went on with an earlier one.
    """

    plan: OffboardingPlan
    exported: dict[str, int]
    deleted_objects: int
    journal: Path
    resumed: bool


class TenantOffboarding:
    """Removes tenants, step by step; a run that was killed is taken up by the next one."""

    def __init__(
        self, session: BootstrapSession, *, journal_folder: Path, isolation: PolarisIsolation | None = None
    ) -> None:
        """Work on an open catalog.

        Args:
            session: The catalog and its stores.
            journal_folder: Where journals are kept; never below a tenant's prefix.
            isolation: Ends the tenant's credentials, on a catalog that has some.
        """
        self._session = session
        self._folder = journal_folder
        self._isolation = isolation

    def plan(self, tenant: str) -> OffboardingPlan:
        """Take the inventory; nothing is changed.

        Raises:
            InvalidIdentifierError: The id cannot name a tenant.
        """
        validate_tenant_id(tenant)
        everybody = places_of_all(self._session.manager)
        return self._inventory(tenant, others=tuple(intruders(self._session.config, tenant, everybody)))

    def _inventory(self, tenant: str, *, others: tuple[str, ...] = ()) -> OffboardingPlan:
        session = self._session
        roots = tenant_roots(session.config, tenant)
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
                objects=len(sizes),
                bytes=sum(sizes),
                outside=tuple(place for table in tables for place in table.places if not lies_in(place, roots)),
                holds=tuple(self._holds(tenant, namespaces, tables)),
                intruders=others,
                sharing=tuple(table.name for table in tables if not is_collected(table.properties)),
                has_access=self._isolation is not None and self._isolation.has_access(tenant),
            )
            operation.set(tables=len(tables), objects=plan.objects, bytes=plan.bytes)
            return plan

    def _holds(self, tenant: str, namespaces: list[str], tables: list[TenantTable]) -> list[str]:
        """Name the holds on the tenant's namespace, whoever set them above it, and on what is in it."""
        catalog = self._session.manager.namespaces
        holds = namespace_holds(catalog, self._session.config.namespace_for(tenant))
        found = [(name, catalog.properties(name)) for name in namespaces[1:]]
        found += [(table.name, table.properties) for table in tables]
        holds |= {name: reason for name, properties in found if (reason := hold_of(properties)) is not None}
        return [f"{name}: {reason}" for name, reason in holds.items()]

    def run(
        self,
        tenant: str,
        *,
        export_to: str | None = None,
        on_step: Callable[[OffboardingStep], None] | None = None,
    ) -> OffboardingResult:
        """Remove a tenant: its credentials, tables, namespaces and every object below its prefixes.

        Files of its tables that lie elsewhere are left as they are: they may belong to somebody.

        Args:
            tenant: Who leaves.
            export_to: Folder or URI that every table is copied to first, as Parquet.
            on_step: Told each step before it begins.

        Raises:
            LegalHoldError: The tenant is under legal hold.
            NamespaceNotFoundError: There is no such tenant.
            ConfigurationError: Tables of others lie in the tenant's prefix, or the export would be purged.
            StorageError: Something was still there afterwards.
        """
        say = on_step or _nobody_listens
        config = self._session.config
        root = export_root(export_to, forbidden=tenant_roots(config, tenant)) if export_to else None
        with traced("tenancy.offboard", tenant=tenant) as operation:
            say(OffboardingStep.INVENTORY)
            plan = self.plan(tenant)
            plan.refuse_obstacles()
            journal = OffboardingJournal(self._folder, ".".join(config.namespace_for(tenant)))
            if plan.is_empty and not journal.resumed:
                msg = f"There is no tenant '{tenant}'."
                raise NamespaceNotFoundError(msg, hint="floe tenants list shows who is there.")
            self._note_inventory(journal, plan)
            if root:
                say(OffboardingStep.EXPORT)
                self._export(tenant, journal, root)
            say(OffboardingStep.REVOKE)
            self._revoke(tenant, journal)
            if root:
                # What was written until the credentials ended.
                self._export(tenant, journal, root)
            say(OffboardingStep.DROP)
            self._drop(tenant, journal)
            say(OffboardingStep.PURGE)
            deleted = self._purge(tenant, journal)
            say(OffboardingStep.VERIFY)
            self._verify(tenant)
            exported = {
                name: fact["rows"] for name, fact in journal.step(OffboardingStep.EXPORT).get("tables", {}).items()
            }
            operation.set(deleted_objects=deleted, resumed=journal.resumed)
            return OffboardingResult(plan, exported, deleted, journal.finish(), journal.resumed)

    @staticmethod
    def _note_inventory(journal: OffboardingJournal, plan: OffboardingPlan) -> None:
        # The first run saw everything; a later one sees what is left.
        if not journal.step(OffboardingStep.INVENTORY):
            journal.note(
                OffboardingStep.INVENTORY,
                namespaces=list(plan.namespaces),
                tables={table.name: table.rows for table in plan.tables},
                objects=plan.objects,
                bytes=plan.bytes,
                outside=list(plan.outside),
            )

    def _export(self, tenant: str, journal: OffboardingJournal, root: str) -> None:
        manager = self._session.manager
        namespaces = namespaces_of(manager, ".".join(self._session.config.namespace_for(tenant)))
        for table in tables_of(manager, namespaces):
            done = journal.step(OffboardingStep.EXPORT).get("tables", {})
            known = done.get(table.name)
            if known and known["snapshot_id"] == table.snapshot_id and known["uri"].startswith(f"{root}/"):
                continue
            exported = export_table(manager, table, root)
            journal.note(OffboardingStep.EXPORT, tables={**done, table.name: exported.as_json()})

    def _revoke(self, tenant: str, journal: OffboardingJournal) -> None:
        if self._isolation is not None:
            journal.note(OffboardingStep.REVOKE, revoked=self._isolation.revoke(tenant))

    def _drop(self, tenant: str, journal: OffboardingJournal) -> None:
        manager = self._session.manager
        namespaces = namespaces_of(manager, ".".join(self._session.config.namespace_for(tenant)))
        for namespace in reversed(namespaces):
            for table in manager.list_tables(namespace):
                # Without purge: only what lies in the tenant's prefixes is surely its own.
                with contextlib.suppress(TableNotFoundError):
                    manager.drop_table(f"{namespace}.{table}")
            with contextlib.suppress(NamespaceNotFoundError):
                manager.namespaces.delete(namespace)
        journal.note(OffboardingStep.DROP, dropped=True)

    def _purge(self, tenant: str, journal: OffboardingJournal) -> int:
        storage, deleted = self._session.storage, 0
        for address, prefix in storage.prefixes(tenant):
            store = storage.store(address)
            marker = prefix + MARKER_NAME
            deleted += store.delete([item.key for item in store.list(prefix) if item.key != marker])
            # The marker goes last: as long as it is there, somebody can tell whose the prefix is.
            if store.read(marker) is not None:
                deleted += store.delete([marker])
        journal.note(OffboardingStep.PURGE, deleted=deleted)
        return deleted

    def _verify(self, tenant: str) -> None:
        left = self._inventory(tenant)
        if not left.is_empty:
            what = [*left.namespaces, *([f"{left.objects} objects"] if left.objects else [])]
            what += ["credentials"] if left.has_access else []
            msg = f"Something of the tenant '{tenant}' is still there: {', '.join(what)}."
            raise StorageError(msg, hint="A writer may still be at work; stop it and run the off-boarding again.")


def _nobody_listens(_: OffboardingStep) -> None:
    return
