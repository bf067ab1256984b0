"""Fixtures for tests of table operations: a context on an embedded catalog, tables, and a record of opened files.

Enable them in a test module with ``pytest_plugins = ["floe_testing.table_fixtures"]``.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFile

from floe_testing.embedded_tables import make_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pyarrow as pa
    from pyiceberg.io import InputStream
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from floe_iceberg.context import ManagerContext
    from floe_testing.telemetry.fixtures import Tracing

pytest_plugins = ["floe_testing.telemetry.fixtures"]


@pytest.fixture
def context(tmp_path: Path, tracing: Tracing) -> Iterator[ManagerContext]:
    """Provide a context on a new embedded catalog."""
    context = make_context(tmp_path, tracer=tracing[0])
    yield context
    context.catalog.close()


@pytest.fixture
def new_table(context: ManagerContext) -> Callable[..., Table]:
    """Provide a function that creates tables."""

    def create(name: str, schema: pa.Schema | Schema, **options: Any) -> Table:
        return context.catalog.create_table(tuple(name.split(".")), schema, **options)

    return create


@pytest.fixture
def opened_files(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], AbstractContextManager[list[str]]]:
    """Provide a context manager that records the locations opened for reading with a given suffix."""

    @contextmanager
    def record(suffix: str) -> Iterator[list[str]]:
        opened: list[str] = []
        original = PyArrowFile.open

        def recorded(self: PyArrowFile, seekable: bool = True) -> InputStream:  # noqa: FBT001, FBT002 - PyIceberg's signature
            if self.location.endswith(suffix):
                opened.append(self.location)
            return original(self, seekable)

        with monkeypatch.context() as patch:
            patch.setattr(PyArrowFile, "open", recorded)
            yield opened

    return record
