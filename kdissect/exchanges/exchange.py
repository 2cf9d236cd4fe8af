"""One exchange as it is dumped: what the headers said, where and when it was captured, and its bytes.

An exchange travels through `sorting` as bytes: a row of numbers (the columns of `streams.flow_state`), then its frames.
"""

from struct import Struct
from typing import NamedTuple

from kdissect.streams.flow_state import (
    API_KEY,
    API_VERSION,
    BEFORE_VERSIONS,
    BYTE_PACKET,
    CONNECTION,
    CORRELATION_ID,
    EXCHANGE_FIELDS,
    FIRST_BYTE_NS,
    FRAME_STOP,
    IN_FLIGHT,
    LAST_BYTE_NS,
    ORDINAL,
    ORPHAN_RESPONSE,
    REQUEST_SIDE,
    RESPONSE_SIDE,
    SASL_TOKEN,
    START,
    STATUS,
    STATUS_NAMES,
    STOP,
    Bytes,
)

_ROW = Struct(f">{EXCHANGE_FIELDS}q")


class Frame(NamedTuple):
    """One captured frame, without its length prefix."""

    data: bytes  # what the capture has of it
    size: int  # bytes on the wire
    first_ns: int
    last_ns: int | None  # None when its end was lost
    packet: int  # split << PACKET_BITS | number in its file


class Exchange(NamedTuple):
    """A request and what became of it, a response without request, or a raw SASL token with its answer."""

    connection: int  # row of the connection
    ordinal: int | None
    status: str
    api_key: int | None
    api_version: int | None
    correlation_id: int | None
    in_flight: int | None
    request: Frame | None
    response: Frame | None
    old: bool = False  # Kafka 0.7: `api_key` is the type of the request, no version, no correlation id
    token: bool = False  # raw SASL tokens: nothing of Kafka in them

    @property
    def first_ns(self) -> int:
        """When it began."""
        frame = self.request or self.response
        return frame.first_ns if frame else 0

    @property
    def latency_ns(self) -> int | None:
        """From the request's last byte to the response's first; None where the capture cannot tell."""
        if self.request is None or self.response is None or self.request.last_ns is None:
            return None
        latency = self.response.first_ns - self.request.last_ns
        return latency if latency >= 0 else None


def pack(row: list[int], arena: Bytes) -> bytes:
    """Pack a finished row of EXCHANGE columns with the bytes that it points to."""
    start, stop = row[REQUEST_SIDE + START], row[REQUEST_SIDE + STOP]
    answer, end = row[RESPONSE_SIDE + START], row[RESPONSE_SIDE + STOP]
    return _ROW.pack(*row) + arena[start:stop].tobytes() + arena[answer:end].tobytes()


def unpack(packed: bytes) -> Exchange:
    """Read back what `pack` wrote."""
    row = _ROW.unpack_from(packed)
    middle = _ROW.size + row[REQUEST_SIDE + STOP] - row[REQUEST_SIDE + START]
    orphan, token = row[STATUS] == ORPHAN_RESPONSE, row[STATUS] == SASL_TOKEN
    bare = orphan or token
    old = row[API_VERSION] == BEFORE_VERSIONS
    return Exchange(
        connection=row[CONNECTION],
        ordinal=None if bare else row[ORDINAL],
        status=STATUS_NAMES[row[STATUS]],
        api_key=None if bare else row[API_KEY],
        api_version=None if bare or old else row[API_VERSION],
        correlation_id=None if token or old else row[CORRELATION_ID],
        in_flight=None if bare else row[IN_FLIGHT],
        request=None if orphan else _frame(row, REQUEST_SIDE, packed[_ROW.size : middle]),
        response=_frame(row, RESPONSE_SIDE, packed[middle:]) if row[RESPONSE_SIDE + START] > 0 else None,
        old=old,
        token=token,
    )


def _frame(row: tuple[int, ...], side: int, data: bytes) -> Frame:
    last_ns = row[side + LAST_BYTE_NS]
    return Frame(
        data=data,
        size=row[side + FRAME_STOP] - row[side + START],
        first_ns=row[side + FIRST_BYTE_NS],
        last_ns=None if last_ns < 0 else last_ns,
        packet=row[side + BYTE_PACKET],
    )
