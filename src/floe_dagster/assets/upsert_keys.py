"""The keys that an asset upserts by: what is declared comes first, and what the table records second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from floe_core.dataplane import NullKeys
from floe_core.errors import ConfigurationError
from floe_iceberg.table.keys.row_keys import keys_shown, same_keys

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from floe_core.schemas import TableConfig
    from floe_dagster.assets.settings import AssetSettings

_WAY_OUT = "Set keys for the table in floe.yaml, or upsert_keys in the asset's metadata."


@dataclass(frozen=True)
class DeclaredKeys:
    """What floe.yaml or an asset's metadata says about the keys of its table.

    Attributes:
        keys: Columns that identify a row, empty when neither says.
        null_keys: What an upsert does with null in a key, None when neither says.
    """

    keys: tuple[str, ...] = ()
    null_keys: NullKeys | None = None

    @classmethod
    def of(cls, settings: AssetSettings, declared: TableConfig | None, *, asset: str, table: str) -> DeclaredKeys:
        """Take what the two say.

        Raises:
            ConfigurationError: Both say something, and not the same.
        """
        of_table = cls.of_table(declared)
        if of_table.keys and settings.keys and not same_keys(of_table.keys, settings.keys):
            raise _disagreement(asset, table, "upsert_keys", keys_shown(settings.keys), keys_shown(of_table.keys))
        if of_table.null_keys and settings.null_keys and of_table.null_keys is not settings.null_keys:
            raise _disagreement(asset, table, "null_keys", settings.null_keys, of_table.null_keys)
        keys = of_table.keys or settings.keys
        # Whoever names keys and says nothing of null wants null refused.
        return cls(keys, of_table.null_keys or settings.null_keys or (NullKeys.REFUSE if keys else None))

    @classmethod
    def of_table(cls, declared: TableConfig | None) -> DeclaredKeys:
        """Take what floe.yaml says."""
        return cls(declared.keys, declared.null_keys) if declared is not None else cls()


def _disagreement(asset: str, table: str, setting: str, of_asset: str, of_table: str) -> ConfigurationError:
    in_yaml = "keys" if setting == "upsert_keys" else setting
    msg = f"Asset '{asset}' has {setting} {of_asset}, and floe.yaml declares {in_yaml} {of_table} for '{table}'."
    return ConfigurationError(msg, hint=f"Remove {setting} from the asset, or make the two agree.", table=table)


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
