"""Optional traits that a catalog may declare beyond PyIceberg's ``Catalog``.

``ReconcilingCatalog`` works with any PyIceberg catalog. A catalog that gives stronger guarantees declares them with
attributes of these names; each is optional.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


class CatalogTraits(Protocol):
    """Optional attributes of a catalog, with their defaults.

    Attributes:
        clock_offset_ms: Milliseconds by which the catalog's clock is ahead of this machine's clock; negative if it is
            behind. Default 0: the catalog has no clock, or its clock is unknown.
        reports_outcomes: Whether ``commit_table`` on an existing table reports its outcome reliably: it raises
            ``CommitStateUnknownException`` if the reply was lost, and after any other error nothing has changed. Such
            a catalog also keeps the table's timestamps and sequence numbers in order. Default False: after an error,
            the table is read to determine whether the commit landed.
        answers_once: Whether each call reaches the catalog at most once, so ``NamespaceAlreadyExistsError`` always
            refers to a namespace created by another call. Default False: a client may have repeated the call and get
            the error for its own namespace.
    """

    clock_offset_ms: float
    reports_outcomes: bool
    answers_once: bool


def clock_offset_of(catalog: Catalog) -> int:
    """Return the milliseconds by which a catalog's clock is ahead of this machine's clock; 0 if unknown."""
    return int(getattr(catalog, "clock_offset_ms", 0))


def reports_outcomes(catalog: Catalog) -> bool:
    """Whether an error of a commit reliably reports the outcome."""
    return bool(getattr(catalog, "reports_outcomes", False))


def answers_once(catalog: Catalog) -> bool:
    """Whether each call reaches the catalog at most once."""
    return bool(getattr(catalog, "answers_once", False))
