"""What every object store of tenancy must do; subclass it and give a ``store`` and an empty ``prefix``."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from floe_tenancy import ObjectStore


class ObjectStoreContract:
    """Create-only puts, listings that stop at the slash, deletes that may be repeated."""

    def test_an_object_is_created_once_and_kept(self, store: ObjectStore, prefix: str) -> None:
        assert store.create(f"{prefix}a/marker", b"first")
        assert not store.create(f"{prefix}a/marker", b"second")
        assert store.read(f"{prefix}a/marker") == b"first"

    def test_of_many_who_create_at_once_one_wins(self, store: ObjectStore, prefix: str) -> None:
        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(lambda n: store.create(f"{prefix}race", str(n).encode()), range(8)))
        assert won.count(True) == 1
        assert store.read(f"{prefix}race") == str(won.index(True)).encode()

    def test_what_is_not_there_is_none(self, store: ObjectStore, prefix: str) -> None:
        assert store.read(f"{prefix}nothing") is None
        assert list(store.list(f"{prefix}nothing/")) == []
        assert store.delete([f"{prefix}nothing"]) == 1

    def test_a_listing_stops_at_the_slash(self, store: ObjectStore, prefix: str) -> None:
        for name in ("t-1/x", "t-1/deep/er/y", "t-10/x", "t-x"):
            store.create(prefix + name, b"12345")
        found = {item.key: item.size for item in store.list(f"{prefix}t-1/")}
        assert found == {f"{prefix}t-1/x": 5, f"{prefix}t-1/deep/er/y": 5}
        assert {item.key for item in store.list(f"{prefix}t-1")} == set(found)

    def test_only_named_objects_are_deleted(self, store: ObjectStore, prefix: str) -> None:
        keys = [f"{prefix}d/{number}" for number in range(12)]
        for key in [*keys, f"{prefix}d-neighbour/0"]:
            store.create(key, b"x")
        assert store.delete(keys) == 12
        assert store.delete(keys[:2]) == 2
        assert [item.key for item in store.list(prefix)] == [f"{prefix}d-neighbour/0"]
