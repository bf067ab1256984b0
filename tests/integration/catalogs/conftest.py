from __future__ import annotations

import os
import uuid
from pathlib import Path

import psycopg
import pytest

from floe_testing.services.postgres import Postgres
from floe_testing.services.runner import ServiceRun
from floe_testing.services.toolchain import missing_toolchain

DEV = Path(__file__).parents[3] / ".floe-dev"


@pytest.fixture(scope="session")
def start_postgres():
    """Give a way to start PostgreSQL servers, and end them all with the session."""
    runs = []

    def start(name):
        if reason := Postgres().missing():
            missing_toolchain(reason)
        runs.append(ServiceRun(DEV, f"{name}-{os.getpid()}"))
        return runs[-1].start(Postgres()), runs[-1]

    yield start
    for run in runs:
        run.leave()


@pytest.fixture(scope="session")
def postgres(start_postgres):
    """Give a PostgreSQL server for the session."""
    server, _ = start_postgres("catalogs")
    return server


@pytest.fixture
def administer(postgres):
    """Give a way to run a statement as the server's superuser."""
    login = {key: postgres[key] for key in ("host", "port", "user", "password")}

    def execute(statement):
        with psycopg.connect(**login, dbname="postgres", autocommit=True) as connection:
            connection.execute(statement)

    return execute


@pytest.fixture
def postgres_catalog(postgres, administer, tmp_path, monkeypatch):
    """Give the catalog section of a new PostgreSQL database."""
    name = f"test_{uuid.uuid4().hex}"
    administer(f"CREATE DATABASE {name}")
    monkeypatch.setenv("PG_PASSWORD", postgres["password"])
    return {
        "warehouse": f"file://{tmp_path}/wh",
        "uri": f"postgresql://{postgres['host']}:{postgres['port']}/{name}",
        "credentials": {"username": postgres["user"], "password": "${PG_PASSWORD}"},
    }
