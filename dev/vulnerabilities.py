"""Compares the locked dependencies with the advisories on PyPI; fails when they cannot be asked.

Usage: python dev/vulnerabilities.py
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Print what was found; 0 only when every dependency was looked up and none has an advisory."""
    command = ["pip-audit", "--vulnerability-service", "pypi", "--skip-editable", "--progress-spinner", "off"]
    found = subprocess.run([*command, "--format", "json"], cwd=ROOT, check=False, text=True, capture_output=True)
    try:
        packages = json.loads(found.stdout)["dependencies"]
    except (ValueError, KeyError):
        print(found.stderr or found.stdout, file=sys.stderr)
        return 2
    known = [package for package in packages if "vulns" in package]
    # A package that the service does not know was not audited: that must not pass for clean.
    unknown = [
        package["name"] for package in packages if "vulns" not in package and package["name"] != "floe-lakehouse"
    ]
    for package in known:
        for advisory in package["vulns"]:
            fixed = ", ".join(advisory["fix_versions"]) or "no release yet"
            print(f"{package['name']} {package['version']}: {advisory['id']}, fixed in {fixed}")
    count = sum(len(package["vulns"]) for package in known)
    print(f"{len(known)} packages audited, {count} advisories, {len(unknown)} packages not found")
    if unknown:
        print("Not audited, because PyPI did not answer for: " + ", ".join(unknown[:10]), file=sys.stderr)
    return 2 if unknown else int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
