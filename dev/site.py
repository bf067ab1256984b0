"""Builds the documentation site with MkDocs, and fails on broken links.

Usage: python dev/site.py [pages]

With ``pages``, only copies the pages to the folder configured in mkdocs.yml.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / ".floe-dev" / "site-pages"
ENVIRONMENT = ROOT / ".floe-dev" / "site-venv"
# All published files.
SOURCES = (
    "*.md",
    "docs/**/*.md",
    "docs/**/*.svg",
    "docs/*.css",
    "examples/*/README.md",
    "packages/*/README.md",
    "benchmarks/results/*.svg",
)


def copy_pages() -> int:
    """Copy the pages and their images; return the number of files."""
    shutil.rmtree(PAGES, ignore_errors=True)
    found = sorted({path for pattern in SOURCES for path in ROOT.glob(pattern)})
    for path in found:
        copy = PAGES / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    return len(found)


def build() -> int:
    """Install MkDocs into a separate environment, and build the site."""
    # The documentation's dependencies are separate from those of the tests.
    environment = os.environ | {"UV_PROJECT_ENVIRONMENT": str(ENVIRONMENT)}
    uv = ROOT / ".floe-dev" / "uv" / "bin" / "uv"
    sync = ["sync", "--quiet", "--locked", "--only-group", "docs", "--no-install-project", "--no-python-downloads"]
    subprocess.run([uv, *sync, "--python", sys.executable], cwd=ROOT, env=environment, check=True)
    # Not --quiet: --strict counts only warnings that are shown.
    mkdocs = [ENVIRONMENT / "bin" / "python", "-m", "mkdocs", "build", "--strict"]
    # Suppresses an advertisement for another tool.
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(mkdocs, cwd=ROOT, env=environment, check=False).returncode


def main(arguments: list[str]) -> int:
    """Copy the pages and build the site."""
    count = copy_pages()
    if arguments == ["pages"]:
        print(f"Copied {count} files to {PAGES.relative_to(ROOT)}")
        return 0
    if code := build():
        return code
    print("Built the site. Open site/index.html, or run: python -m http.server --directory site")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
