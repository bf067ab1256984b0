"""Parallel deletion of files."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.io import FileIO

    from floe_iceberg.context import ManagerContext

_WORKERS = 16


def delete_files(context: ManagerContext, io: FileIO, locations: Iterable[str]) -> set[str]:
    """Delete files in parallel and return those that no longer exist.

    A missing file counts as deleted. A file that cannot be deleted is logged and kept: nothing references it any more,
    so the next orphan cleanup finds it.
    """
    wanted = list(locations)
    return set(wanted) - try_delete(context, io, wanted).keys()


def try_delete(context: ManagerContext, io: FileIO, locations: Iterable[str]) -> dict[str, Exception]:
    """Delete files in parallel; log and return the files that the store refused to delete, with the error."""
    wanted = list(locations)
    with ThreadPoolExecutor(max_workers=_WORKERS, thread_name_prefix="floe-delete") as pool:
        outcomes = list(pool.map(lambda location: _delete(io, location), wanted))
    failed = {location: err for location, err in zip(wanted, outcomes, strict=True) if err is not None}
    for location, err in failed.items():
        context.logger.warning("iceberg.delete_file", outcome="failed", path=location, reason=str(err))
    return failed


def _delete(io: FileIO, location: str) -> Exception | None:
    try:
        io.delete(location)
    except FileNotFoundError:
        return None
    except Exception as err:  # noqa: BLE001 - object stores fail in many ways; the other files must still be deleted
        return err
    return None
