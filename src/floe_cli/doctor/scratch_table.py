"""Exercise a project's catalog and storage in a temporary namespace."""

from __future__ import annotations

import contextlib
import re
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from floe_cli.doctor.machine import Check, failed, ok
from floe_cli.failures import describe
from floe_core.errors import CapabilityError, CatalogAuthorizationError, CredentialVendingError, FloeStorageError
from floe_core.schemas import AccessDelegation

if TYPE_CHECKING:
    from collections.abc import Callable

    from floe_iceberg import IcebergTableManager
    from floe_iceberg.catalog.connection import ProjectConnection

_NAME = "tables"
_PREFIX = "floe_doctor_"
_SCRATCH = re.compile(rf"{_PREFIX}(?P<made>\d+)_[0-9a-f]+")
# The process that created an older scratch namespace was killed.
_ABANDONED_SECONDS = 3600

# The Polaris privileges that each step requires.
_PRIVILEGES = {
    "create a namespace": ("NAMESPACE_CREATE", "NAMESPACE_LIST", "NAMESPACE_READ_PROPERTIES"),
    "create a table": ("TABLE_CREATE", "TABLE_WRITE_DATA", "TABLE_READ_PROPERTIES"),
    "get storage credentials": ("TABLE_READ_DATA", "TABLE_WRITE_DATA"),
    "write": ("TABLE_WRITE_DATA", "TABLE_WRITE_PROPERTIES"),
    "read": ("TABLE_READ_DATA",),
    "drop the table": ("TABLE_DROP",),
    "drop the namespace": ("NAMESPACE_DROP", "TABLE_LIST"),
}


class _StepError(Exception):
    """A step failed."""

    def __init__(self, step: str, error: Exception) -> None:
        super().__init__(step)
        self.step = step
        self.error = error


@dataclass
class _Trial:
    """One trial, with its completed steps."""

    connection: ProjectConnection
    manager: IcebergTableManager
    done: list[str] = field(default_factory=list)
    namespace: str | None = None

    @property
    def table(self) -> str:
        return f"{self.namespace}.probe"

    def step(self, name: str, action: Callable[[], object]) -> None:
        try:
            action()
        except Exception as err:
            raise _StepError(name, err) from err
        self.done.append(name)


def try_tables(connection: ProjectConnection, *, below: str | None) -> Check:
    """Create a table, get credentials for it, write, read and drop it; report the failed step and how to fix it.

    Args:
        connection: The open project.
        below: Parent of the scratch namespace, such as a tenant's namespace; None uses the root or, if the
            credentials may not, the namespace of a declared table.
    """
    from floe_iceberg import IcebergTableManager

    trial = _Trial(connection, IcebergTableManager.from_project(connection))
    try:
        _run(trial, _places(connection, below))
    except _StepError as stop:
        _clean_up(trial)
        return _failure(trial, stop)
    return ok(_NAME, f"created, wrote, read and dropped {trial.table}" + _credentials_used(trial))


def _run(trial: _Trial, places: list[str | None]) -> None:
    import pyarrow as pa

    manager = trial.manager
    trial.step("create a namespace", lambda: _make_namespace(trial, places))
    trial.step("create a table", lambda: manager.create_table(trial.table, pa.schema([pa.field("id", pa.int64())])))
    if _vends(trial.connection):
        _vend(trial)
    trial.step("write", lambda: manager.append(trial.table, pa.table({"id": [1]})))
    trial.step("read", lambda: _read(manager, trial.table))
    trial.step("drop the table", lambda: _drop(manager, trial.table))
    trial.step("drop the namespace", lambda: manager.namespaces.delete(trial.namespace or ""))


def _vend(trial: _Trial) -> None:
    plugin = trial.connection.catalog_plugin
    try:
        trial.step("get storage credentials", lambda: plugin.vend_credentials(trial.table, ["read", "write"]))
    except _StepError as stop:
        # A catalog that vends no credentials can rely on those of the storage section.
        if not isinstance(stop.error, CapabilityError):
            raise


def _make_namespace(trial: _Trial, places: list[str | None]) -> None:
    """Create the scratch namespace under the first permitted parent, and remove abandoned ones there."""
    refusal: CatalogAuthorizationError | None = None
    for place in places:
        name = f"{_PREFIX}{int(time.time())}_{uuid.uuid4().hex[:8]}"
        namespace = f"{place}.{name}" if place else name
        try:
            trial.manager.create_namespace(namespace)
        except CatalogAuthorizationError as err:
            refusal = refusal or err
            continue
        trial.namespace = namespace
        _clear_abandoned(trial.manager, place)
        return
    if refusal is not None:
        raise refusal


def _places(connection: ProjectConnection, below: str | None) -> list[str | None]:
    if below is not None:
        return [below]
    if not connection.catalog_plugin.capabilities.nested_namespaces:
        return [None]
    declared = sorted({name.rpartition(".")[0] for name in connection.artifacts.tables})
    # A principal without privileges at the root may have them in the namespaces of its tables.
    return [None, *declared]


def _clear_abandoned(manager: IcebergTableManager, place: str | None) -> None:
    with contextlib.suppress(FloeStorageError):
        for namespace in manager.namespaces.list_below(place):
            found = _SCRATCH.fullmatch(namespace.rpartition(".")[2])
            if found and time.time() - int(found["made"]) > _ABANDONED_SECONDS:
                for table in manager.list_tables(namespace):
                    _drop(manager, f"{namespace}.{table}")
                manager.namespaces.delete(namespace)


def _drop(manager: IcebergTableManager, table: str) -> None:
    try:
        manager.drop_table(table, purge=True)
    except (CatalogAuthorizationError, CapabilityError, CredentialVendingError):
        # Polaris purges only if the catalog allows it, and cannot load a table without vending credentials for it.
        # Leaving two small files behind is better than failing.
        manager.drop_table(table)


def _read(manager: IcebergTableManager, table: str) -> None:
    rows = manager.scan(table)["id"].to_pylist()
    if rows != [1]:
        msg = f"Wrote [1] to the table, but read {rows}."
        raise FloeStorageError(msg, hint="Check the storage service.")


def _vends(connection: ProjectConnection) -> bool:
    delegation = connection.artifacts.catalog.access_delegation
    return connection.catalog_plugin.capabilities.vended_credentials and delegation is not AccessDelegation.NONE


def _credentials_used(trial: _Trial) -> str:
    return ", with credentials vended by the catalog" if "get storage credentials" in trial.done else ""


def _clean_up(trial: _Trial) -> None:
    """Remove what a failed trial created; a later trial removes the rest."""
    if trial.namespace is None:
        return
    with contextlib.suppress(Exception):
        # Polaris creates a table before it finds that it cannot vend credentials, and then fails the request.
        if trial.manager.table_exists(trial.table):
            _drop(trial.manager, trial.table)
    with contextlib.suppress(Exception):
        trial.manager.namespaces.delete(trial.namespace)


def _failure(trial: _Trial, stop: _StepError) -> Check:
    failure = describe(stop.error)
    so_far = f" (completed steps: {', '.join(trial.done)})" if trial.done else ""
    detail = f"Could not {stop.step}{so_far}: {failure.message}"
    advice = failure.hint
    if _lacks_a_privilege(stop.error) and trial.connection.artifacts.catalog.type == "polaris":
        privileges = ", ".join(_PRIVILEGES[stop.step])
        advice = f"Grant {privileges} to the principal's role with floe catalog grant, or use another principal."
    return failed(_NAME, detail, advice, exit_code=failure.exit_code)


def _lacks_a_privilege(err: Exception) -> bool:
    from floe_polaris.errors import REJECTED_LOCATION

    return isinstance(err, CatalogAuthorizationError) and not err.message.startswith(REJECTED_LOCATION)
