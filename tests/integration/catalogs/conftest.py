from __future__ import annotations

import uuid

import psycopg
import pytest


@pytest.fixture
def administer(postgres_server):
    """Give a way to run a statement as the server's superuser."""
    login = {key: postgres_server[key] for key in ("host", "port", "user", "password")}

    def execute(statement):
        with psycopg.connect(**login, dbname="postgres", autocommit=True) as connection:
            connection.execute(statement)

    return execute


@pytest.fixture
def postgres_catalog(postgres_server, administer, tmp_path, monkeypatch):
    """Give the catalog section of a new PostgreSQL database."""
    name = f"test_{uuid.uuid4().hex}"
    administer(f"CREATE DATABASE {name}")
    monkeypatch.setenv("PG_PASSWORD", postgres_server["password"])
    return {
        "warehouse": f"file://{tmp_path}/wh",
        "uri": f"postgresql://{postgres_server['host']}:{postgres_server['port']}/{name}",
        "credentials": {"username": postgres_server["user"], "password": "${PG_PASSWORD}"},
    }
