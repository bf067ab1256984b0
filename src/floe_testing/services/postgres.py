"""Runs PostgreSQL from the system's packages, with a data folder per server."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import stat
import subprocess
from pathlib import Path

from floe_testing.services.host.runner import Launch, Service, ServiceError, free_port

USER = "floe"
PASSWORD = "floe-pg-secret"  # noqa: S105 - for a temporary server on the loopback interface
DATABASE = "catalog"
_UNPRIVILEGED = "nobody"


def _binary(name: str) -> str | None:
    found = shutil.which(name)
    if found is None:
        candidates = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
        found = str(candidates[-1]) if candidates else None
    return found


class Postgres(Service):
    """A PostgreSQL server with the database ``catalog``."""

    name = "postgres"

    def missing(self) -> str | None:
        """Check for the binaries, which Debian's postgresql package contains."""
        return None if _binary("initdb") and _binary("postgres") else "PostgreSQL (initdb, postgres) is not installed"

    def prepare(self, dev: Path) -> None:
        """Do nothing: there is nothing to fetch."""

    def launch(self, dev: Path, folder: Path) -> Launch:
        """Create a cluster in ``folder`` and start it on a free port."""
        del dev
        data, port = folder / "data", free_port()
        if not (data / "PG_VERSION").exists():
            self._initialize(folder, data)
        command = [
            str(_binary("postgres")),
            "-D",
            str(data),
            "-p",
            str(port),
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            # No Unix socket: its path is limited to 107 bytes, which deep checkouts exceed.
            "unix_socket_directories=",
            "-c",
            "fsync=off",
        ]
        url = f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{port}/{DATABASE}"
        return Launch(
            command=_as_unprivileged(command, folder),
            ready=lambda: _accepts(port),
            properties={
                "url": url,
                "host": "127.0.0.1",
                "port": str(port),
                "user": USER,
                "password": PASSWORD,
                "database": DATABASE,
            },
            after=lambda: _create_database(port),
        )

    def _initialize(self, folder: Path, data: Path) -> None:
        data.mkdir(parents=True, exist_ok=True)
        password_file = folder / "password"
        password_file.write_text(PASSWORD, encoding="utf-8")
        if os.geteuid() == 0:
            # PostgreSQL refuses to run as root.
            account = pwd.getpwnam(_UNPRIVILEGED)
            for path in (data, password_file):
                os.chown(path, account.pw_uid, account.pw_gid)
        command = [str(_binary("initdb")), "-D", str(data), "-U", USER, "-A", "scram-sha-256", "-E", "UTF8"]
        command += ["--pwfile", str(password_file), "--no-sync"]
        done = subprocess.run(  # noqa: S603 - PostgreSQL's initdb
            _as_unprivileged(command, folder), capture_output=True, text=True, check=False, cwd=folder
        )
        if done.returncode != 0:
            msg = f"initdb failed: {done.stderr[-1000:]}"
            raise ServiceError(msg)


def _as_unprivileged(command: list[str], folder: Path) -> list[str]:
    """Return the command, wrapped to run as an unprivileged user if this process is root."""
    if os.geteuid() != 0:
        return command
    account = ["--reuid", _UNPRIVILEGED, "--regid", "nogroup", "--clear-groups"]
    if not all(parent.stat().st_mode & stat.S_IXOTH for parent in folder.resolve().parents):
        # The checkout is below a private home directory, which the user cannot traverse.
        account += ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]
    return [shutil.which("setpriv") or "setpriv", *account, *command]


def _accepts(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def _create_database(port: int) -> None:
    import psycopg

    deadline = 50
    for attempt in range(deadline):
        try:
            with psycopg.connect(
                host="127.0.0.1", port=port, user=USER, password=PASSWORD, dbname="postgres", autocommit=True
            ) as connection:
                known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone()
                if known is None:
                    connection.execute(f'CREATE DATABASE "{DATABASE}"')
                return
        except psycopg.OperationalError:
            if attempt == deadline - 1:
                raise
