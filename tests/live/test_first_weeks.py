"""docs/first-weeks.md: installs the wheel in a new environment, creates the files and runs all commands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from floe_testing.services.iceberg_rest import IcebergRest
from floe_testing.transcripts import Command, Reader, matches, steps_of

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.timeout(3600)]

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "first-weeks.md"


class OwnCatalog(IcebergRest):
    """A catalog that other tests do not write to."""

    name = "first-weeks-catalog"


@pytest.fixture
def installed(tmp_path):
    """Install the wheel as the page does, with the versions of the lock."""
    subprocess.run([sys.executable, str(ROOT / "dev/try_wheel.py"), "--into", str(tmp_path)], check=True, cwd=ROOT)
    return tmp_path / "env" / "bin"


@pytest.fixture
def environment(installed, start_service, iceberg_rest, minio):
    """Give the variables of a reader's shell, those of the page's second environment among them."""
    catalog = start_service(OwnCatalog(minio))
    own = {name: value for name, value in os.environ.items() if not name.startswith(("FLOE_", "COV", "PYTEST"))}
    return own | {
        "PATH": f"{installed}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "100",
        "CATALOG_URI": catalog.url,
        "S3_ENDPOINT": minio.url,
        "S3_KEY": minio["access_key_id"],
        "S3_SECRET": minio["secret_access_key"],
    }


def test_the_first_weeks_go_as_the_page_says(tmp_path, environment):
    reader = Reader(tmp_path, environment)
    for step in steps_of(PAGE.read_text(encoding="utf-8")):
        if isinstance(step, Command) and step.line.startswith("pip install"):
            # Already installed, with the locked dependencies.
            continue
        printed = reader.do(step)
        if isinstance(step, Command):
            assert matches(step.output, printed), f"$ {step.line}\n{printed}\nexpected:\n{step.output}"
