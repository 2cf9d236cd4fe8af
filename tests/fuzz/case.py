"""One input: bytes, and what the reader of them is told they are."""

import struct
from typing import NamedTuple

_TOLD = struct.Struct(">hh?")


class Case(NamedTuple):
    """A frame without its length, or whatever a target makes of the bytes."""

    key: int
    version: int
    response: bool
    data: bytes


def to_bytes(case: Case) -> bytes:
    """Write a case as a file."""
    return _TOLD.pack(case.key, case.version, case.response) + case.data


def from_bytes(raw: bytes) -> Case:
    """Read what `to_bytes` wrote."""
    key, version, response = _TOLD.unpack_from(raw)
    return Case(key, version, response, raw[_TOLD.size :])
