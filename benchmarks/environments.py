"""Separate environments for peers that pin other versions than floe; the processes exchange lines of JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = ROOT / ".floe-dev" / "bench-envs"
UV = ROOT / ".floe-dev" / "uv" / "bin" / "uv"


def environment(name: str, packages: tuple[str, ...]) -> Path:
    """Return the interpreter of an environment with these packages, which is created on first use."""
    home = ENVIRONMENTS / name
    python, stamp = home / "bin" / "python", home / "packages.json"
    wanted = json.dumps(packages)
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        make = [str(UV), "venv", "--quiet", "--clear", "--no-python-downloads", "--python", sys.executable, str(home)]
        subprocess.run(make, check=True)
        fill = [str(UV), "pip", "install", "--quiet", "--compile-bytecode", "--python", str(python), *packages]
        subprocess.run(fill, check=True)
        stamp.write_text(wanted, encoding="utf-8")
    return python


class ForeignProcess:
    """A script in another environment that answers each line of JSON with one line of JSON."""

    def __init__(self, python: Path, script: Path) -> None:
        """Start the script without the variables of this environment."""
        clean = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "VIRTUAL_ENV"}}
        self._process = subprocess.Popen(
            [str(python), str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request and wait for the response."""
        assert self._process.stdin is not None  # noqa: S101 - both are pipes
        assert self._process.stdout is not None  # noqa: S101
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            message = f"{Path(str(self._process.args)).name} ended with exit code {self._process.wait()}"
            raise RuntimeError(message)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(30)
