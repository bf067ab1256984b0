"""Runs floe commands in process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
import structlog

from floe_cli.app import main


@dataclass(frozen=True)
class Run:
    """How one command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def data(self) -> Any:
        return self.json["data"]

    @property
    def error(self) -> dict[str, Any]:
        return self.json["error"]


@pytest.fixture
def floe(capsys, monkeypatch, tmp_path):
    """Return a function that runs a command in an empty folder, outside any project."""
    monkeypatch.chdir(tmp_path)
    for name in ("FLOE_ENV", "FLOE_PROJECT"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str) -> Run:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Run(code, captured.out, captured.err)

    yield run
    structlog.reset_defaults()


@pytest.fixture
def shop(floe, monkeypatch):
    """The same, in a new project."""
    assert floe("init", "shop").code == 0
    monkeypatch.chdir("shop")
    return floe
