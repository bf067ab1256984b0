"""Brings Debian's Chromium for the browser tests to a machine that runs them unattended: python dev/chromium.py.

With CI=true, as root and where there is apt-get, it is installed; elsewhere a machine's packages are its owner's, and
tests without a browser are skipped by name.
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
    """Install the browser where that is ours to do; 1 when it should have come and did not."""
    if found := shutil.which("chromium"):
        print(f"Chromium: {found}")
        return 0
    if os.environ.get("CI") != "true" or os.geteuid() != 0 or shutil.which("apt-get") is None:
        print("There is no Chromium here: the browser tests are skipped. On Debian: apt-get install chromium")
        return 0
    for _ in range(TRIES):
        if all(done(command) for command in INSTALL) and shutil.which("chromium"):
            return 0
    print("Chromium could not be installed.", file=sys.stderr)
    return 1


def done(command: list[str]) -> bool:
    """Run a command and say whether it succeeded; what it printed is shown when it did not."""
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
