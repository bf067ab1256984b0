"""``floe tables``."""

from typing import TYPE_CHECKING

from floe_cli.command import command, command_group
from floe_cli.commands.tables.audit import audit
from floe_cli.commands.tables.definition import create, drop, list_tables, schema, show
from floe_cli.commands.tables.drift import drift
from floe_cli.commands.tables.evolve import evolve, rename_column
from floe_cli.commands.tables.history import branch, history, rollback, snapshots, tag
from floe_cli.commands.tables.maintenance import compact, expire, sweep
from floe_cli.commands.tables.properties import set_properties
from floe_cli.commands.tables.register import register, rename
from floe_cli.commands.tables.rows import files, scan

if TYPE_CHECKING:
    from collections.abc import Callable

    from floe_cli.output import Report

app = command_group("Create, read, change, roll back, maintain and audit tables.")

COMMANDS: "dict[str, Callable[..., Report | None]]" = {
    "list": list_tables,
    "show": show,
    "schema": schema,
    "create": create,
    "drop": drop,
    "register": register,
    "rename": rename,
    "drift": drift,
    "evolve": evolve,
    "rename-column": rename_column,
    "set": set_properties,
    "scan": scan,
    "files": files,
    "snapshots": snapshots,
    "history": history,
    "rollback": rollback,
    "tag": tag,
    "branch": branch,
    "expire": expire,
    "compact": compact,
    "sweep": sweep,
    "audit": audit,
}

for name, function in COMMANDS.items():
    command(app, name)(function)
