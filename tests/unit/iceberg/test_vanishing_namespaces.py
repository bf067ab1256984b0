"""Namespaces that are deleted concurrently."""

from __future__ import annotations

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchNamespaceError

from floe_core.errors import NamespaceNotFoundError
from floe_iceberg.catalog.namespaces import Namespaces


class Vanishing(SqlCatalog):
    """A catalog whose namespace ``gone`` is deleted after it was listed."""

    def list_namespaces(self, namespace=()):
        if tuple(namespace) == ("gone",):
            raise NoSuchNamespaceError(*namespace)
        return [("gone",), ("kept",)] if not namespace else [("kept", "raw")] if namespace == ("kept",) else []


def test_a_namespace_that_is_deleted_meanwhile_does_not_spoil_the_list_of_others(tmp_path):
    catalog = Vanishing("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path.as_uri())
    try:
        found = Namespaces(catalog).tree()
        assert found == ["gone", "kept", "kept.raw"]
        with pytest.raises(NamespaceNotFoundError):
            Namespaces(catalog).tree("gone")
    finally:
        catalog.close()
