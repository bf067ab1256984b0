"""The progress of an off-boarding: one JSON file, atomically replaced at every step."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from floe_core.errors import ConfigurationError, StorageError
from floe_core.runtime.files import write_atomically

if TYPE_CHECKING:
    from pathlib import Path


class OffboardingJournal:
    """The journal of one off-boarding; it is kept under another name after the off-boarding.

    Attributes:
        path: The file, while the off-boarding is in progress.
        resumed: Whether an earlier run started the off-boarding.
        content: The recorded progress.
    """

    def __init__(self, folder: Path, namespace: str) -> None:
        """Resume the journal of an interrupted run, or start a new one.

        Raises:
            ConfigurationError: The file is damaged.
        """
        self.path = folder / f"{namespace}.json"
        self.resumed = self.path.exists()
        self.content: dict[str, Any] = self._read() if self.resumed else {"namespace": namespace, "steps": {}}
        self.content.setdefault("started_at", _now())

    def _read(self) -> dict[str, Any]:
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as err:
            msg = f"Cannot read the journal {self.path}."
            raise ConfigurationError(msg, hint="Move the file; every step can be repeated without it.") from err
        if not isinstance(content, dict) or not isinstance(content.get("steps"), dict):
            msg = f"The journal {self.path} is damaged."
            raise ConfigurationError(msg, hint="Move the file; every step can be repeated without it.")
        return content

    def step(self, name: str) -> dict[str, Any]:
        """Return the progress of a step; empty if it has not started."""
        found: dict[str, Any] = self.content["steps"].get(name, {})
        return found

    def note(self, name: str, **facts: Any) -> None:  # noqa: ANN401 - any JSON value
        """Record the progress of a step on disk."""
        self.content["steps"][name] = {**self.step(name), **facts, "at": _now()}
        self._write()

    def finish(self) -> Path:
        """Close the journal and return its final path."""
        self.content["finished_at"] = _now()
        self._write()
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
        kept = self.path.with_name(f"{self.path.stem}.{moment}.json")
        self.path.replace(kept)
        return kept

    def _write(self) -> None:
        try:
            write_atomically(self.path, json.dumps(self.content, indent=2) + "\n", durable=True)
        except OSError as err:
            msg = f"Cannot write the journal {self.path}: {err.strerror or err}."
            raise StorageError(msg, hint="Check the folder and its free space, then run the command again.") from err


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
