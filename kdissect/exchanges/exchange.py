"""One exchange as it is dumped: what the headers said, where and when it was captured, and its bytes.

An exchange travels through `sorting` as bytes: a row of numbers (the columns of `streams.flow_state`), then its frames.
"""

from typing import NamedTuple

from kdissect.jit.rows import row_bytes, row_of_bytes, row_size
from kdissect.streams.flow_state import (
    BEFORE_VERSIONS,
    ORPHAN_RESPONSE,
    SASL_TOKEN,
    STATUS_NAMES,
    Bytes,
    ExchangeRow,
    FrameRow,
)

_ROW_BYTES = row_size(ExchangeRow)


class CapturedFrame(NamedTuple):
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
    request: CapturedFrame | None
    response: CapturedFrame | None
    is_kafka07: bool = False  # Kafka 0.7: `api_key` is the type of the request, no version, no correlation id
    is_token: bool = False  # raw SASL tokens: nothing of Kafka in them

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


def pack(row: ExchangeRow, arena: Bytes) -> bytes:
    """Return a finished exchange as bytes: its row, then the bytes of its frames, which lie in the arena."""
    request, response = row.request, row.response
    frames = arena[request.start : request.stop].tobytes() + arena[response.start : response.stop].tobytes()
    return row_bytes(row) + frames


def unpack(packed: bytes) -> Exchange:
    """Read back what `pack` wrote."""
    row = row_of_bytes(ExchangeRow, packed)
    middle = _ROW_BYTES + row.request.stop - row.request.start
    orphan, token = row.status == ORPHAN_RESPONSE, row.status == SASL_TOKEN
    bare = orphan or token
    old = row.api_version == BEFORE_VERSIONS
    return Exchange(
        connection=row.connection,
        ordinal=None if bare else row.ordinal,
        status=STATUS_NAMES[row.status],
        api_key=None if bare else row.api_key,
        api_version=None if bare or old else row.api_version,
        correlation_id=None if token or old else row.correlation_id,
        in_flight=None if bare else row.in_flight,
        request=None if orphan else _frame(row.request, packed[_ROW_BYTES:middle]),
        response=_frame(row.response, packed[middle:]) if row.response.start > 0 else None,
        is_kafka07=old,
        is_token=token,
    )


def _frame(row: FrameRow, data: bytes) -> CapturedFrame:
    last_ns = row.last_byte_ns
    return CapturedFrame(
        data=data,
        size=row.frame_stop - row.start,
        first_ns=row.first_byte_ns,
        last_ns=None if last_ns < 0 else last_ns,
        packet=row.packet,
    )
