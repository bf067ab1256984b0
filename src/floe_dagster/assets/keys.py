"""Maps assets and outputs to tables, and names their operations and audit branches."""

from __future__ import annotations

import contextlib
import hashlib
import re
from typing import TYPE_CHECKING

from dagster import DagsterInvariantViolationError

from floe_core.errors import InvalidIdentifierError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dagster import AssetKey, DagsterInstance, DagsterRun, InputContext, OutputContext

AUDIT_PREFIX = "audit"
DEFAULT_NAMESPACE = "public"
"""Namespace of assets whose key has one part."""

FULL_REFRESH_TAG = "floe/full_refresh"
"""Marks a run that replaces existing rows, including those of assets that append or upsert."""

_UNNAMED_OUTPUT = "result"
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_SHOWN_KEYS = 3
_RUN_DIGITS = 8


def table_of(path: Sequence[str], *, default_namespace: str) -> str:
    """Map an asset key to a table: the first part is the namespace, the others form the name.

    Raises:
        InvalidIdentifierError: A part is not valid in a table name.
    """
    namespace, names = (path[0], path[1:]) if len(path) > 1 else (default_namespace, path)
    name = "_".join(names)
    if "." in name or not name.strip() or not namespace.strip():
        msg = f"Asset key {'/'.join(path)!r} does not form a valid table name."
        raise InvalidIdentifierError(msg, hint="Use key parts without dots, such as ['bronze', 'orders'].")
    return f"{namespace}.{name}"


def keys_by_table(keys: Iterable[AssetKey], *, default_namespace: str = DEFAULT_NAMESPACE) -> dict[str, AssetKey]:
    """Map tables to the assets stored in them; external assets whose keys form no valid table name are skipped."""
    found: dict[str, AssetKey] = {}
    for key in keys:
        with contextlib.suppress(InvalidIdentifierError):
            found[table_of(key.path, default_namespace=default_namespace)] = key
    return found


def table_of_output(context: OutputContext, *, default_namespace: str) -> str:
    """Map an output to its table; an output that is not an asset uses its own name or that of its step.

    Raises:
        InvalidIdentifierError: A part is not valid in a table name, or the context has no name.
    """
    if context.has_asset_key:
        return table_of(context.asset_key.path, default_namespace=default_namespace)
    return table_of([name_of_output(context).replace(".", "_")], default_namespace=default_namespace)


def name_of_output(context: OutputContext) -> str:
    """Return the name of an output that is not an asset.

    Raises:
        InvalidIdentifierError: The context was built without a name.
    """
    name = _attribute(context, "name")
    if name is None or name == _UNNAMED_OUTPUT:
        name = _attribute(context, "step_key")
    if name is None:
        msg = "The output has no asset key and no name, so its table is unknown."
        raise InvalidIdentifierError(msg, hint="Pass asset_key to build_output_context.")
    return name


def step_name(context: OutputContext) -> str:
    """Return the step of an output that is not an asset; outputs of several steps may have the same name."""
    return _attribute(context, "step_key") or name_of_output(context)


def _attribute(context: OutputContext, name: str) -> str | None:
    """Return an attribute of a context; None if the context was built without it."""
    try:
        return str(getattr(context, name))
    except DagsterInvariantViolationError:
        return None


def table_of_input(context: InputContext, *, default_namespace: str) -> str:
    """Map an input to the table that it is loaded from."""
    if context.has_asset_key:
        return table_of(context.asset_key.path, default_namespace=default_namespace)
    if context.upstream_output is None:
        which = f"input '{context.name}'" if context.has_input_name else "input"
        msg = f"The {which} has no asset key and no upstream output, so its table is unknown."
        raise InvalidIdentifierError(msg, hint="Connect it to an asset, or pass asset_key to build_input_context.")
    return table_of_output(context.upstream_output, default_namespace=default_namespace)


def origin_run_id(run: DagsterRun, instance: DagsterInstance) -> str:
    """Return the first run in a chain of re-executions.

    A re-execution of a failed run continues that run's work and shares its id; a re-execution of a successful run is
    new work.
    """
    current = run
    while current.parent_run_id is not None:
        parent = instance.get_run_by_id(current.parent_run_id)
        if parent is None:
            return current.root_run_id or current.run_id
        if parent.is_success:
            break
        current = parent
    return current.run_id


def operation_id(asset: Sequence[str], output: str, partitions: Sequence[str], origin: str) -> str:
    """Name a materialization deterministically, so that a retry finds the work of earlier attempts."""
    parts = ["dagster", "/".join(asset), *([] if output == _UNNAMED_OUTPUT else [output])]
    return ":".join([*parts, *([shortened(partitions)] if partitions else []), origin])


def audit_branch(asset_key: AssetKey, partitions: Sequence[str], origin: str) -> str:
    """Name the branch that a materialization is staged on until its checks pass."""
    parts = [AUDIT_PREFIX, _safe("_".join(asset_key.path))]
    if partitions:
        parts.append(_safe(shortened(partitions)))
    return ".".join([*parts, run_digits(origin)])


def run_digits(run_id: str) -> str:
    """Return the digits of a run id that branch names contain."""
    return run_id.replace("-", "")[:_RUN_DIGITS]


def shortened(partitions: Sequence[str]) -> str:
    """Join partition keys into one name; long lists are shortened to the first key, the last key and a digest."""
    if len(partitions) <= _SHOWN_KEYS:
        return ",".join(partitions)
    digest = hashlib.sha256("\0".join(partitions).encode()).hexdigest()[:12]
    return f"{partitions[0]}..{partitions[-1]}~{digest}"


def _safe(text: str) -> str:
    """Replace characters that branch names cannot contain; a digest keeps changed names unique."""
    kept = _UNSAFE.sub("-", text)[:80]
    return kept if kept == text else f"{kept}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
