"""What a catalog may declare about itself beyond PyIceberg's ``Catalog``.

``ReconcilingCatalog`` works on any PyIceberg catalog. A catalog that knows more about its own answers declares that
with attributes of these names; each is optional.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


class CatalogTraits(Protocol):
    """Optional attributes of a catalog, with the defaults that hold for a catalog without them.

    Attributes:
        clock_offset_ms: How far the catalog's clock is ahead of this machine's, in milliseconds; negative when it is
            behind. Default 0: the catalog has no clock of its own, or its clock is not known.
        reports_outcomes: Whether ``commit_table``, for a table that exists, reports how a commit ended: it raises
            ``CommitStateUnknownException`` when the answer was lost, and after any other error nothing has changed.
            Such a catalog also keeps the table's clock and sequence numbers in order itself. Default False: after an
            error the table is read to find out whether the commit landed.
        answers_once: Whether each call reaches the catalog at most once, so that ``NamespaceAlreadyExistsError`` is
            about a namespace of somebody else. Default False: a client may have sent the call again and be told of
            its own creation.
    """

    clock_offset_ms: float
    reports_outcomes: bool
    answers_once: bool


def clock_offset_of(catalog: Catalog) -> int:
    """Return how far a catalog's clock is ahead of this machine's, in milliseconds; 0 if that is not known."""
    return int(getattr(catalog, "clock_offset_ms", 0))


def reports_outcomes(catalog: Catalog) -> bool:
    """Whether an error of a commit tells how the commit ended."""
    return bool(getattr(catalog, "reports_outcomes", False))


def answers_once(catalog: Catalog) -> bool:
    """Whether each call reaches the catalog at most once."""
    return bool(getattr(catalog, "answers_once", False))
