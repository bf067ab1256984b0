"""Checks the locked dependencies for advisories on PyPI; also fails if PyPI is not reachable.

Usage: python dev/vulnerabilities.py
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Print all advisories; return 0 only if every dependency was found on PyPI and none has an advisory."""
    command = ["pip-audit", "--vulnerability-service", "pypi", "--skip-editable", "--progress-spinner", "off"]
    found = subprocess.run([*command, "--format", "json"], cwd=ROOT, check=False, text=True, capture_output=True)
    try:
        packages = json.loads(found.stdout)["dependencies"]
    except (ValueError, KeyError):
        print(found.stderr or found.stdout, file=sys.stderr)
        return 2
    known = [package for package in packages if "vulns" in package]
    # Packages that PyPI does not know were not audited, so the result must not be success.
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
        print("Not audited, because PyPI returned no data: " + ", ".join(unknown[:10]), file=sys.stderr)
    return 2 if unknown else int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
