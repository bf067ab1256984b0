"""Validates a project's assets before a run and reports all mistakes at once."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from floe_core.config.document import mistakes
from floe_core.errors import CapabilityError, ConfigProblem, ConfigurationError
from floe_dagster.assets.metadata_keys import ASSET_KEYS, INPUT_KEYS, mistyped_keys
from floe_dagster.assets.settings import settings_from
from floe_dagster.assets.upsert_keys import DeclaredKeys
from floe_dagster.io.inputs import selection_from
from floe_dagster.tenants import own_partitions
from floe_iceberg.models import WriteMode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dagster import AssetSpec, DagsterType

    from floe_core.schemas import TableConfig

# overwrite_partitions is the default for assets with partitions.
_MODES = ", ".join(f"'{mode}'" for mode in WriteMode if mode is not WriteMode.OVERWRITE_PARTITIONS)


@dataclass(frozen=True)
class WrittenAsset:
    """One asset that floe writes.

    Attributes:
        spec: How it is defined.
        table: Its table.
        default_mode: Write mode of its IO manager, used if the asset sets none; None if the IO manager has none.
        returns_rows: Whether it passes rows to its IO manager; false for an asset annotated to return nothing.
    """

    spec: AssetSpec
    table: str
    default_mode: WriteMode | None = None
    returns_rows: bool = True

    @property
    def name(self) -> str:
        """The asset key as text."""
        return self.spec.key.to_user_string()


@dataclass(frozen=True)
class ReadInput:
    """One input that floe reads.

    Attributes:
        asset: The asset that has the input.
        name: Name of the input.
        metadata: Metadata of the input.
        dagster_type: Type of the input.
    """

    asset: str
    name: str
    metadata: Mapping[str, Any]
    dagster_type: DagsterType


def require_valid(
    assets: Sequence[WrittenAsset], declared: Mapping[str, TableConfig], inputs: Sequence[ReadInput] = ()
) -> None:
    """Reject assets whose runs would have unexpected effects.

    Args:
        assets: Assets that the project writes through floe.
        declared: The tables declared in floe.yaml.
        inputs: Inputs that the project reads through floe.

    Raises:
        ConfigurationError: At least one asset is invalid; ``problems`` lists every mistake.
    """
    found = [
        *_settings(assets, declared),
        *_inputs(inputs),
        *_shared_tables(assets),
        *_checks_without_asset(assets, declared),
    ]
    if found:
        problems = [ConfigProblem(message=problem) for problem in found]
        msg = f"The assets of this project have {mistakes(problems)}."
        raise ConfigurationError(msg, problems=problems)


def _settings(assets: Sequence[WrittenAsset], declared: Mapping[str, TableConfig]) -> Iterator[str]:
    for asset in assets:
        for key, meant in mistyped_keys(asset.spec.metadata, ASSET_KEYS).items():
            yield f"Unknown metadata key '{key}' on asset '{asset.name}'. Did you mean '{meant}'?"
        try:
            settings = settings_from(asset.spec.metadata, asset=asset.name)
            mode = settings.write_mode or asset.default_mode
            if mode is WriteMode.UPSERT:
                DeclaredKeys.of(settings, declared.get(asset.table), asset=asset.name, table=asset.table)
        except (ConfigurationError, CapabilityError) as err:
            yield str(err)
            continue
        if asset.returns_rows and mode is None and own_partitions(asset.spec.partitions_def) is None:
            yield (
                f"Asset '{asset.name}' has no partitions and no write_mode; a second run could append its rows again. "
                f"Add metadata={{'write_mode': ...}} to the asset; valid modes: {_MODES}."
            )


def _inputs(inputs: Sequence[ReadInput]) -> Iterator[str]:
    for one in inputs:
        where = f"input '{one.name}' of asset '{one.asset}'"
        for key, meant in mistyped_keys(one.metadata, INPUT_KEYS).items():
            yield f"Unknown metadata key '{key}' on {where}. Did you mean '{meant}'?"
        try:
            selection_from(one.metadata, one.dagster_type, where=where)
        except ConfigurationError as err:
            yield str(err)


def _shared_tables(assets: Sequence[WrittenAsset]) -> Iterator[str]:
    writers: dict[str, list[str]] = defaultdict(list)
    for asset in assets:
        writers[asset.table].append(asset.name)
    for table, names in writers.items():
        if len(names) > 1:
            yield (
                f"The assets {' and '.join(repr(name) for name in sorted(names))} all write the table '{table}'. "
                "Rename one of them."
            )


def _checks_without_asset(assets: Sequence[WrittenAsset], declared: Mapping[str, TableConfig]) -> Iterator[str]:
    written = [asset.table for asset in assets]
    for table, config in declared.items():
        if config.checks and table not in written:
            close = get_close_matches(table, written, n=1)
            hint = f"Did you mean '{close[0]}'?" if close else "Remove the checks, or add an asset that writes it."
            yield f"floe.yaml declares checks for '{table}', but no asset writes that table. {hint}"
