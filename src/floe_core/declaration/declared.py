"""Look up what a compiled project declares about a table, by the project's or a tenant's table name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_core.declaration.expansion import expand_section
from floe_core.governance import PolicyEnforcer, RetentionDays
from floe_core.schemas import RetentionConfig

if TYPE_CHECKING:
    from floe_core.schemas import CompiledArtifacts


def name_in_project(artifacts: CompiledArtifacts, table: str) -> str:
    """Return a table's name in floe.yaml: ``silver.orders`` for ``tenants.acme.silver.orders``.

    Settings of a project's table, such as its retention, apply to each tenant's table of that name.
    """
    # A tenant's table name ends with the table's full name in the project.
    if table in artifacts.tables or ".".join(table.split(".")[-2:]) not in artifacts.tables:
        return table
    prefix = f"{expand_section(artifacts.tenancy, path='tenancy').namespace_prefix}."
    rest = table.removeprefix(prefix).partition(".")[2] if table.startswith(prefix) else ""
    return rest if rest in artifacts.tables else table


def declared_orphan_days(artifacts: CompiledArtifacts, table: str) -> int | None:
    """Return the minimum age at which unreferenced files may be deleted; None if the table uses the default.

    Args:
        artifacts: The project.
        table: The table's full name; a tenant's table is looked up by its name in the project.
    """
    declared = artifacts.tables.get(name_in_project(artifacts, table))
    # Compiled projects contain every value, so an explicit default cannot be distinguished from an unset value.
    default = RetentionConfig.model_fields["orphan_days"].default
    return None if declared is None or declared.retention.orphan_days == default else declared.retention.orphan_days


def declared_retention(artifacts: CompiledArtifacts, table: str) -> RetentionDays | None:
    """Return how many days a project keeps a table's snapshots; None if no level sets a retention.

    Args:
        artifacts: The project.
        table: The table's full name; a tenant's table is looked up by its name in the project.
    """
    name = name_in_project(artifacts, table)
    declared = artifacts.tables.get(name)
    governance = artifacts.governance
    levels = (governance.enterprise, governance.domain, governance.product)
    required = any(level.snapshot_retention_days is not None or level.legal_hold_days is not None for level in levels)
    if not required and (declared is None or declared.retention.snapshot_days is None):
        return None
    if effective := artifacts.retention.get(name):
        return RetentionDays(effective.snapshot_days, effective.derivation)
    return PolicyEnforcer.retention_of(governance, declared.retention if declared else None)
