"""Schema versions of floe.yaml: older files are upgraded in memory, newer ones are rejected."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from floe_core.config.nodes import Entry, MapNode, Place, ScalarNode, child, locate
from floe_core.errors import ConfigProblem, SchemaVersionError
from floe_core.runtime.distribution import DISTRIBUTION
from floe_core.schemas import SCHEMA_VERSION
from floe_core.telemetry import get_logger

if TYPE_CHECKING:
    from floe_core.config.document import Document

_log = get_logger(__name__)

_KEY = "schema_version"
_OLD_KEY = "version"


def upgraded(document: Document) -> Document:
    """Return the document in the current version, and log what to change in the file.

    Version 0 had the keys ``version`` and ``warehouse`` at the top level.

    Raises:
        SchemaVersionError: The file was written for a newer version of floe.
    """
    root = document.root
    version = _version(root)
    if version is not None and version > SCHEMA_VERSION:
        raise _too_new(document, version)
    if version != 0:
        return document
    entries = dict(root.entries)
    changes = []
    if (old := entries.pop(_OLD_KEY, None)) and _KEY not in entries:
        changes.append(f"replace '{_OLD_KEY}: 0' with '{_KEY}: {SCHEMA_VERSION}'")
        entries[_KEY] = Entry(old.key_place, ScalarNode(old.node.place, SCHEMA_VERSION, str(SCHEMA_VERSION)))
    else:
        changes.append(f"write '{_KEY}: {SCHEMA_VERSION}'")
        place = entries[_KEY].key_place
        entries[_KEY] = Entry(place, ScalarNode(entries[_KEY].node.place, SCHEMA_VERSION, str(SCHEMA_VERSION)))
    if warehouse := entries.pop("warehouse", None):
        changes.append("move 'warehouse' under 'catalog'")
        entries["catalog"] = _with_warehouse(entries.get("catalog"), warehouse)
    _log.warning("config.old_schema_version", file=document.file, version=0, change="; ".join(changes))
    return replace(document, root=MapNode(root.place, entries, root.size, root.depth))


def _version(root: MapNode) -> int | None:
    key = _KEY if _KEY in root.entries else _OLD_KEY
    node = child(root, key)
    value = node.value if isinstance(node, ScalarNode) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _with_warehouse(catalog: Entry | None, warehouse: Entry) -> Entry:
    if catalog is None or not isinstance(catalog.node, MapNode):
        below: dict[str, Entry] = {}
        place, key_place = warehouse.node.place, warehouse.key_place
        if catalog is not None and not (isinstance(catalog.node, ScalarNode) and catalog.node.value is None):
            return catalog
    else:
        below, place, key_place = catalog.node.entries, catalog.node.place, catalog.key_place
    return Entry(key_place, MapNode(place, {"warehouse": warehouse, **below}))


def _too_new(document: Document, version: int) -> SchemaVersionError:
    place: Place = locate(document.root, (_KEY if _KEY in document.root.entries else _OLD_KEY,))
    message = f"schema version {version} is not supported; this floe reads version {SCHEMA_VERSION}"
    fix = f"Upgrade floe: pip install --upgrade {DISTRIBUTION}"
    problem = ConfigProblem(message, document.file, place.line, place.column, _KEY, fix)
    msg = f"{document.file} was written for a newer version of floe."
    return SchemaVersionError(msg, problems=[problem], hint=f"{fix}.")
