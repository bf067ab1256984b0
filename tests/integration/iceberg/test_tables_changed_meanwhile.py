"""Tables whose schema, partitioning or identity changes during a write."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.table.update import SetSnapshotRefUpdate

from floe_core.errors import (
    CommitStateUnknownError,
    ConcurrencyConflictError,
    ConfigurationError,
    InvalidDataError,
    SchemaEvolutionError,
)
from floe_iceberg import Engine, SchemaChange, SchemaChangeKind
from floe_iceberg.maintenance.rewrite import Rewriter
from floe_iceberg.write import engine
from floe_testing.audit import assert_audited
from floe_testing.faults.races import losing_races
from floe_testing.faults.sites import EmbeddedAddress, open_site

NAME = "bronze.t"
SCHEMA = pa.schema([("a", pa.int32()), ("b", pa.int32())])
MAKE_REQUIRED = SchemaChange(kind=SchemaChangeKind.MAKE_REQUIRED, column="a")


@pytest.fixture
def open_manager(tmp_path):
    """Open managers on one embedded catalog, each with a connection of its own, as a process of its own has."""
    with open_site(EmbeddedAddress(str(tmp_path))) as site:
        yield site.open_manager


@pytest.fixture
def manager(open_manager):
    return open_manager()


@pytest.fixture
def rival(open_manager):
    return open_manager()


def rows(*values):
    return pa.table({"a": [a for a, _ in values], "b": [b for _, b in values]}, schema=SCHEMA)


def found(manager, **options):
    return sorted((row["a"], row["b"]) for row in manager.scan(NAME, **options).to_pylist())


def repartition(manager, *, drop=(), add=()):
    with manager.load_table(NAME).update_spec() as update:
        for field in drop:
            update.remove_field(field)
        for column in add:
            update.add_identity(column)


def engine_of(manager):
    return manager.catalog.inner.engine


def require_a(manager):
    return manager.evolve_schema(NAME, [MAKE_REQUIRED], allow_incompatible_changes=True)


def test_compacted_files_keep_their_partitions_when_the_table_is_repartitioned_meanwhile(manager, rival, monkeypatch):
    manager.create_table(NAME, SCHEMA, ["a"])
    for _ in range(2):
        manager.append(NAME, rows((1, 7), (2, 8)))
    original = Rewriter.rewrite

    def rewrite(self, groups):
        rewritten = original(self, groups)
        repartition(rival, drop=["a"], add=["b"])
        return rewritten

    monkeypatch.setattr(Rewriter, "rewrite", rewrite)
    assert manager.compact_table(NAME).rewritten_files == 4
    assert_audited(manager, NAME)
    # Values of a must not be mistaken for values of b, in either direction.
    assert found(manager, row_filter="b = 7") == [(1, 7), (1, 7)]
    assert found(manager, row_filter="b = 1") == []
    manager.delete(NAME, "b = 1")
    manager.delete(NAME, "b = 7")
    assert found(manager) == [(2, 8), (2, 8)]


@pytest.mark.parametrize("write", ["append", "overwrite", "upsert"])
def test_a_write_does_not_go_to_a_new_table_of_the_same_name(manager, rival, write):
    manager.create_table(NAME, SCHEMA)
    manager.append(NAME, rows((0, 0)))

    def recreate():
        rival.drop_table(NAME)
        # The same ids, assigned to the columns in reverse order.
        rival.create_table(NAME, pa.schema([SCHEMA.field("b"), SCHEMA.field("a")]))

    options = {"keys": ["a"]} if write == "upsert" else {}
    with (
        losing_races(engine_of(manager), recreate),
        pytest.raises(ConcurrencyConflictError, match="dropped and recreated"),
    ):
        getattr(manager, write)(NAME, rows((1, 7)), **options)
    assert found(manager) == []
    manager.append(NAME, rows((1, 7)))
    assert found(manager) == [(1, 7)]


def test_nulls_do_not_get_into_a_column_that_becomes_required(manager, rival):
    manager.create_table(NAME, SCHEMA)
    manager.append(NAME, rows((1, 7)))
    with losing_races(engine_of(manager), lambda: require_a(rival)), pytest.raises(InvalidDataError, match="required"):
        manager.append(NAME, rows((None, 8)), evolve_schema=False)
    assert found(manager) == [(1, 7)]
    assert_audited(manager, NAME)


def test_a_column_that_becomes_required_is_made_optional_again_where_the_schema_may_change(manager, rival):
    manager.create_table(NAME, SCHEMA)
    manager.append(NAME, rows((1, 7)))
    with losing_races(engine_of(manager), lambda: require_a(rival)):
        manager.append(NAME, rows((None, 8)))
    assert not manager.load_table(NAME).schema().find_field("a").required
    assert manager.scan(NAME).sort_by("b").to_pylist() == [{"a": 1, "b": 7}, {"a": None, "b": 8}]
    assert_audited(manager, NAME)


@pytest.fixture
def before_the_next_commit(manager, monkeypatch):
    """Let somebody act after a change was planned, and before the catalog looks at the table once more."""

    def arrange(act):
        commit = manager.catalog.commit_table

        def commit_table(table, requirements, updates):
            monkeypatch.undo()
            act()
            return commit(table, requirements, updates)

        monkeypatch.setattr(manager.catalog, "commit_table", commit_table)

    return arrange


def test_an_append_that_saw_an_older_schema_is_made_anew(manager, rival, before_the_next_commit):
    manager.create_table(NAME, SCHEMA)
    manager.append(NAME, rows((1, 7)))
    before_the_next_commit(lambda: require_a(rival))
    with pytest.raises(InvalidDataError, match="required"):
        manager.append(NAME, rows((None, 8)), evolve_schema=False)
    assert found(manager) == [(1, 7)]


def test_a_column_does_not_become_required_over_nulls_that_land_meanwhile(manager, rival, before_the_next_commit):
    manager.create_table(NAME, SCHEMA)
    manager.append(NAME, rows((1, 7)))
    before_the_next_commit(lambda: rival.append(NAME, rows((None, 8))))
    with pytest.raises(SchemaEvolutionError, match="may contain nulls"):
        require_a(manager)
    assert_audited(manager, NAME)


def test_a_column_does_not_become_required_over_nulls_of_a_branch(manager):
    manager.create_table(NAME, SCHEMA)
    manager.append(NAME, rows((1, 7)))
    manager.create_branch(NAME, "audit")
    manager.append(NAME, rows((None, 8)), branch="audit")
    with pytest.raises(SchemaEvolutionError, match="may contain nulls"):
        require_a(manager)


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_table_whose_partition_fields_were_dropped_has_no_partitions_to_overwrite(manager, version):
    manager.create_table(NAME, SCHEMA, ["a"], properties={"format-version": version})
    manager.append(NAME, rows((1, 7), (2, 8)))
    repartition(manager, drop=["a"])
    with pytest.raises(ConfigurationError, match="no partitions"):
        manager.overwrite_partitions(NAME, rows((1, 9)))
    assert found(manager) == [(1, 7), (2, 8)]


@pytest.mark.parametrize("version", ["1", "2"])
def test_partitions_are_not_overwritten_once_the_last_field_is_dropped_meanwhile(manager, rival, version):
    manager.create_table(NAME, SCHEMA, ["a"], properties={"format-version": version})
    manager.append(NAME, rows((1, 7), (2, 8)))

    def drop():
        repartition(rival, drop=["a"])
        rival.append(NAME, rows((3, 9)))

    with losing_races(engine_of(manager), drop), pytest.raises(ConfigurationError, match="no partitions"):
        manager.overwrite_partitions(NAME, rows((1, 9)))
    assert found(manager) == [(1, 7), (2, 8), (3, 9)]


class AppendingPlane:
    """An engine that appends for an upsert, which is all that matters of it here."""

    name = "spark"

    def __init__(self, manager):
        self._manager = manager

    def accepts(self, _data):
        return False

    def write(self, request):
        self._manager.append(NAME, request.data, branch=request.branch, engine=Engine.ARROW)

    def await_quiet(self, _operation_id):
        """Nothing runs on."""


def test_s01_a_publication_that_lands_late_is_not_taken_back_with_its_branch(open_manager, rival, monkeypatch):
    manager = open_manager(compute=AppendingPlane(rival), engine=Engine.SPARK)
    rival.create_table(NAME, SCHEMA)
    rival.append(NAME, rows((1, 7)))
    commit, late = engine.commit_metadata, []

    def commit_metadata(context, table, requirements, updates, columns=()):
        if any(isinstance(update, SetSnapshotRefUpdate) and update.ref_name == "main" for update in updates):
            late.append(lambda: commit(context, table, requirements, updates, columns))
            raise CommitStateUnknownException
        if late:
            late.pop()()
        commit(context, table, requirements, updates, columns)

    monkeypatch.setattr(engine, "commit_metadata", commit_metadata)
    with pytest.raises(CommitStateUnknownError):
        manager.upsert(NAME, rows((2, 8)), keys=["a"])
    assert found(rival) == [(1, 7), (2, 8)]
    assert_audited(rival, NAME)
