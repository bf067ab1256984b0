"""Catalog calls with wrong, late or missing replies.

The catalog is PyIceberg's SQL catalog on SQLite with scripted replies. Time is simulated.
"""

from __future__ import annotations

from unittest.mock import Mock

import pyarrow as pa
import pytest
from pyiceberg import exceptions as pyiceberg_errors
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.table.update import AssertCreate, SetPropertiesUpdate
from pyiceberg.types import LongType, NestedField, StringType

from floe_core.errors import CatalogUnavailableError, ConfigurationError
from floe_iceberg.catalog import clocks, outcomes
from floe_iceberg.catalog.reconciling import CREATION_ID_PROPERTY, ReconcilingCatalog
from floe_iceberg.commit.protocol import stage
from floe_testing.embedded_tables import local_path, open_catalog

pytestmark = pytest.mark.req("TM-14")

SCHEMA = Schema(NestedField(1, "id", LongType()))
ORDERS = ("bronze", "orders")
ITEMS = ("bronze", "items")
PATIENCE = 30.0


class Doubt(Exception):  # noqa: N818 - what it is, not what went wrong
    """An answer that says nothing of the outcome, such as 504."""


CONFLICT = pyiceberg_errors.CommitFailedException("conflict")
AWAY = CatalogUnavailableError("The catalog does not answer.")


@pytest.fixture
def clock(monkeypatch):
    """Time that only sleep moves."""
    clock = type("Clock", (), {"now": 0.0})()

    def sleep(seconds):
        clock.now += seconds

    monkeypatch.setattr(outcomes.time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(outcomes.time, "sleep", sleep)
    return clock


@pytest.fixture
def inner(tmp_path):
    """The catalog below; it declares nothing about its answers."""
    inner = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    inner.create_namespace("bronze")
    yield inner
    inner.close()


@pytest.fixture
def catalog(inner, clock):
    """The catalog as floe uses it; it has answered before."""
    catalog = ReconcilingCatalog(inner, patience=PATIENCE)
    catalog.list_namespaces()
    return catalog


@pytest.fixture
def orders(catalog):
    return catalog.create_table(ORDERS, SCHEMA)


@pytest.fixture
def answer(inner, monkeypatch):
    """Let calls of one method meet what is scripted, one after the other; then all is well. Gives the number of calls.

    ``lost`` fails before the call takes effect, ``landed`` after it, both with doubt or the error beside them; an error
    alone is lost. A function is called instead of the catalog, and the answer leaves doubt.
    """

    def play(method, *script):
        real, left, calls = getattr(inner, method), list(script), []

        def scripted(*args, **options):
            calls.append(args)
            if not left:
                return real(*args, **options)
            fault = left.pop(0)
            kind, error = fault if isinstance(fault, tuple) else (fault, Doubt())
            if kind == "well":
                return real(*args, **options)
            if kind == "landed":
                real(*args, **options)
            if callable(kind):
                kind()
            raise kind if isinstance(kind, Exception) else error

        monkeypatch.setattr(inner, method, scripted)
        return calls

    return play


def add_note(table):
    with table.update_schema() as update:
        update.add_column("note", StringType())


def columns(inner, name=ORDERS):
    return inner.load_table(name).schema().column_names


def test_a_catalog_is_wrapped_once(inner):
    wrapped = ReconcilingCatalog.around(inner)
    assert wrapped.inner is inner
    assert (wrapped.name, wrapped.properties) == (inner.name, inner.properties)
    assert ReconcilingCatalog.around(wrapped) is wrapped
    with pytest.raises(ConfigurationError, match="not dict"):
        ReconcilingCatalog.around({})


def test_the_clock_of_the_catalog_is_that_of_the_catalog_below(inner):
    assert ReconcilingCatalog(inner).clock_offset_ms == 0
    inner.clock_offset_ms = 1500.7
    assert ReconcilingCatalog(inner).clock_offset_ms == 1500


def test_tables_commit_through_the_catalog_that_gave_them(catalog, orders, inner):
    renamed = catalog.rename_table(ORDERS, ITEMS)
    registered = catalog.register_table("bronze.again", renamed.metadata_location)
    for table in (orders, renamed, registered, catalog.load_table(ITEMS)):
        assert table.catalog is catalog


def test_a_commit_that_landed_is_a_success_whatever_the_answer(catalog, orders, inner, answer):
    calls = answer("commit_table", "landed")
    add_note(orders)
    assert columns(inner) == ["id", "note"]
    assert (len(calls), orders.schema().column_names) == (1, ["id", "note"])


def test_a_commit_that_lands_late_is_found_by_a_later_look(catalog, orders, inner, answer, monkeypatch):
    late = catalog.load_table(ORDERS)
    answer("load_table", Doubt(), lambda: add_note(SqlCatalog.load_table(inner, ORDERS)))
    answer("commit_table", "lost", "well")
    add_note(late)
    assert columns(inner) == ["id", "note"]


def test_a_commit_that_nobody_can_judge_is_unknown(catalog, orders, inner, answer, clock):
    answer("commit_table", "lost")
    with pytest.raises(pyiceberg_errors.CommitStateUnknownException, match=r"the commit to bronze\.orders landed"):
        add_note(orders)
    assert columns(inner) == ["id"]
    # Three lookups.
    assert clock.now == pytest.approx(1.0)


def test_a_commit_to_a_catalog_that_cannot_be_looked_at_is_unknown(catalog, orders, answer):
    answer("commit_table", "landed")
    answer("load_table", *[Doubt()] * 3)
    with pytest.raises(pyiceberg_errors.CommitStateUnknownException):
        add_note(orders)


def test_a_commit_that_was_refused_is_that_error_at_once(catalog, orders, answer, clock):
    answer("commit_table", pyiceberg_errors.ForbiddenError("no"))
    with pytest.raises(pyiceberg_errors.ForbiddenError):
        add_note(orders)
    assert clock.now == 0


def test_a_commit_that_lost_a_race_is_a_conflict_at_once(catalog, orders, answer, clock):
    answer("commit_table", CONFLICT)
    with pytest.raises(pyiceberg_errors.CommitFailedException, match="conflict"):
        add_note(orders)
    assert clock.now == 0


def test_a_conflict_that_was_our_own_commit_is_a_success(catalog, orders, inner, answer):
    answer("commit_table", ("landed", CONFLICT))
    add_note(orders)
    assert columns(inner) == ["id", "note"]


def test_a_refusal_nobody_can_check_stays_a_refusal_but_a_conflict_becomes_doubt(catalog, orders, answer):
    answer("load_table", *[Doubt()] * 6)
    answer("commit_table", pyiceberg_errors.ForbiddenError("no"), CONFLICT)
    with pytest.raises(pyiceberg_errors.ForbiddenError):
        add_note(orders)
    with pytest.raises(pyiceberg_errors.CommitStateUnknownException):
        add_note(orders)


def test_a_commit_to_a_table_that_is_gone_is_the_catalogs_own_error(catalog, orders, inner, answer):
    answer("commit_table", lambda: inner.drop_table(ORDERS))
    with pytest.raises(Doubt):
        add_note(orders)


def append(table, *ids):
    """Add rows with one commit; PyIceberg's own append would try again after a conflict."""
    staged = stage(table, lambda transaction: transaction.append(pa.table({"id": pa.array(ids, pa.int64())})))
    table.catalog.commit_table(table, staged.requirements, staged.updates)
    table.refresh()


def ids(inner):
    return sorted(inner.load_table(ORDERS).scan().to_arrow()["id"].to_pylist())


def test_rows_that_landed_are_a_success_only_if_they_can_be_read(catalog, orders, inner, answer):
    answer("commit_table", "landed")
    append(orders, 1)
    assert ids(inner) == [1]

    real = inner.commit_table

    def landed_on_a_broken_disk(*call):
        real(*call)
        for path in local_path(orders.location()).rglob("snap-*.avro"):
            path.unlink()
        raise Doubt

    inner.commit_table = landed_on_a_broken_disk
    with pytest.raises(pyiceberg_errors.CommitStateUnknownException, match="manifest list cannot be read"):
        append(orders, 2)


def test_rows_whose_number_is_taken_can_never_land(catalog, orders, inner, answer):
    """The other commit went to another branch: nobody moved the branch that this one asserts."""
    append(orders, 1)
    with orders.manage_snapshots() as refs:
        refs.create_branch(orders.current_snapshot().snapshot_id, "trial")
    other = inner.load_table(ORDERS)
    answer("commit_table", lambda: other.append(pa.table({"id": [9]}), branch="trial"), "well")
    with pytest.raises(pyiceberg_errors.CommitFailedException, match=r"another branch of bronze\.orders landed first"):
        append(orders, 2)


def test_rows_that_met_a_restart_and_did_not_land_may_be_written_again(catalog, orders, inner, answer, clock):
    answer("commit_table", AWAY)
    answer("load_table", AWAY, AWAY)
    with pytest.raises(pyiceberg_errors.CommitFailedException, match=r"unavailable during a commit to bronze\.orders"):
        append(orders, 1)
    assert ids(inner) == []


def test_a_refusal_after_a_restart_is_looked_into_before_it_is_believed(catalog, orders, inner, answer, clock):
    """Whoever answered first after the restart may not know yet what the catalog took before it."""
    refused = pyiceberg_errors.ForbiddenError("starting")
    answer("commit_table", refused)
    answer("load_table", AWAY)
    with pytest.raises(pyiceberg_errors.CommitFailedException, match="unavailable"):
        append(orders, 1)
    assert clock.now == pytest.approx(1.2)


def test_other_changes_that_met_a_restart_stay_in_doubt(catalog, orders, answer):
    answer("commit_table", AWAY)
    answer("load_table", AWAY)
    with pytest.raises(pyiceberg_errors.CommitStateUnknownException):
        add_note(orders)


def test_a_catalog_that_stays_away_is_given_up_when_patience_ends(catalog, orders, answer, clock):
    answer("load_table", *[AWAY] * 50)
    with pytest.raises(CatalogUnavailableError):
        catalog.load_table(ORDERS)
    assert 20 < clock.now <= PATIENCE


def test_a_catalog_that_never_answered_is_not_waited_for(inner, answer, clock):
    catalog = ReconcilingCatalog(inner, patience=PATIENCE)
    answer("list_namespaces", AWAY, AWAY)
    with pytest.raises(CatalogUnavailableError):
        catalog.list_namespaces()
    assert clock.now == 0


def test_the_first_snapshot_of_a_branch_takes_no_number_that_is_taken(catalog, orders, inner, answer):
    """A catalog does not check the number of a snapshot without a parent, so the other branches must not move."""
    calls = answer("commit_table")
    append(orders, 1)
    assert [requirement.type for requirement in calls[-1][1]].count("assert-ref-snapshot-id") == 1
    append(orders, 2)
    assert [requirement.type for requirement in calls[-1][1]].count("assert-ref-snapshot-id") == 1


@pytest.mark.parametrize(
    ("below", "requirements", "with_monotonic_timestamps"),
    [
        pytest.param(MetastoreCatalog, (), True, id="in process"),
        pytest.param(MetastoreCatalog, (AssertCreate(),), False, id="creation"),
        pytest.param(Catalog, (), False, id="by a server"),
    ],
)
def test_the_tables_clock_is_set_where_nobody_else_sets_it(orders, below, requirements, with_monotonic_timestamps):
    remote = Mock(spec=below, properties={})
    remote.name = "remote"
    update = SetPropertiesUpdate(updates={"owner": "us"})
    ReconcilingCatalog(remote).commit_table(orders, requirements, (update,))
    [(_, asked, updates)] = [call.args for call in remote.commit_table.call_args_list]
    assert asked == requirements
    assert update in updates
    assert (len(updates) == 3) is with_monotonic_timestamps


def test_the_clock_of_a_table_never_runs_backwards(catalog, orders, monkeypatch):
    before = orders.metadata.last_updated_ms
    monkeypatch.setattr(clocks.time, "time", lambda: before / 1000 - 3600)
    add_note(orders)
    assert orders.metadata.last_updated_ms == before + 1


@pytest.mark.parametrize("properties", [None, {}, {"owner": "us"}], ids=["none", "empty", "some"])
def test_a_table_that_was_made_is_ours_whatever_the_answer(catalog, inner, answer, properties):
    answer("create_table", "landed")
    table = catalog.create_table(ORDERS, SCHEMA, properties=properties)
    assert table.catalog is catalog
    assert {key: value for key, value in table.properties.items() if key != CREATION_ID_PROPERTY} == (properties or {})
    assert inner.table_exists(ORDERS)


@pytest.mark.parametrize(
    "said",
    [Doubt(), pyiceberg_errors.TableAlreadyExistsError("Table bronze.orders already exists"), CONFLICT, AWAY],
    ids=["doubt", "exists", "conflict", "away"],
)
def test_a_table_of_somebody_else_is_told_from_ours(catalog, inner, answer, said):
    def somebody_is_first():
        SqlCatalog.create_table(inner, ORDERS, SCHEMA)
        raise said

    answer("create_table", somebody_is_first)
    with pytest.raises(pyiceberg_errors.TableAlreadyExistsError, match=r"Table bronze\.orders already exists"):
        catalog.create_table(ORDERS, SCHEMA)


def test_a_table_that_was_not_made_is_an_error(catalog, inner, answer):
    answer("create_table", "lost")
    with pytest.raises(Doubt):
        catalog.create_table(ORDERS, SCHEMA)
    assert not inner.table_exists(ORDERS)


def test_a_creation_that_met_a_restart_is_made_once_more_and_only_once(catalog, inner, answer):
    calls = answer("create_table", AWAY)
    answer("load_table", AWAY)
    assert catalog.create_table(ORDERS, SCHEMA).name() == ORDERS
    assert len(calls) == 2
    calls = answer("create_table", *[AWAY] * 3)
    # Each call is followed by three lookups; the first one fails because of the restart.
    answer("load_table", *[AWAY, "well", "well", "well"] * 3)
    with pytest.raises(CatalogUnavailableError):
        catalog.create_table(ITEMS, SCHEMA)
    assert len(calls) == 2


def test_a_refused_creation_is_looked_for_once(catalog, answer, clock):
    answer("create_table", pyiceberg_errors.ForbiddenError("no"))
    with pytest.raises(pyiceberg_errors.ForbiddenError):
        catalog.create_table(ORDERS, SCHEMA)
    assert clock.now == 0


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize("method", ["drop_table", "purge_table"])
@pytest.mark.parametrize("said", [Doubt(), pyiceberg_errors.NoSuchTableError("gone")], ids=["doubt", "not found"])
def test_a_table_that_was_dropped_is_no_error(catalog, inner, answer, method, said):
    calls = answer(method, ("landed", said))
    getattr(catalog, method)(ORDERS)
    assert (len(calls), inner.table_exists(ORDERS)) == (1, False)


@pytest.mark.parametrize("method", ["drop_table", "purge_table"])
def test_a_table_that_was_not_dropped_is_an_error(catalog, orders, inner, answer, method):
    answer(method, "lost")
    with pytest.raises(Doubt):
        getattr(catalog, method)(ORDERS)
    assert inner.table_exists(ORDERS)


def test_a_new_table_of_the_same_name_does_not_hide_that_ours_was_dropped(catalog, orders, inner, answer):
    def dropped_and_made_anew():
        SqlCatalog.drop_table(inner, ORDERS)
        inner.create_table(ORDERS, SCHEMA)

    calls = answer("drop_table", dropped_and_made_anew)
    catalog.drop_table(ORDERS)
    assert (len(calls), inner.table_exists(ORDERS)) == (1, True)


def test_what_was_never_there_is_still_not_found(catalog, inner):
    for call in (catalog.drop_table, catalog.purge_table, lambda name: catalog.rename_table(name, ITEMS)):
        with pytest.raises(pyiceberg_errors.NoSuchTableError):
            call(ORDERS)
    with pytest.raises(pyiceberg_errors.NoSuchNamespaceError):
        catalog.drop_namespace("silver")


@pytest.mark.parametrize("damage", [ValueError("not a table"), TypeError("neither"), OSError("no such file")])
def test_a_damaged_table_can_be_dropped(catalog, orders, inner, answer, damage):
    answer("load_table", damage)
    answer("table_exists", damage)
    answer("drop_table", "landed")
    catalog.drop_table(ORDERS)
    assert not inner.table_exists(ORDERS)


def test_a_damaged_table_that_was_not_dropped_is_an_error(catalog, orders, inner, answer):
    answer("load_table", ValueError("not a table"))
    answer("drop_table", "lost")
    with pytest.raises(Doubt):
        catalog.drop_table(ORDERS)
    assert inner.table_exists(ORDERS)


@pytest.mark.parametrize("damage", [ValueError("not a table"), TypeError("neither")])
def test_a_damaged_table_exists(catalog, orders, answer, damage):
    answer("table_exists", damage, "well")
    assert catalog.table_exists(ORDERS) is True
    assert catalog.table_exists(ORDERS) is True
    assert catalog.table_exists(ITEMS) is False


def test_a_table_that_was_renamed_is_returned(catalog, orders, inner, answer):
    answer("rename_table", "landed")
    assert catalog.rename_table(ORDERS, ITEMS).name() == ITEMS
    assert not inner.table_exists(ORDERS)


def test_a_table_of_somebody_else_under_the_new_name_is_not_ours(catalog, orders, inner, answer):
    inner.create_table(ITEMS, SCHEMA)
    answer("rename_table", "lost")
    with pytest.raises(Doubt):
        catalog.rename_table(ORDERS, ITEMS)
    # A table that was unreadable before cannot be distinguished from another one.
    answer("load_table", Doubt())
    answer("rename_table", "lost")
    with pytest.raises(Doubt):
        catalog.rename_table(ORDERS, ITEMS)


def test_a_table_that_was_registered_is_returned_also_when_it_has_changed_since(catalog, orders, inner, answer):
    location = orders.metadata_location
    answer("register_table", "landed")
    assert catalog.register_table(ITEMS, location).metadata_location == location

    def registered_and_changed():
        SqlCatalog.register_table(inner, "bronze.third", location)
        add_note(inner.load_table("bronze.third"))

    answer("register_table", registered_and_changed)
    assert catalog.register_table("bronze.third", location).schema().column_names == ["id", "note"]


def test_a_registration_does_not_take_what_was_there_before_for_its_own(catalog, orders, inner, answer):
    answer("register_table", pyiceberg_errors.TableAlreadyExistsError("there"))
    with pytest.raises(pyiceberg_errors.TableAlreadyExistsError):
        catalog.register_table(ORDERS, orders.metadata_location)
    # Another table, registered concurrently.
    other = inner.create_table(ITEMS, SCHEMA)
    answer("register_table", lambda: SqlCatalog.register_table(inner, "bronze.third", other.metadata_location))
    with pytest.raises(Doubt):
        catalog.register_table("bronze.third", orders.metadata_location)


def test_a_registration_that_may_replace_a_table_says_so_and_is_found(catalog, orders, inner, answer):
    calls = []

    def register_table(*args, **options):
        calls.append(options)
        raise Doubt

    inner.register_table = register_table
    assert catalog.register_table(ORDERS, orders.metadata_location, overwrite=True).name() == ORDERS
    with pytest.raises(Doubt):
        catalog.register_table(ORDERS, orders.metadata_location)
    assert calls == [{"overwrite": True}, {}]


@pytest.mark.parametrize("properties", [None, {"owner": "us"}], ids=["without properties", "with properties"])
@pytest.mark.parametrize("said", [Doubt(), pyiceberg_errors.NamespaceAlreadyExistsError("there")], ids=["doubt", "409"])
def test_a_namespace_that_was_made_is_ours(catalog, inner, answer, properties, said):
    calls = answer("create_namespace", ("landed", said))
    catalog.create_namespace("silver", properties)
    assert calls == [("silver", properties or {})]
    assert inner.namespace_exists("silver")


def test_a_namespace_that_was_there_before_is_not_ours(catalog, inner, answer):
    with pytest.raises(pyiceberg_errors.NamespaceAlreadyExistsError):
        catalog.create_namespace("bronze")
    # Another client created a namespace of this name with other properties.
    answer("create_namespace", lambda: SqlCatalog.create_namespace(inner, "silver", {"owner": "them"}))
    with pytest.raises(Doubt):
        catalog.create_namespace("silver", {"owner": "us"})


def test_floes_sql_catalog_answers_once_and_is_believed(tmp_path, monkeypatch):
    inner = open_catalog(tmp_path)
    catalog = ReconcilingCatalog(inner)
    catalog.create_table(ORDERS, SCHEMA)
    assert catalog.table_exists(ORDERS) is True
    assert catalog.table_exists(ITEMS) is False
    real = inner.create_namespace

    def somebody_is_first(*call):
        real(*call)
        real(*call)

    monkeypatch.setattr(inner, "create_namespace", somebody_is_first)
    with pytest.raises(pyiceberg_errors.NamespaceAlreadyExistsError):
        catalog.create_namespace("silver", {"owner": "us"})


def test_a_namespace_that_was_not_made_is_an_error(catalog, inner, answer):
    answer("create_namespace", "lost")
    with pytest.raises(Doubt):
        catalog.create_namespace("silver")
    assert not inner.namespace_exists("silver")


def test_a_namespace_that_was_dropped_is_no_error_and_one_that_was_not_is(catalog, inner, answer):
    inner.create_namespace("silver")
    answer("drop_namespace", "lost", "landed")
    with pytest.raises(Doubt):
        catalog.drop_namespace("silver")
    catalog.drop_namespace("silver")
    assert not inner.namespace_exists("silver")


def test_properties_that_were_changed_are_told_and_those_that_were_not_are_an_error(catalog, inner, answer):
    inner.create_namespace("silver", {"old": "1"})
    answer("update_namespace_properties", "lost", "landed", "lost", "lost")
    with pytest.raises(Doubt):
        catalog.update_namespace_properties("silver", {"old"}, {"owner": "us"})
    summary = catalog.update_namespace_properties("silver", {"old"}, {"owner": "us", "area": "north"})
    assert (summary.removed, summary.updated, summary.missing) == (["old"], ["area", "owner"], [])
    with pytest.raises(Doubt):
        catalog.update_namespace_properties("silver", {"owner"})
    with pytest.raises(Doubt):
        catalog.update_namespace_properties("silver", updates={"owner": "them"})
    assert inner.load_namespace_properties("silver")["owner"] == "us"


def test_reads_outlast_a_restart(catalog, orders, inner, answer):
    inner.create_namespace("silver", {"owner": "us"})
    for method in ("list_namespaces", "list_tables", "namespace_exists", "load_namespace_properties", "table_exists"):
        answer(method, AWAY)
    assert ("silver",) in catalog.list_namespaces()
    assert catalog.list_tables("bronze") == [ORDERS]
    assert catalog.namespace_exists("silver")
    assert catalog.load_namespace_properties("silver")["owner"] == "us"
    assert catalog.table_exists(ORDERS)
    answer("load_table", AWAY)
    assert catalog.load_table(ORDERS).name() == ORDERS


def test_everything_else_is_passed_on(catalog, inner, monkeypatch):
    for method in ("list_views", "load_view", "view_exists", "create_view", "register_view", "drop_view", "close"):
        seen = []
        monkeypatch.setattr(inner, method, lambda *args, seen=seen: seen.append(args) or "answer")
        given = () if method == "close" else ("bronze.v",)
        answer = getattr(catalog, method)(*given)
        assert seen == [given]
        assert answer == (None if method in {"drop_view", "close"} else "answer")
    monkeypatch.setattr(inner, "supports_server_side_planning", lambda: True)
    assert catalog.supports_server_side_planning()
    with catalog.create_table_transaction(ORDERS, SCHEMA) as transaction:
        transaction.set_properties(owner="us")
    assert inner.load_table(ORDERS).properties["owner"] == "us"
    assert catalog._load_file_io({"a": "b"}).properties["a"] == "b"
    assert catalog._load_file_io().properties == inner._load_file_io({}).properties
