"""IO manager settings in an asset's metadata, in floe's keys or those of dagster-iceberg."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dagster import MetadataValue

from floe_core.errors import CapabilityError, ConfigurationError
from floe_dagster.assets.keys import name_of_output
from floe_dagster.assets.metadata_keys import ASSET_KEYS, mistyped_keys
from floe_iceberg.models import NullKeys, WriteMode

if TYPE_CHECKING:
    from dagster import OutputContext

GATE_KEY = "floe/gate"
NO_ROWS_KEY = "floe/no_rows"
"""Marks an asset whose return annotation says that it passes no rows to floe, so it needs no write mode."""

_EVOLVING = {"update": True, "error": False}


@dataclass(frozen=True)
class AssetSettings:
    """How one asset is written.

    Attributes:
        write_mode: How existing rows are treated; None if the asset does not set it.
        keys: Columns that identify a row for an upsert; empty to use the table's keys.
        null_keys: How an upsert treats null in a key; None if the asset does not set it.
        partition_columns: Column by partition dimension; the key ``""`` is used for a single dimension.
        evolve: Whether the table's schema follows the data; None if the asset does not set it.
        properties: Table properties.
        gate: Name of the gate that publishes the asset; None if the asset is written directly to main.
        no_rows: Whether the asset's annotation says that it returns no rows.
    """

    write_mode: WriteMode | None = None
    keys: tuple[str, ...] = ()
    null_keys: NullKeys | None = None
    partition_columns: Mapping[str, str] = field(default_factory=dict)
    evolve: bool | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    gate: str | None = None
    no_rows: bool = False


def settings_of_output(context: OutputContext) -> AssetSettings:
    """Read an output's settings; metadata that the step attached to the output overrides the asset's definition.

    Raises:
        ConfigurationError: A setting has an invalid value.
        CapabilityError: A setting requests an unsupported feature.
    """
    refuse_mistyped(context.output_metadata, asset=_name(context))
    return settings_from({**context.definition_metadata, **context.output_metadata}, asset=_name(context))


def refuse_mistyped(metadata: Mapping[str, Any], *, asset: str) -> None:
    """Refuse misspelled keys, which would otherwise be ignored as user metadata.

    Raises:
        ConfigurationError: A key closely resembles one of floe's keys.
    """
    for key, meant in mistyped_keys(metadata, ASSET_KEYS).items():
        msg = f"Unknown metadata key '{key}' on asset '{asset}'."
        raise ConfigurationError(msg, hint=f"Did you mean '{meant}'?")


def settings_from(metadata: Mapping[str, Any], *, asset: str) -> AssetSettings:
    """Read settings from an asset's metadata; raises the errors of ``settings_of_output``."""
    plain = {key: _plain(value) for key, value in metadata.items()}
    upsert = _mapping(plain, "upsert_options", asset)
    _refuse_partial_upserts(upsert, asset)
    keys = plain.get("upsert_keys") or upsert.get("join_cols") or ()
    return AssetSettings(
        write_mode=_write_mode(plain.get("write_mode"), asset),
        keys=_names(keys, "upsert_keys", asset),
        null_keys=_null_keys(plain.get("null_keys"), asset),
        partition_columns=_partition_columns(plain, asset),
        evolve=_evolve(plain, asset),
        properties={key: str(value) for key, value in _mapping(plain, "table_properties", asset).items()},
        gate=plain.get(GATE_KEY),
        no_rows=bool(plain.get(NO_ROWS_KEY)),
    )


def _name(context: OutputContext) -> str:
    return context.asset_key.to_user_string() if context.has_asset_key else name_of_output(context)


def _plain(value: Any) -> Any:  # noqa: ANN401 - metadata values have any type
    return value.value if isinstance(value, MetadataValue) else value


def _write_mode(value: Any, asset: str) -> WriteMode | None:  # noqa: ANN401 - metadata values have any type
    if value is None:
        return None
    try:
        return WriteMode(value)
    except ValueError:
        modes = ", ".join(WriteMode)
        msg = f"Invalid write_mode {value!r} on asset '{asset}'."
        raise ConfigurationError(msg, hint=f"Use one of: {modes}.") from None


def _null_keys(value: Any, asset: str) -> NullKeys | None:  # noqa: ANN401 - metadata values have any type
    if value is None:
        return None
    try:
        return NullKeys(value)
    except ValueError:
        msg = f"Invalid null_keys {value!r} on asset '{asset}'."
        raise ConfigurationError(msg, hint=f"Use one of: {', '.join(NullKeys)}.") from None


def _names(value: Any, key: str, asset: str) -> tuple[str, ...]:  # noqa: ANN401 - metadata values have any type
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Sequence) and all(isinstance(name, str) for name in value):
        return tuple(value)
    msg = f"The metadata '{key}' of asset '{asset}' must be a column or a list of columns, not {value!r}."
    raise ConfigurationError(msg)


def _mapping(metadata: Mapping[str, Any], key: str, asset: str) -> Mapping[str, Any]:
    value = metadata.get(key) or {}
    if isinstance(value, Mapping):
        return value
    msg = f"The metadata '{key}' of asset '{asset}' must be a dict, not {value!r}."
    raise ConfigurationError(msg)


def _partition_columns(metadata: Mapping[str, Any], asset: str) -> dict[str, str]:
    value = metadata.get("partition_column") or metadata.get("partition_expr")
    if value is None:
        return {}
    if isinstance(value, str):
        return {"": value}
    if isinstance(value, Mapping) and all(isinstance(column, str) for column in value.values()):
        return dict(value)
    msg = f"The metadata 'partition_column' of asset '{asset}' must be a column or a dict by dimension, not {value!r}."
    raise ConfigurationError(msg)


def _evolve(metadata: Mapping[str, Any], asset: str) -> bool | None:
    if (chosen := metadata.get("schema_evolution_enabled")) is not None:
        if not isinstance(chosen, bool):
            msg = f"The metadata 'schema_evolution_enabled' of asset '{asset}' must be True or False, not {chosen!r}."
            raise ConfigurationError(msg)
        return chosen
    mode = metadata.get("schema_update_mode")
    if mode is None:
        return None
    if mode not in _EVOLVING:
        msg = f"Invalid schema_update_mode {mode!r} on asset '{asset}'."
        raise ConfigurationError(msg, hint="Use 'update' (columns are added and widened, never dropped) or 'error'.")
    return _EVOLVING[mode]


def _refuse_partial_upserts(options: Mapping[str, Any], asset: str) -> None:
    for option in ("when_matched_update_all", "when_not_matched_insert_all"):
        if not options.get(option, True):
            msg = f"Asset '{asset}' sets {option}=False, but floe's upserts always update and insert."
            raise CapabilityError(msg, hint="Filter the rows in the asset instead.")
