"""Upsert keys of an asset: the declared keys, or else those recorded in the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from floe_core.dataplane import NullKeys
from floe_core.errors import ConfigurationError
from floe_iceberg.table.keys.row_keys import format_keys, same_keys

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from floe_core.schemas import TableConfig
    from floe_dagster.assets.settings import AssetSettings

_SET_KEYS = "Set keys for the table in floe.yaml, or upsert_keys in the asset's metadata."


@dataclass(frozen=True)
class DeclaredKeys:
    """The keys of a table as declared in floe.yaml or in an asset's metadata.

    Attributes:
        keys: Columns that identify a row; empty if neither declares any.
        null_keys: How an upsert treats null in a key; None if neither declares it.
    """

    keys: tuple[str, ...] = ()
    null_keys: NullKeys | None = None

    @classmethod
    def of(cls, settings: AssetSettings, declared: TableConfig | None, *, asset: str, table: str) -> DeclaredKeys:
        """Combine the asset's settings with the table's declaration.

        Raises:
            ConfigurationError: The two declare different values.
        """
        of_table = cls.of_table(declared)
        if of_table.keys and settings.keys and not same_keys(of_table.keys, settings.keys):
            raise _disagreement(asset, table, "upsert_keys", format_keys(settings.keys), format_keys(of_table.keys))
        if of_table.null_keys and settings.null_keys and of_table.null_keys is not settings.null_keys:
            raise _disagreement(asset, table, "null_keys", settings.null_keys, of_table.null_keys)
        keys = of_table.keys or settings.keys
        # Declared keys without null_keys refuse null.
        return cls(keys, of_table.null_keys or settings.null_keys or (NullKeys.REFUSE if keys else None))

    @classmethod
    def of_table(cls, declared: TableConfig | None) -> DeclaredKeys:
        """Return the keys declared in floe.yaml."""
        return cls(declared.keys, declared.null_keys) if declared is not None else cls()


def _disagreement(asset: str, table: str, setting: str, of_asset: str, of_table: str) -> ConfigurationError:
    in_yaml = "keys" if setting == "upsert_keys" else setting
    msg = f"Asset '{asset}' has {setting} {of_asset}, but floe.yaml declares {in_yaml} {of_table} for '{table}'."
    return ConfigurationError(msg, hint=f"Remove {setting} from the asset, or use the same value.", table=table)


def missing_keys(asset: str, table: str) -> ConfigurationError:
    """Return the error for an upsert without keys."""
    msg = f"Asset '{asset}' upserts into table '{table}', but no keys are declared. Nothing was written."
    return ConfigurationError(msg, hint=_SET_KEYS, table=table)


def require_keys_for_new_table(keys: Sequence[str], columns: Collection[str], *, asset: str, table: str) -> None:
    """Check that a table about to be created has all key columns.

    Raises:
        ConfigurationError: No key is declared, or one is not a column.
    """
    if not keys:
        raise missing_keys(asset, table)
    if missing := [key for key in keys if key not in columns]:
        msg = (
            f"Asset '{asset}' upserts into table '{table}' by {format_keys(keys)}, but its data has no column "
            f"{', '.join(missing)}. The table was not created."
        )
        raise ConfigurationError(msg, hint=f"Columns of the data: {', '.join(columns)}.", table=table)
