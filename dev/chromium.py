"""Installs Debian's Chromium for the browser tests on CI machines: python dev/chromium.py.

Chromium is installed only with CI=true, as root and if apt-get is available. On other machines, installing packages is
up to the user, and browser tests are skipped without Chromium.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

INSTALL = (
    ["apt-get", "update", "--quiet"],
    ["apt-get", "install", "--quiet", "--yes", "--no-install-recommends", "chromium"],
)
TRIES = 3
SECONDS = 600


def main() -> int:
    """Install Chromium on CI machines; return 1 if that fails."""
    if found := shutil.which("chromium"):
        print(f"Chromium: {found}")
        return 0
    if os.environ.get("CI") != "true" or os.geteuid() != 0 or shutil.which("apt-get") is None:
        print("Chromium not found; browser tests will be skipped. On Debian: apt-get install chromium")
        return 0
    for _ in range(TRIES):
        if all(done(command) for command in INSTALL) and shutil.which("chromium"):
            return 0
    print("Cannot install Chromium.", file=sys.stderr)
    return 1


def done(command: list[str]) -> bool:
    """Run a command and return whether it succeeded; print its output on failure."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        print(f"{' '.join(command)} took longer than {SECONDS} s", file=sys.stderr)
        return False
    if process.returncode != 0:
        print(process.stdout, process.stderr, sep="\n", file=sys.stderr)
    return process.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
