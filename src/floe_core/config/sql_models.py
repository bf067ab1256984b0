"""SQL models of a project: one query per file, after a comment with the settings of its table."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from floe_core.config.document import fail, mistakes, parse_document, read_text
from floe_core.config.environments import Layers
from floe_core.config.problems import problems_of
from floe_core.errors import ConfigProblem, ConfigurationError
from floe_core.schemas.sql_model import SqlModelConfig

if TYPE_CHECKING:
    from pathlib import Path

_HEADER = re.compile(r"\A\s*/\*\s*floe:(?P<yaml>.*?)\*/", re.DOTALL)
_PARTS = 2


@dataclass(frozen=True)
class SqlModel:
    """One SQL model.

    Attributes:
        file: The path of its file, as shown in errors.
        path: The parts of its asset key: namespace and table.
        config: The settings in its header.
        text: The whole file, so positions in the text are positions in the file.
    """

    file: str
    path: tuple[str, str]
    config: SqlModelConfig
    text: str

    @property
    def table(self) -> str:
        """The table it writes."""
        return ".".join(self.path)

    def problem(self, message: str, *, place: int = 0, fix: str = "") -> ConfigProblem:
        """Describe a mistake at a position in the text."""
        before = self.text[:place]
        return ConfigProblem(message, self.file, before.count("\n") + 1, place - before.rfind("\n"), self.table, fix)


def read_sql_models(folder: Path, root: Path) -> list[SqlModel]:
    """Read every model below a folder, ordered by name.

    Args:
        folder: The folder with one subfolder per namespace; it need not exist.
        root: The project's folder; paths in errors are relative to it.

    Raises:
        ConfigurationError: A file is not a valid model; every mistake is listed.
    """
    models: list[SqlModel] = []
    problems: list[ConfigProblem] = []
    for file in sorted(folder.rglob("*.sql")) if folder.is_dir() else ():
        try:
            models.append(_read(file, folder, root))
        except ConfigurationError as err:
            problems += err.problems or [ConfigProblem(err.message, fix=err.hint or "")]
    if problems:
        msg = f"The SQL models of this project have {mistakes(problems)}."
        raise ConfigurationError(msg, problems=problems)
    return models


def _read(file: Path, folder: Path, root: Path) -> SqlModel:
    name = str(file.relative_to(root)) if file.is_relative_to(root) else str(file)
    parts = file.relative_to(folder).with_suffix("").parts
    if len(parts) != _PARTS or any("." in part for part in parts):
        fix = f"Move it to {folder.name}/NAMESPACE/TABLE.sql"
        fail(name, [ConfigProblem("the path of this model does not name a table", name, 1, 1, "", fix)])
    text = read_text(file)
    return SqlModel(name, (parts[0], parts[1]), _config(text, name), text)


def _config(text: str, file: str) -> SqlModelConfig:
    found = _HEADER.match(text)
    if found is None or not found["yaml"].strip():
        return SqlModelConfig()
    # Text before the header is replaced by blanks, so positions in the header are positions in the file.
    start = found.start("yaml")
    before = re.sub(r"[^\n]", " ", text[:start])
    document = parse_document(before + found["yaml"], file)
    layers = Layers(document)
    data: dict[str, Any] = layers.data()
    try:
        config = SqlModelConfig.model_validate(data)
    except ValidationError as err:
        fail(file, [*document.problems, *problems_of(err, layers, SqlModelConfig)])
    if document.problems:
        fail(file, document.problems)
    return config
