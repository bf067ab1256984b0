"""Runs MinIO, an S3 store with STS that enforces policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_testing.services.host.runner import Launch, Service, answers, free_port
from floe_testing.services.host.tools import go_install, lacks_go

if TYPE_CHECKING:
    from pathlib import Path

# Go's module rules do not accept MinIO's release tags; this is the pseudo-version of a release commit.
PACKAGE = "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c"
BUCKET = "lake"
REGION = "us-east-1"
ACCESS_KEY = "floe-test-admin"
SECRET_KEY = "floe-test-secret-key"  # noqa: S105 - for a temporary server on the loopback interface


class Minio(Service):
    """S3 and STS on a local port, with the bucket ``lake``."""

    name = "minio"

    def missing(self) -> str | None:
        """Check for Go, which builds the server."""
        return lacks_go()

    def prepare(self, dev: Path) -> None:
        """Build the server once, which takes about two minutes on two cores."""
        go_install(dev, "minio", PACKAGE)

    def launch(self, dev: Path, folder: Path) -> Launch:
        """Start the server on a free port, with its files in ``folder``."""
        url = f"http://127.0.0.1:{(port := free_port())}"
        # Each folder in the data folder is a bucket.
        (folder / "data" / BUCKET).mkdir(parents=True, exist_ok=True)
        return Launch(
            command=[
                str(dev / "bin" / "minio"),
                "server",
                "--quiet",
                "--address",
                f"127.0.0.1:{port}",
                str(folder / "data"),
            ],
            ready=lambda: answers(f"{url}/minio/health/ready"),
            properties={
                "url": url,
                "bucket": BUCKET,
                "region": REGION,
                "access_key_id": ACCESS_KEY,
                "secret_access_key": SECRET_KEY,
            },
            environ={
                "MINIO_ROOT_USER": ACCESS_KEY,
                "MINIO_ROOT_PASSWORD": SECRET_KEY,
                "MINIO_BROWSER": "off",
                "MINIO_UPDATE": "off",
            },
        )
