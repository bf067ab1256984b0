"""Builds the wheel, installs it with all extras into a new environment, and runs basic commands."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UV = str(ROOT / ".floe-dev/uv/bin/uv")


def call(*command: str | Path, cwd: Path = ROOT, **environ: str) -> None:
    """Run a command; raise if it fails."""
    print("$", *command, flush=True)
    subprocess.run([str(part) for part in command], cwd=cwd, check=True, env=os.environ | environ)


def install(folder: Path) -> Path:
    """Build the wheel and install it with the locked dependencies; return the environment's bin folder."""
    call(UV, "build", "--quiet", "--wheel", "--out-dir", folder / "dist")
    [built] = (folder / "dist").glob("*.whl")
    locked = ["--locked", "--all-extras", "--no-dev", "--no-install-project", "--no-python-downloads"]
    call(UV, "sync", "--quiet", *locked, "--python", sys.executable, UV_PROJECT_ENVIRONMENT=str(folder / "env"))
    # Without an index, the installation fails if the lock does not satisfy a requirement of the wheel.
    wheel = f"floe-lakehouse[all] @ {built.as_uri()}"
    call(UV, "pip", "install", "--quiet", "--no-index", "--python", folder / "env/bin/python", wheel)
    return folder / "env/bin"


def main() -> int:
    """Try the wheel, or install it into a folder with ``--into FOLDER``."""
    if sys.argv[1:2] == ["--into"]:
        install(Path(sys.argv[2]))
        return 0
    with tempfile.TemporaryDirectory(prefix="floe-wheel-") as temporary:
        folder = Path(temporary)
        floe = install(folder) / "floe"
        call(floe, "--version", cwd=folder)
        call(floe, "init", "sample", cwd=folder)
        call(floe, "compile", cwd=folder / "sample")
        call(floe, "plugins", "check", cwd=folder / "sample")
    return 0


if __name__ == "__main__":
    sys.exit(main())
