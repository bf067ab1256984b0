"""Starts, lists and stops local servers for development: python dev/services.py start|status|stop [name …].

``prepare usual|all`` fetches and builds the servers of make test, or also those of make test-live, before the tests.

Data is stored in .floe-dev/services/dev, logs in .floe-dev/logs. Ports are chosen freely and kept until a server stops.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from floe_testing.services import (
    Glue,
    HiveMetastore,
    IcebergRest,
    Minio,
    Nessie,
    Oidc,
    Postgres,
    Server,
    ServiceError,
    ServiceRun,
)
from floe_testing.services.host.preparation import BY_FIXTURE, USUAL, prepare

if TYPE_CHECKING:
    from collections.abc import Callable

    from floe_testing.services import Service

DEV = Path(__file__).resolve().parent.parent / ".floe-dev"
ALL = ("minio", "iceberg-rest", "oidc", "nessie-oidc", "postgres")


def make(run: ServiceRun, name: str) -> Service:
    """Create a service by name; services it depends on are started."""
    makers: dict[str, Callable[[], Service]] = {
        "minio": Minio,
        "oidc": Oidc,
        "postgres": Postgres,
        "hive-metastore": HiveMetastore,
        "glue": Glue,
        "iceberg-rest": lambda: IcebergRest(start(run, "minio")),
        "nessie": lambda: Nessie(start(run, "minio")),
        "nessie-oidc": lambda: Nessie(start(run, "minio"), issuer=start(run, "oidc")),
    }
    if name not in makers:
        sys.exit(f"Unknown service '{name}'. Services: {', '.join(sorted(makers))}.")
    return makers[name]()


def start(run: ServiceRun, name: str) -> Server:
    """Start a service, or return it if it is running."""
    running = run.find(name)
    if running is not None:
        return running
    service = make(run, name)
    if reason := service.missing():
        msg = f"{name} cannot run here: {reason}"
        raise ServiceError(msg)
    return run.start(service, keep=True)


def show(server: Server) -> None:
    """Print a server's address, and a snippet for floe.yaml."""
    print(f"\n{server.name}  {server.url}  (process {server.pid}, log {server.log})")
    for key, value in server.properties.items():
        if key != "url":
            print(f"    {key}: {value}")
    for line in SNIPPETS.get(server.name, lambda _: ())(server):
        print(f"    | {line}")


def _rest(server: Server) -> list[str]:
    return ["catalog:", "  type: rest", f"  uri: {server.url}", "  access_delegation: none"]


def _store(server: Server) -> list[str]:
    return [
        "storage:",
        "  type: s3",
        f"  bucket: {server['bucket']}",
        f"  endpoint: {server.url}",
        f"  region: {server['region']}",
        "  credentials:",
        f"    access_key_id: {server['access_key_id']}",
        f"    secret_access_key: ${{S3_SECRET}}   # export S3_SECRET={server['secret_access_key']}",
    ]


def _nessie(server: Server) -> list[str]:
    return ["catalog:", "  type: rest", f"  uri: {server.url}", f"  warehouse: {server['warehouse']}"]


def _nessie_with_tokens(server: Server) -> list[str]:
    return [
        *_nessie(server),
        "  credentials:",
        f"    client_id: {server['client_id']}",
        f"    client_secret: ${{OIDC_SECRET}}   # export OIDC_SECRET={server['client_secret']}",
        f"    token_endpoint: {server['token_endpoint']}",
    ]


def _postgres(server: Server) -> list[str]:
    return [
        "catalog:",
        "  type: sql",
        f"  uri: postgresql://{server['host']}:{server['port']}/{server['database']}",
        "  credentials:",
        f"    username: {server['user']}",
        f"    password: ${{PG_PASSWORD}}   # export PG_PASSWORD={server['password']}",
    ]


def _hive(server: Server) -> list[str]:
    return ["catalog:", "  type: hive", f"  uri: {server.url}", f"  warehouse: {server['warehouse']}"]


def _glue(server: Server) -> list[str]:
    return [
        "catalog:   # AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY can be set to anything",
        "  type: glue",
        f"  uri: {server.url}",
        "  options:",
        f"    client.region: {server['region']}",
    ]


SNIPPETS: dict[str, Callable[[Server], list[str]]] = {
    "glue": _glue,
    "hive-metastore": _hive,
    "iceberg-rest": _rest,
    "minio": _store,
    "nessie": _nessie,
    "nessie-oidc": _nessie_with_tokens,
    "postgres": _postgres,
}


def main(arguments: list[str]) -> int:
    """Run the given command."""
    command, *names = arguments or ["status"]
    run = ServiceRun(DEV, "dev")
    failed = False
    if command == "prepare":
        wanted = USUAL if names == ["usual"] else BY_FIXTURE
        failures = prepare(wanted, DEV, lambda line: print(line, flush=True))
        return 1 if failures else 0
    if command == "start":
        for name in names or ALL:
            print(f"{name} …", flush=True)
            began = time.monotonic()
            try:
                start(run, name)
                print(f"{name} started after {time.monotonic() - began:.0f} s")
            except ServiceError as err:
                print(err, file=sys.stderr)
                failed = True
    elif command == "stop":
        for server in reversed(run.running()):
            if not names or server.name in names:
                run.stop(server.name)
                print(f"{server.name} stopped")
    elif command != "status":
        sys.exit(__doc__)
    servers = run.running()
    for server in servers:
        show(server)
    print(f"\n{len(servers)} services running. Stop them with: make services-stop")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
