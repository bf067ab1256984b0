"""Off-board a tenant: remove all its data without affecting other tenants."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from floe_core.errors import (
    ConfigurationError,
    FloeStorageError,
    NamespaceNotFoundError,
    StorageError,
    TableNotFoundError,
    TransientError,
)
from floe_core.telemetry import traced
from floe_tenancy.identity import validate_tenant_id
from floe_tenancy.layout.contents import contents_of, drop_content
from floe_tenancy.layout.layout import namespaces_of, tables_of, tenant_files, tenant_roots
from floe_tenancy.offboarding.export import export_root, export_table, reason_against_export
from floe_tenancy.offboarding.inventory import OffboardingPlan, plan_offboarding, take_inventory
from floe_tenancy.offboarding.journal import OffboardingJournal
from floe_tenancy.storage import MARKER_NAME

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from floe_tenancy.bootstrap import BootstrapSession
    from floe_tenancy.isolation import PolarisIsolation

# Lifetime of storage credentials that Polaris vended before the tenant's credentials were revoked: the default maximum
# of an STS session.
KEY_LIFETIME = timedelta(hours=1)
# How often the prefix is listed while vended credentials may still be used.
_POLL_SECONDS = 30.0


class OffboardingStep(StrEnum):
    """The steps of an off-boarding, in order."""

    INVENTORY = "inventory"
    EXPORT = "export"
    REVOKE = "revoke"
    DROP = "drop"
    PURGE = "purge"
    WAIT = "wait"
    VERIFY = "verify"


@dataclass(frozen=True)
class OffboardingResult:
    """The result of an off-boarding.

    Attributes:
        plan: The plan that was executed.
        exported: Number of exported rows, by table.
        not_exported: Why a table was not exported, by table.
        deleted_objects: Number of objects deleted by this run.
        journal: Path of the journal.
        resumed: Whether this run resumed an earlier one.
        list_again_after: When the storage credentials vended earlier expire, if this run did not wait for it. Run the
            same command again after that to finish. None if the off-boarding is complete.
    """

    plan: OffboardingPlan
    exported: dict[str, int]
    not_exported: dict[str, str]
    deleted_objects: int
    journal: Path
    resumed: bool
    list_again_after: datetime | None = None


class TenantOffboarding:
    """Removes tenants step by step; the next run resumes an interrupted one."""

    def __init__(
        self, session: BootstrapSession, *, journal_folder: Path, isolation: PolarisIsolation | None = None
    ) -> None:
        """Use an open catalog.

        Args:
            session: The catalog and its stores.
            journal_folder: Folder of the journals; must not be below a tenant's prefix.
            isolation: Revokes the tenant's credentials, on Polaris.
        """
        self._session = session
        self._folder = journal_folder
        self._isolation = isolation

    def plan(self, tenant: str) -> OffboardingPlan:
        """Take the inventory; nothing is changed.

        Raises:
            InvalidIdentifierError: The tenant id is invalid.
        """
        validate_tenant_id(tenant)
        return plan_offboarding(self._session, tenant, self._isolation)

    def run(
        self,
        tenant: str,
        *,
        export_to: str | None = None,
        grace: timedelta | None = None,
        wait: bool = True,
        on_step: Callable[[OffboardingStep], None] | None = None,
    ) -> OffboardingResult:
        """Remove a tenant: its credentials, tables, namespaces and every object below its prefixes.

        Files of its tables outside its prefixes are not deleted, because they may belong to others.

        Args:
            tenant: The tenant.
            export_to: Folder or URI to export every table to first, as Parquet.
            grace: Lifetime of storage credentials that the catalog vended earlier. Defaults to one hour for a tenant
                with its own credentials, otherwise to zero.
            wait: Whether to keep deleting files until those storage credentials expire. If False, the journal stays
                open, and a later run lists the prefix again and finishes.
            on_step: Called with each step before it starts.

        Raises:
            LegalHoldError: The tenant is under legal hold.
            NamespaceNotFoundError: There is no such tenant.
            ConfigurationError: Tables of others are located in the tenant's prefix, the export would be purged, or the
                tenant was created again during the off-boarding.
            StorageError: Something could not be removed; the message lists it.
        """
        report_step = on_step or _ignore_step
        config = self._session.config
        root = export_root(export_to, forbidden=tenant_roots(config, tenant)) if export_to else None
        with traced("tenancy.offboard", tenant=tenant) as operation:
            report_step(OffboardingStep.INVENTORY)
            plan = self.plan(tenant)
            plan.refuse_obstacles()
            journal = OffboardingJournal(self._folder, ".".join(config.namespace_for(tenant)))
            if plan.is_empty and not journal.resumed:
                msg = f"Tenant '{tenant}' not found."
                raise NamespaceNotFoundError(msg, hint="List the tenants with: floe tenants list")
            _refuse_recreated(tenant, journal, plan)
            _note_inventory(journal, plan)
            if root:
                report_step(OffboardingStep.EXPORT)
                self._export(tenant, journal, root)
            report_step(OffboardingStep.REVOKE)
            keys_end = self._revoke(tenant, journal, grace)
            if root:
                # Export again, to include rows written before the credentials were revoked.
                self._export(tenant, journal, root)
            report_step(OffboardingStep.DROP)
            self._drop(tenant, journal)
            report_step(OffboardingStep.PURGE)
            deleted = self._purge(tenant, journal)
            if keys_end > _now() and wait:
                report_step(OffboardingStep.WAIT)
                deleted += self._purge_until(tenant, journal, keys_end)
            pending = keys_end if keys_end > _now() else None
            if pending is None:
                report_step(OffboardingStep.VERIFY)
                self._verify(tenant)
            exports = journal.step(OffboardingStep.EXPORT)
            operation.set(deleted_objects=deleted, resumed=journal.resumed, pending=pending is not None)
            return OffboardingResult(
                plan=plan,
                exported={name: fact["rows"] for name, fact in exports.get("tables", {}).items()},
                not_exported=dict(exports.get("not_exported", {})),
                deleted_objects=deleted,
                journal=journal.path if pending else journal.finish(),
                resumed=journal.resumed,
                list_again_after=pending,
            )

    def _export(self, tenant: str, journal: OffboardingJournal, root: str) -> None:
        manager, own = self._session.manager, tenant_files(self._session.config, tenant)
        namespaces = namespaces_of(manager, ".".join(self._session.config.namespace_for(tenant)))
        for table in tables_of(manager, namespaces):
            step = journal.step(OffboardingStep.EXPORT)
            done, refused = step.get("tables", {}), step.get("not_exported", {})
            if (why := reason_against_export(manager, table, own)) is not None:
                journal.note(OffboardingStep.EXPORT, not_exported={**refused, table.name: why})
                continue
            known = done.get(table.name)
            if known and known["snapshot_id"] == table.snapshot_id and known["uri"].startswith(f"{root}/"):
                continue
            exported = export_table(manager, table, root)
            journal.note(OffboardingStep.EXPORT, tables={**done, table.name: exported.as_json()})

    def _revoke(self, tenant: str, journal: OffboardingJournal, grace: timedelta | None) -> datetime:
        """Revoke the tenant's credentials; return when the last vended storage credentials expire."""
        known = journal.step(OffboardingStep.REVOKE)
        revoked = self._isolation is not None and self._isolation.revoke(tenant)
        is_first = revoked or "revoked_at" not in known
        revoked = revoked or known.get("revoked", False)
        ended = _now() if is_first else datetime.fromisoformat(known["revoked_at"])
        if grace is not None:
            keys_end = ended + grace
        elif is_first:
            keys_end = ended + (KEY_LIFETIME if revoked else timedelta())
        else:
            keys_end = datetime.fromisoformat(known["keys_end_at"])
        journal.note(
            OffboardingStep.REVOKE,
            revoked=revoked,
            revoked_at=ended.isoformat(),
            keys_end_at=keys_end.isoformat(),
        )
        return keys_end

    def _drop(self, tenant: str, journal: OffboardingJournal) -> None:
        manager, left = self._session.manager, list[str]()

        def attempt(what: str, drop: Callable[[], object]) -> None:
            try:
                drop()
            except (TableNotFoundError, NamespaceNotFoundError):
                return
            except TransientError:
                raise
            except FloeStorageError as err:
                left.append(f"{what} ({err.message})")

        for namespace in reversed(namespaces_of(manager, ".".join(self._session.config.namespace_for(tenant)))):
            for content in contents_of(manager, [namespace]):
                attempt(str(content), partial(drop_content, manager, content))
            for table in manager.list_tables(namespace):
                # Do not purge or read the table: only files below the tenant's prefixes are certainly its own.
                attempt(f"table {namespace}.{table}", partial(manager.drop_table, f"{namespace}.{table}"))
            if not left:
                attempt(f"namespace {namespace}", partial(manager.namespaces.delete, namespace))
        if left:
            msg = f"The catalog did not drop everything of tenant '{tenant}': {'; '.join(left)}."
            raise StorageError(
                msg, hint="No files were deleted. Drop these in the catalog, then run the same command again."
            )
        journal.note(OffboardingStep.DROP, dropped=True)

    def _purge(self, tenant: str, journal: OffboardingJournal) -> int:
        storage, deleted = self._session.storage, 0
        for address, prefix in storage.prefixes(tenant):
            store = storage.store(address)
            marker = prefix + MARKER_NAME
            deleted += store.delete([item.key for item in store.list(prefix) if item.key != marker])
            # Delete the marker last: until then, it identifies the owner of the prefix.
            if store.read(marker) is not None:
                deleted += store.delete([marker])
        total = journal.step(OffboardingStep.PURGE).get("deleted", 0) + deleted
        journal.note(OffboardingStep.PURGE, deleted=total)
        return deleted

    def _purge_until(self, tenant: str, journal: OffboardingJournal, end: datetime) -> int:
        """Delete files written with vended storage credentials, until these credentials expire."""
        deleted = 0
        while (left := (end - _now()).total_seconds()) > 0:
            time.sleep(min(left, _POLL_SECONDS))
            if self._session.manager.namespaces.exists(self._session.config.namespace_for(tenant)):
                raise _recreated_error(tenant, journal)
            deleted += self._purge(tenant, journal)
        return deleted

    def _verify(self, tenant: str) -> None:
        left = take_inventory(self._session, tenant, self._isolation)
        if not left.is_empty:
            files = f"{left.objects:,} object{'' if left.objects == 1 else 's'}"
            what = [*left.namespaces, *([files] if left.objects else [])]
            what += ["credentials"] if left.has_access else []
            msg = f"Tenant '{tenant}' is not completely removed: {', '.join(what)}."
            raise StorageError(msg, hint="A writer may still be active. Stop it, then run the off-boarding again.")


def _note_inventory(journal: OffboardingJournal, plan: OffboardingPlan) -> None:
    # Only the first run sees everything; later runs see what is left.
    if not journal.step(OffboardingStep.INVENTORY):
        journal.note(
            OffboardingStep.INVENTORY,
            namespaces=list(plan.namespaces),
            tables={table.name: table.rows for table in plan.tables},
            contents=[str(content) for content in plan.contents],
            objects=plan.objects,
            bytes=plan.bytes,
            outside=list(plan.outside),
        )


def _refuse_recreated(tenant: str, journal: OffboardingJournal, plan: OffboardingPlan) -> None:
    # Before the purge, existing namespaces are leftovers of the first run; after it, the tenant was created again.
    if plan.namespaces and journal.step(OffboardingStep.PURGE):
        raise _recreated_error(tenant, journal)


def _recreated_error(tenant: str, journal: OffboardingJournal) -> ConfigurationError:
    msg = f"Tenant '{tenant}' was created again during its off-boarding. The new tenant was not removed."
    hint = (
        f"To off-board the new tenant, move {journal.path} to another folder. "
        "Storage credentials of the old tenant can still write to its prefix."
    )
    return ConfigurationError(msg, hint=hint)


def _now() -> datetime:
    return datetime.now(UTC)


def _ignore_step(_: OffboardingStep) -> None:
    return
