"""Doubles in Avro files, read with all their digits.

PyIceberg 0.12's compiled decoder returns an Avro double as a float of 32 bits. A partition of a double column would be
read as another one, and a manifest that is rewritten would keep the wrong value for good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.avro import STRUCT_DOUBLE
from pyiceberg.avro.reader import DoubleReader

if TYPE_CHECKING:
    from pyiceberg.avro.decoder import BinaryDecoder


def read_doubles_whole() -> None:
    """Make PyIceberg read doubles as they are; harmless to repeat."""
    # The decoder is compiled and cannot be subclassed where PyIceberg makes it.
    setattr(DoubleReader, "read", _read)  # noqa: B010 - see above


def _read(_: DoubleReader, decoder: BinaryDecoder) -> float:
    (value,) = STRUCT_DOUBLE.unpack(decoder.read(8))
    return float(value)
