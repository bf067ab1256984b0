"""What a compiled project declares about a table, under whichever name the table is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_core.declaration.expansion import expand_section
from floe_core.governance import PolicyEnforcer, RetentionDays
from floe_core.schemas import RetentionConfig

if TYPE_CHECKING:
    from floe_core.schemas import CompiledArtifacts


def name_in_project(artifacts: CompiledArtifacts, table: str) -> str:
    """Return the name that floe.yaml has for a table: ``silver.orders`` for ``tenants.acme.silver.orders``.

    What holds for a table of the project holds for each tenant's, retention above all.
    """
    # A tenant's table has the project's whole name at its end.
    if table in artifacts.tables or ".".join(table.split(".")[-2:]) not in artifacts.tables:
        return table
    prefix = f"{expand_section(artifacts.tenancy, path='tenancy').namespace_prefix}."
    rest = table.removeprefix(prefix).partition(".")[2] if table.startswith(prefix) else ""
    return rest if rest in artifacts.tables else table


def declared_orphan_days(artifacts: CompiledArtifacts, table: str) -> int | None:
    """Return the age at which files that nothing refers to may go; None when the table does not ask for more.

    Args:
        artifacts: The project.
        table: The table's full name; a tenant's is looked up under the project's.
    """
    declared = artifacts.tables.get(name_in_project(artifacts, table))
    # Compiled projects have every value written out, so that the default cannot be told from an ask for it.
    default = RetentionConfig.model_fields["orphan_days"].default
    return None if declared is None or declared.retention.orphan_days == default else declared.retention.orphan_days


def declared_retention(artifacts: CompiledArtifacts, table: str) -> RetentionDays | None:
    """Return the days that a project asks to keep a table's snapshots; None when no level asks for any.

    Args:
        artifacts: The project.
        table: The table's full name; a tenant's is looked up under the project's.
    """
    name = name_in_project(artifacts, table)
    declared = artifacts.tables.get(name)
    governance = artifacts.governance
    levels = (governance.enterprise, governance.domain, governance.product)
    asked = any(level.snapshot_retention_days is not None or level.legal_hold_days is not None for level in levels)
    if not asked and (declared is None or declared.retention.snapshot_days is None):
        return None
    if effective := artifacts.retention.get(name):
        return RetentionDays(effective.snapshot_days, effective.derivation)
    return PolicyEnforcer.retention_of(governance, declared.retention if declared else None)
