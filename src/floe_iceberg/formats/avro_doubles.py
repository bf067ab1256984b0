"""Reads doubles in Avro files with full precision.

PyIceberg 0.12's compiled decoder returns an Avro double as a 32-bit float. The partition of a double column would be
misread, and a rewritten manifest would keep the wrong value permanently.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.avro import STRUCT_DOUBLE

from floe_iceberg.pyiceberg_internals.avro import read_doubles_with

if TYPE_CHECKING:
    from pyiceberg.avro.decoder import BinaryDecoder
    from pyiceberg.avro.reader import DoubleReader


def read_full_doubles() -> None:
    """Make PyIceberg read doubles with full precision; idempotent."""
    read_doubles_with(_read)


def _read(_: DoubleReader, decoder: BinaryDecoder) -> float:
    (value,) = STRUCT_DOUBLE.unpack(decoder.read(8))
    return float(value)
