"""Loads the assets, checks, jobs, schedules and sensors that a project's Python modules define."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from typing import TYPE_CHECKING

from dagster import (
    AssetsDefinition,
    AssetSpec,
    DagsterError,
    Definitions,
    JobDefinition,
    ScheduleDefinition,
    SensorDefinition,
    define_asset_job,
    load_asset_checks_from_modules,
    load_assets_from_modules,
)

from floe_core.errors import ConfigurationError, FloeStorageError
from floe_dagster.assets.user_code import mistake_in_definitions, mistake_in_module

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import ModuleType
    from typing import Any

# Dagster does not export the type that define_asset_job returns.
_JOBS = (JobDefinition, type(define_asset_job("probe")))


def load_project_module(name: str, project_root: Path) -> Definitions:
    """Load the definitions in a module, or in a package and all its submodules.

    If a module contains a ``Definitions`` object, only such objects are loaded.

    Raises:
        ConfigurationError: The module cannot be imported.
    """
    modules = _imported(name, project_root)
    try:
        ready = _instances(modules, (Definitions,))
        if ready:
            return Definitions.merge(*ready)
        assets = load_assets_from_modules(modules)
        return Definitions(
            assets=[*assets, *_external_specs(modules, assets)],
            asset_checks=load_asset_checks_from_modules(modules),
            jobs=_instances(modules, _JOBS),
            schedules=_instances(modules, (ScheduleDefinition,)),
            sensors=_instances(modules, (SensorDefinition,)),
        )
    except DagsterError as err:
        raise mistake_in_definitions(name, err, modules, project_root) from err


def _external_specs(modules: Sequence[ModuleType], assets: Sequence[Any]) -> list[AssetSpec]:
    """Return the specs of external tables; specs of the modules' own assets are part of those assets."""
    made = {key for asset in assets if isinstance(asset, AssetsDefinition) for key in asset.keys}
    return [spec for spec in _instances(modules, (AssetSpec,)) if spec.key not in made]


def _imported(name: str, project_root: Path) -> list[ModuleType]:
    # The project's modules are next to its floe.yaml, and step processes look there as well.
    if (folder := str(project_root)) not in sys.path:
        sys.path.insert(0, folder)
    try:
        return _with_submodules(importlib.import_module(name))
    except ModuleNotFoundError as err:
        if err.name is None or not f"{name}.".startswith(f"{err.name}."):
            raise mistake_in_module(name, err, project_root) from err
        msg = f"Module '{name}', set as orchestration.module, was not found."
        hint = f"Searched in {project_root} and the installed packages."
        raise ConfigurationError(msg, hint=hint) from err
    except FloeStorageError:
        raise
    except (Exception, SystemExit) as err:
        raise mistake_in_module(name, err, project_root) from err


def _with_submodules(module: ModuleType) -> list[ModuleType]:
    folders = getattr(module, "__path__", None)
    if folders is None:
        return [module]
    found = pkgutil.walk_packages(folders, prefix=f"{module.__name__}.")
    names = [info.name for info in found if not info.name.endswith(".__main__")]
    return [module, *(importlib.import_module(name) for name in names)]


def _instances(modules: Sequence[ModuleType], kinds: tuple[type, ...]) -> list[Any]:
    found = {id(value): value for module in modules for value in vars(module).values() if isinstance(value, kinds)}
    return list(found.values())
