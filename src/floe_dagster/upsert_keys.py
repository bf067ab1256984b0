"""The keys that an asset upserts by: what is declared comes first, and what the table records second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_core.errors import ConfigurationError
from floe_iceberg.row_keys import keys_shown, same_keys

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from floe_core.schemas import TableConfig
    from floe_dagster.asset_settings import AssetSettings

_WAY_OUT = "Set keys for the table in floe.yaml, or upsert_keys in the asset's metadata."


def declared_keys(settings: AssetSettings, declared: TableConfig | None, *, asset: str, table: str) -> tuple[str, ...]:
    """Return the keys that floe.yaml or an asset's metadata declares; empty when neither does.

    Raises:
        ConfigurationError: Both do, and they differ.
    """
    of_table = declared.keys if declared is not None else ()
    if of_table and settings.keys and not same_keys(of_table, settings.keys):
        msg = (
            f"Asset '{asset}' has upsert_keys {keys_shown(settings.keys)}, and floe.yaml declares the keys "
            f"{keys_shown(of_table)} for its table '{table}'."
        )
        raise ConfigurationError(msg, hint="Remove upsert_keys from the asset, or make the two agree.", table=table)
    return of_table or settings.keys


def missing_keys(asset: str, table: str) -> ConfigurationError:
    """Describe an upsert that nobody gave keys for."""
    msg = f"Asset '{asset}' upserts into table '{table}', and no keys are declared. Nothing was written."
    return ConfigurationError(msg, hint=_WAY_OUT, table=table)


def require_keys_for_new_table(keys: Sequence[str], columns: Collection[str], *, asset: str, table: str) -> None:
    """Refuse keys that a table to be created would not have.

    Raises:
        ConfigurationError: No key is declared, or one is not a column.
    """
    if not keys:
        raise missing_keys(asset, table)
    if missing := [key for key in keys if key not in columns]:
        msg = (
            f"Asset '{asset}' upserts into table '{table}' by {keys_shown(keys)}, and its data has no column "
            f"{', '.join(missing)}. The table was not created."
        )
        raise ConfigurationError(msg, hint=f"Columns of the data: {', '.join(columns)}.", table=table)
