"""Pytest fixtures for local servers, started on first use and shared by all workers of a run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from floe_testing.services.azurite import Azurite
from floe_testing.services.fake_gcs import FakeGcs
from floe_testing.services.glue import Glue
from floe_testing.services.hive_metastore import HiveMetastore
from floe_testing.services.host.preparation import BY_FIXTURE, SERVERS, USUAL, prepare
from floe_testing.services.host.runner import Server, Service, ServiceRun
from floe_testing.services.host.toolchain import missing_toolchain
from floe_testing.services.iceberg_rest import IcebergRest
from floe_testing.services.minio import Minio
from floe_testing.services.nessie import Nessie
from floe_testing.services.oidc import Oidc
from floe_testing.services.postgres import Postgres

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

_FAILED = pytest.StashKey[dict[str, str]]()
_TRIED = pytest.StashKey[set[str]]()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests that need a server last, and refuse regular tests that need a server of the live suite.

    Servers are fetched and built while the other tests run.
    """
    wider = BY_FIXTURE.keys() - set(USUAL)
    for item in items:
        named = wider & _fixtures(item)
        if named and item.get_closest_marker("live") is None:
            msg = f"{item.nodeid} needs {', '.join(sorted(named))}: mark it as live."
            raise pytest.UsageError(msg)
    items.sort(key=lambda item: not SERVERS.isdisjoint(_fixtures(item)))


# First, because the timeout of a test starts in this hook as well.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Prepare the servers that a test needs before its timeout starts."""
    config = item.config
    failed = config.stash.setdefault(_FAILED, {})
    tried = config.stash.setdefault(_TRIED, set())
    if wanted := (BY_FIXTURE.keys() & _fixtures(item)) - tried:
        tried |= wanted
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        say: Callable[[str], None] = reporter.write_line if reporter else [].append
        failed |= prepare(wanted, config.rootpath / ".floe-dev", say)
        if failed and not hasattr(config, "workerinput"):
            pytest.exit("\n".join(f"Cannot prepare {name}: {why}" for name, why in failed.items()), returncode=1)
    return (yield)


def _fixtures(item: pytest.Item) -> set[str]:
    return set(getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def start_service(pytestconfig: pytest.Config) -> Iterator[Callable[[Service], Server]]:
    """Provide a function that starts a server, or skips the test if a tool for it is missing on this machine."""
    worker: dict[str, str] = getattr(pytestconfig, "workerinput", {})
    run = ServiceRun(pytestconfig.rootpath / ".floe-dev", f"test-{worker.get('testrunuid', os.getpid())}")

    def start(service: Service) -> Server:
        if reason := service.missing():
            missing_toolchain(f"{service.name}: {reason}")
        if reason := pytestconfig.stash.get(_FAILED, {}).get(service.name):
            # Another attempt would take minutes for every test.
            pytest.fail(f"Cannot prepare {service.name}: {reason}", pytrace=False)
        return run.start(service)

    yield start
    run.leave()


@pytest.fixture(scope="session")
def minio(start_service: Callable[[Service], Server]) -> Server:
    """Provide an S3 store with STS and the bucket ``lake``."""
    return start_service(Minio())


@pytest.fixture(scope="session")
def iceberg_rest(start_service: Callable[[Service], Server], minio: Server) -> Server:
    """Provide Iceberg's reference REST catalog with its warehouse on MinIO."""
    return start_service(IcebergRest(minio))


@pytest.fixture(scope="session")
def nessie(start_service: Callable[[Service], Server], minio: Server) -> Server:
    """Provide Nessie with STS vending and without authentication."""
    return start_service(Nessie(minio))


@pytest.fixture(scope="session")
def oidc(start_service: Callable[[Service], Server]) -> Server:
    """Provide an OIDC issuer."""
    return start_service(Oidc())


@pytest.fixture(scope="session")
def nessie_oidc(start_service: Callable[[Service], Server], minio: Server, oidc: Server) -> Server:
    """Provide Nessie with STS vending that requires the issuer's tokens."""
    return start_service(Nessie(minio, issuer=oidc))


@pytest.fixture(scope="session")
def postgres_server(start_service: Callable[[Service], Server]) -> Server:
    """Provide a PostgreSQL server with the database ``catalog``."""
    return start_service(Postgres())


@pytest.fixture(scope="session")
def hive_metastore(start_service: Callable[[Service], Server]) -> Server:
    """Provide a Hive metastore."""
    return start_service(HiveMetastore())


@pytest.fixture(scope="session")
def glue(start_service: Callable[[Service], Server]) -> Server:
    """Provide an emulated AWS Glue."""
    return start_service(Glue())


@pytest.fixture(scope="session")
def fake_gcs(start_service: Callable[[Service], Server]) -> Server:
    """Provide an emulated Google Cloud Storage with the bucket ``lake``."""
    return start_service(FakeGcs())


@pytest.fixture(scope="session")
def azurite(start_service: Callable[[Service], Server]) -> Server:
    """Provide an emulated Azure Blob Storage with the container ``lake``."""
    return start_service(Azurite())
