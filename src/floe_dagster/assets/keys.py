"""Which table an asset is, and under which names its writes can be found again."""

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
"""Where an asset is kept whose key has one part."""

FULL_REFRESH_TAG = "floe/full_refresh"
"""Marks a run whose rows replace what is there, also where an asset appends or upserts."""

_UNNAMED_OUTPUT = "result"
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_SHOWN_KEYS = 3
_RUN_DIGITS = 8


def table_of(path: Sequence[str], *, default_namespace: str) -> str:
    """Map an asset key to a table: the first part is the namespace, the others make the name.

    Raises:
        InvalidIdentifierError: A part cannot be in a table's name.
    """
    namespace, names = (path[0], path[1:]) if len(path) > 1 else (default_namespace, path)
    name = "_".join(names)
    if "." in name or not name.strip() or not namespace.strip():
        msg = f"The asset key {'/'.join(path)!r} makes no table name."
        raise InvalidIdentifierError(msg, hint="Use parts without dots, such as ['bronze', 'orders'].")
    return f"{namespace}.{name}"


def keys_by_table(keys: Iterable[AssetKey], *, default_namespace: str = DEFAULT_NAMESPACE) -> dict[str, AssetKey]:
    """Map tables to the assets that are kept there; an asset of somebody else may make no table's name."""
    found: dict[str, AssetKey] = {}
    for key in keys:
        with contextlib.suppress(InvalidIdentifierError):
            found[table_of(key.path, default_namespace=default_namespace)] = key
    return found


def table_of_output(context: OutputContext, *, default_namespace: str) -> str:
    """Map an output to its table; an output that is no asset goes by its own name, or by its step's.

    Raises:
        InvalidIdentifierError: A part cannot be in a table's name, or the context has neither.
    """
    if context.has_asset_key:
        return table_of(context.asset_key.path, default_namespace=default_namespace)
    return table_of([name_of_output(context).replace(".", "_")], default_namespace=default_namespace)


def name_of_output(context: OutputContext) -> str:
    """Name an output that is no asset.

    Raises:
        InvalidIdentifierError: The context was built without any name.
    """
    name = _given(context, "name")
    if name is None or name == _UNNAMED_OUTPUT:
        name = _given(context, "step_key")
    if name is None:
        msg = "The output has no asset key and no name, so it has no table."
        raise InvalidIdentifierError(msg, hint="Pass asset_key to build_output_context.")
    return name


def step_name(context: OutputContext) -> str:
    """Name the step of an output that is no asset: outputs of several steps may share their own name."""
    return _given(context, "step_key") or name_of_output(context)


def _given(context: OutputContext, name: str) -> str | None:
    """Return what a context was built with; Dagster raises for what it was not."""
    try:
        return str(getattr(context, name))
    except DagsterInvariantViolationError:
        return None


def table_of_input(context: InputContext, *, default_namespace: str) -> str:
    """Map an input to the table it is loaded from."""
    if context.has_asset_key:
        return table_of(context.asset_key.path, default_namespace=default_namespace)
    if context.upstream_output is None:
        which = f"input '{context.name}'" if context.has_input_name else "input"
        msg = f"The {which} comes from no asset and no step, so it has no table."
        raise InvalidIdentifierError(msg, hint="Connect it to an asset, or pass asset_key to build_input_context.")
    return table_of_output(context.upstream_output, default_namespace=default_namespace)


def origin_run_id(run: DagsterRun, instance: DagsterInstance) -> str:
    """Return the run that a chain of re-executions began with.

    A re-execution of a run that failed goes on with that run's work and shares its id; a re-execution of one that
    succeeded is new work.
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
    """Name a materialization, so that a repeated one finds its own work."""
    parts = ["dagster", "/".join(asset), *([] if output == _UNNAMED_OUTPUT else [output])]
    return ":".join([*parts, *([shortened(partitions)] if partitions else []), origin])


def audit_branch(asset_key: AssetKey, partitions: Sequence[str], origin: str) -> str:
    """Name the branch that a materialization waits on until it has passed its checks."""
    parts = [AUDIT_PREFIX, _safe("_".join(asset_key.path))]
    if partitions:
        parts.append(_safe(shortened(partitions)))
    return ".".join([*parts, run_digits(origin)])


def run_digits(run_id: str) -> str:
    """Return what a branch's name shows of a run."""
    return run_id.replace("-", "")[:_RUN_DIGITS]


def shortened(partitions: Sequence[str]) -> str:
    """Name partitions in one word; many go by the first, the last and a digest."""
    if len(partitions) <= _SHOWN_KEYS:
        return ",".join(partitions)
    digest = hashlib.sha256("\0".join(partitions).encode()).hexdigest()[:12]
    return f"{partitions[0]}..{partitions[-1]}~{digest}"


def _safe(text: str) -> str:
    """Keep what a branch name can hold; whatever was lost is told apart by a digest."""
    kept = _UNSAFE.sub("-", text)[:80]
    return kept if kept == text else f"{kept}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
