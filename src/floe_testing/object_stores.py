"""Contract suites for object stores and listings; subclasses provide ``store`` and an empty ``prefix``."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from floe_core.plugins.object_store import ObjectListing, ObjectStore

    Put = Callable[[str, bytes], object]

# Names that clients may wrongly encode, decode or truncate.
ODD_NAMES = (
    "with a space",
    "100%",
    "a%20b",
    "day=2026-01-31 10%3A00",
    "größe-数据-🚢",
    "a+b&c;d,e@f(g)'h'!*$",
    "..hidden.",
    "_x",
    ".x",
)
# Maximum clock difference between the store and this machine.
_CLOCKS = timedelta(minutes=10)


class ObjectListingContract:
    """Tests of listings: folder boundaries, names and modification times.

    If ``store`` only supports listings, provide a fixture ``put`` that writes an object.
    """

    @pytest.fixture
    def put(self, store: ObjectStore) -> Put:
        """Return a function that writes an object."""
        return store.create

    def test_a_folder_that_does_not_exist_is_empty(self, store: ObjectListing, prefix: str) -> None:
        assert list(store.list(f"{prefix}nothing/")) == []

    def test_a_listing_stops_at_the_slash(self, store: ObjectListing, put: Put, prefix: str) -> None:
        for name in ("t-1/x", "t-1/deep/er/y", "t-10/x", "t-x"):
            put(prefix + name, b"12345")
        found = {item.key: item.size for item in store.list(f"{prefix}t-1/")}
        assert found == {f"{prefix}t-1/x": 5, f"{prefix}t-1/deep/er/y": 5}
        assert {item.key for item in store.list(f"{prefix}t-1")} == set(found)

    def test_without_a_prefix_everything_is_listed(self, store: ObjectListing, put: Put, prefix: str) -> None:
        put(f"{prefix}x", b"")
        put(f"{prefix}deep/y", b"")
        assert {f"{prefix}x", f"{prefix}deep/y"} <= {item.key for item in store.list()}

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_names_are_listed_as_written(self, store: ObjectListing, put: Put, prefix: str, name: str) -> None:
        key = f"{prefix}{name}/{name}"
        put(key, b"1")
        assert [item.key for item in store.list(prefix)] == [key]
        assert [item.key for item in store.list(f"{prefix}{name}")] == [key]

    def test_an_object_has_the_time_it_was_written(self, store: ObjectListing, put: Put, prefix: str) -> None:
        put(f"{prefix}x", b"1")
        [found] = store.list(prefix)
        assert found.modified is not None
        assert abs(datetime.now(UTC) - found.modified) < _CLOCKS


class ObjectStoreContract(ObjectListingContract):
    """Tests of listings, create-only puts and idempotent deletes."""

    def test_an_object_is_created_once_and_kept(self, store: ObjectStore, prefix: str) -> None:
        assert store.create(f"{prefix}a/marker", b"first")
        assert not store.create(f"{prefix}a/marker", b"second")
        assert store.read(f"{prefix}a/marker") == b"first"

    def test_one_of_several_concurrent_creators_wins(self, store: ObjectStore, prefix: str) -> None:
        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(lambda n: store.create(f"{prefix}race", str(n).encode()), range(8)))
        assert won.count(True) == 1
        assert store.read(f"{prefix}race") == str(won.index(True)).encode()

    def test_missing_objects_are_none_and_can_be_deleted(self, store: ObjectStore, prefix: str) -> None:
        assert store.read(f"{prefix}nothing") is None
        assert list(store.list(f"{prefix}nothing/")) == []
        assert store.delete([f"{prefix}nothing"]) == 1

    def test_only_named_objects_are_deleted(self, store: ObjectStore, prefix: str) -> None:
        keys = [f"{prefix}d/{number}" for number in range(12)]
        for key in [*keys, f"{prefix}d-neighbor/0"]:
            store.create(key, b"x")
        assert store.delete(keys) == 12
        assert store.delete(keys[:2]) == 2
        assert [item.key for item in store.list(prefix)] == [f"{prefix}d-neighbor/0"]

    def test_objects_deleted_since_the_listing_do_not_stop_a_delete(self, store: ObjectStore, prefix: str) -> None:
        for number in range(4):
            store.create(f"{prefix}{number}", b"x")
        listed = [item.key for item in store.list(prefix)]
        store.delete(listed[1:3])
        assert store.delete(listed) == 4
        assert list(store.list(prefix)) == []

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_an_object_with_an_odd_name_is_read_and_deleted(self, store: ObjectStore, prefix: str, name: str) -> None:
        key = f"{prefix}{name}/{name}"
        assert store.create(key, b"1")
        assert store.read(key) == b"1"
        store.delete([key])
        assert store.read(key) is None
