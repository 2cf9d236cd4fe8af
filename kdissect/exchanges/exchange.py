"""One exchange as headers tell it: who, what and when, and the captured bytes of both frames.

An exchange waits for its turn as bytes (see `external_sort`): its row, as `streams.flow_state` has it, then
its frames.
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

    data: bytes  # as much as the capture has
    size: int  # bytes on the wire
    first_ns: int
    last_ns: int | None  # None if its end was lost
    packet: int  # split << PACKET_BITS | number in its file
    position: int = 0  # of the first byte of its length prefix in the stream


class Exchange(NamedTuple):
    """A request and what became of it, a response without request, or a raw SASL token with its response.

    A response without request has no ordinal, API or version. A request of Kafka 0.7 has its type as
    `api_key`, and neither version nor correlation id. A raw SASL token has nothing of Kafka in it.
    """

    connection: int  # row of the connection
    ordinal: int | None
    status: str
    api_key: int | None
    api_version: int | None
    correlation_id: int | None
    in_flight: int | None
    request: CapturedFrame | None
    response: CapturedFrame | None
    is_kafka07: bool = False
    is_token: bool = False

    @property
    def first_ns(self) -> int:
        """Time of the first byte of the request, or of the response if there is no request."""
        frame = self.request or self.response
        return frame.first_ns if frame else 0

    @property
    def latency_ns(self) -> int | None:
        """Time from the last byte of the request to the first byte of the response.

        It is None if the capture cannot tell.
        """
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
    """Return the exchange that `pack` made bytes of."""
    row = row_of_bytes(ExchangeRow, packed)
    middle = _ROW_BYTES + row.request.stop - row.request.start
    is_orphan, is_token = row.status == ORPHAN_RESPONSE, row.status == SASL_TOKEN
    is_kafka07 = row.api_version == BEFORE_VERSIONS
    has_header = not (is_orphan or is_token)
    return Exchange(
        connection=row.connection,
        ordinal=row.ordinal if has_header else None,
        status=STATUS_NAMES[row.status],
        api_key=row.api_key if has_header else None,
        api_version=row.api_version if has_header and not is_kafka07 else None,
        correlation_id=None if is_token or is_kafka07 else row.correlation_id,
        in_flight=row.in_flight if has_header else None,
        request=None if is_orphan else _frame(row.request, packed[_ROW_BYTES:middle]),
        response=_frame(row.response, packed[middle:]) if row.response.start > 0 else None,
        is_kafka07=is_kafka07,
        is_token=is_token,
    )


def connection_of(packed: bytes) -> int:
    """Return the row of the connection of the exchange that `pack` made bytes of."""
    return row_of_bytes(ExchangeRow, packed).connection


def _frame(row: FrameRow, data: bytes) -> CapturedFrame:
    return CapturedFrame(
        data=data,
        size=row.frame_stop - row.start,
        first_ns=row.first_byte_ns,
        last_ns=None if row.last_byte_ns < 0 else row.last_byte_ns,
        packet=row.packet,
        position=row.position,
    )
