"""Reports errors in a project's modules with file and line."""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from dagster import AssetsDefinition

from floe_core.errors import ConfigProblem, ConfigurationError, FloeStorageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

_LIBRARY = re.compile(r"site-packages|dist-packages|[/\\]lib[/\\]python3|^<")
_OWN_CODE = str(Path(__file__).parents[2])


def mistake_in_module(module: str, err: BaseException, project_root: Path) -> ConfigurationError:
    """Return the error for an exception raised while a project's module was imported."""
    text, file, line = _located(err)
    place = _shown(file, project_root) if file else ""
    where = f"{place}, line {line}: " if file else ""
    problem = ConfigProblem(text, file=place, line=line or 0, column=_column(err), path="orchestration.module")
    msg = f"Cannot import module '{module}'. {where}{text}"
    return ConfigurationError(msg, problems=[problem] if file else (), hint=_hint(err))


def mistake_in_definitions(
    module: str, err: BaseException, modules: Sequence[ModuleType], project_root: Path
) -> FloeStorageError:
    """Return the error for definitions in a project's modules that Dagster refuses."""
    if isinstance(err, FloeStorageError):
        return err
    if duplicates := _defined_twice(modules, project_root):
        names = ", ".join(sorted({problem.path for problem in duplicates}))
        msg = f"The module '{module}' defines assets more than once: {names}."
        return ConfigurationError(msg, problems=duplicates, hint="Use a different key for each asset.")
    text = str(err).strip().partition("\n")[0]
    return ConfigurationError(f"Cannot load the assets of module '{module}': {text}")


def mistake_in_check(err: BaseException, project_root: Path) -> str:
    """Describe an exception raised by a user's check, with file and line."""
    text, file, line = _located(err)
    return f"{text} ({_shown(file, project_root)}, line {line})" if file else text


def _defined_twice(modules: Sequence[ModuleType], project_root: Path) -> list[ConfigProblem]:
    found: dict[str, dict[int, AssetsDefinition]] = {}
    for module in modules:
        for value in vars(module).values():
            for asset in value if isinstance(value, list | tuple) else [value]:
                if isinstance(asset, AssetsDefinition):
                    for key in asset.keys:
                        found.setdefault(key.to_user_string(), {})[id(asset)] = asset
    problems = []
    for name, assets in found.items():
        for asset in assets.values() if len(assets) > 1 else ():
            file, line = _place_of(asset)
            place = _shown(file, project_root) if file else ""
            message = f"asset '{name}' is defined here"
            problems.append(ConfigProblem(message, file=place, line=line, column=1, path=name))
    return sorted(problems, key=lambda problem: (problem.path, problem.file, problem.line))


def _place_of(asset: AssetsDefinition) -> tuple[str, int]:
    compute = getattr(getattr(asset, "op", None), "compute_fn", None)
    code = getattr(getattr(compute, "decorated_fn", None), "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code else ("", 0)


def _located(err: BaseException) -> tuple[str, str, int]:
    """Return the error message, and the innermost file and line of the project's code in its traceback."""
    if isinstance(err, SyntaxError) and err.filename:
        return f"{type(err).__name__}: {err.msg}", err.filename, err.lineno or 0
    text = str(err).strip().partition("\n")[0]
    message = f"{type(err).__name__}: {text}" if text else type(err).__name__
    for frame in reversed(traceback.extract_tb(err.__traceback__)):
        if not _LIBRARY.search(frame.filename) and not frame.filename.startswith(_OWN_CODE):
            return message, frame.filename, frame.lineno or 0
    return message, "", 0


def _column(err: BaseException) -> int:
    return err.offset or 1 if isinstance(err, SyntaxError) else 1


def _shown(file: str, project_root: Path) -> str:
    path = Path(file)
    root = project_root.resolve()
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def _hint(err: BaseException) -> str | None:
    if isinstance(err, ModuleNotFoundError) and err.name:
        return f"Install the package that provides '{err.name.partition('.')[0]}', or correct the import."
    return None
