"""Operations of writers, derived from the seed, the writer and a number, so that a run can be repeated."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from floe_iceberg import Engine, IcebergTableManager, SnapshotInfo

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("part", pa.string()),
        pa.field("op", pa.string()),
        pa.field("n", pa.int64()),
        pa.field("value", pa.int64()),
    ]
)
OPERATION_ID = "floe.operation-id"
HOT_IDS = 40
HOT = "hot"
_PARTS = 4

Row = tuple[str, str, int, int]


class Kind(StrEnum):
    """What an operation does."""

    APPEND = "append"
    UPSERT = "upsert"
    DELETE = "delete"
    OVERWRITE = "overwrite"
    COMPACT = "compact"
    EXPIRE = "expire"


_WEIGHTS = {Kind.APPEND: 45, Kind.UPSERT: 25, Kind.DELETE: 10, Kind.OVERWRITE: 14, Kind.COMPACT: 4, Kind.EXPIRE: 2}
WRITES = (Kind.APPEND, Kind.UPSERT, Kind.DELETE, Kind.OVERWRITE)


@dataclass(frozen=True)
class Operation:
    """One operation of one writer.

    Attributes:
        name: Its operation id.
        kind: What it does.
        table: To which table.
        ids: The rows it writes, or the hot rows it deletes.
        part: The partition of the rows.
    """

    name: str
    kind: Kind
    table: str
    ids: tuple[int, ...]
    part: str

    @classmethod
    def draw(cls, seed: int, writer: int, number: int, tables: list[str]) -> Operation:
        """Draw a writer's operation of a number; the same arguments give the same operation."""
        rng = random.Random(f"operation {seed} {writer} {number}")
        kind = rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        table = rng.choice(tables)
        first = HOT_IDS + (writer * 1_000_000 + number) * 100
        name = f"{seed}-{writer}-{number}-{kind.value}"
        fresh = tuple(range(first, first + rng.randint(1, 20)))
        match kind:
            case Kind.UPSERT:
                return cls(name, kind, table, (*sorted(rng.sample(range(HOT_IDS), 8)), first), HOT)
            case Kind.DELETE:
                return cls(name, kind, table, tuple(sorted(rng.sample(range(HOT_IDS), 4))), HOT)
            case _:
                return cls(name, kind, table, fresh, f"p{rng.randrange(_PARTS)}")

    def data(self) -> pa.Table:
        """Return the rows it writes."""
        rows = self.rows()
        columns = {
            "id": list(rows),
            "part": [row[0] for row in rows.values()],
            "op": [row[1] for row in rows.values()],
            "n": [row[2] for row in rows.values()],
            "value": [row[3] for row in rows.values()],
        }
        return pa.table(columns, schema=SCHEMA)

    def rows(self) -> dict[int, Row]:
        """Return the rows it writes, by id."""
        return {key: (self.part, self.name, len(self.ids), key * 7 % 1000) for key in self.ids}

    def run(self, manager: IcebergTableManager, engine: Engine) -> SnapshotInfo:
        """Carry it out."""
        table, options = self.table, {"operation_id": self.name, "engine": engine}
        match self.kind:
            case Kind.APPEND:
                return manager.append(table, self.data(), **options)
            case Kind.UPSERT:
                return manager.upsert(table, self.data(), keys=["id"], **options)
            case Kind.DELETE:
                return manager.delete(table, f"id in ({', '.join(map(str, self.ids))})", **options)
            case _:
                return manager.overwrite(table, self.data(), overwrite_filter=f"part = '{self.part}'", **options)

    def apply(self, model: dict[int, Row]) -> list[int]:
        """Do to a plain dict what the operation does to the table; return ids that were there and must not be."""
        twice: list[int] = []
        match self.kind:
            case Kind.DELETE:
                for key in self.ids:
                    model.pop(key, None)
            case Kind.OVERWRITE:
                for key in [key for key, row in model.items() if row[0] == self.part]:
                    del model[key]
                model |= self.rows()
            case Kind.APPEND:
                twice = [key for key in self.ids if key in model]
                model |= self.rows()
            case Kind.UPSERT:
                model |= self.rows()
        return twice
