"""One exchange as headers tell it: who, what and when, and the captured bytes of both frames.

An exchange waits for its turn as bytes (see `external_sort`): its row, as `streams.flow_state` has it, then
its frames.
"""

from struct import Struct
from typing import NamedTuple

from kdissect.array_types import Bytes
from kdissect.jit.rows import Records, row_size
from kdissect.protocol.kafka07.message_codec import request_name
from kdissect.protocol.schema.registry import api_name
from kdissect.streams.flow_state import (
    BEFORE_VERSIONS,
    ORPHAN_RESPONSE,
    REQUEST_SIDE,
    RESPONSE_SIDE,
    SASL_TOKEN,
    STATUS_NAMES,
    ExchangeRow,
    FrameRow,
)

_ROW = Struct(f"={row_size(ExchangeRow) // 8}q")
_FRAME_FIELDS = row_size(FrameRow) // 8
_OF_EXCHANGE = 2 * _FRAME_FIELDS  # number of the first field behind the two frames
_ENDS = ("start", "stop")  # of a frame in the arena
_CONNECTION = Struct(f"={8 * _OF_EXCHANGE}xq")


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
    def api_name(self) -> str | None:
        """The name of the API, or of the request type of Kafka 0.7; None without a request."""
        if self.api_key is None:
            return None
        return request_name(self.api_key) if self.is_kafka07 else api_name(self.api_key)

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


def pack(exchanges: Records, arena: Bytes) -> list[bytes]:
    """Return finished exchanges as bytes, each its row and then its frames, which lie in the arena.

    `exchanges` are rows of `flow_state.ExchangeRow`.
    """
    rows, frames = exchanges.tobytes(), arena.data
    starts = range(0, len(rows), _ROW.size)
    places = [exchanges[side][end].tolist() for side in (REQUEST_SIDE, RESPONSE_SIDE) for end in _ENDS]
    return [
        b"".join((rows[at : at + _ROW.size], frames[sent:sent_stop], frames[answered:answered_stop]))
        for at, sent, sent_stop, answered, answered_stop in zip(starts, *places, strict=True)
    ]


def unpack(packed: bytes) -> Exchange:
    """Return the exchange that `pack` made bytes of."""
    row = _ROW.unpack_from(packed)
    request, response = row[:_FRAME_FIELDS], row[_FRAME_FIELDS:_OF_EXCHANGE]
    connection, ordinal, status, api_key, api_version, correlation_id, in_flight, _ = row[_OF_EXCHANGE:]
    middle = _ROW.size + request[1] - request[0]
    is_orphan, is_token = status == ORPHAN_RESPONSE, status == SASL_TOKEN
    is_kafka07 = api_version == BEFORE_VERSIONS
    has_header = not (is_orphan or is_token)
    return Exchange(
        connection,
        ordinal if has_header else None,
        STATUS_NAMES[status],
        api_key if has_header else None,
        api_version if has_header and not is_kafka07 else None,
        None if is_token or is_kafka07 else correlation_id,
        in_flight if has_header else None,
        None if is_orphan else _frame(request, packed[_ROW.size : middle]),
        _frame(response, packed[middle:]) if response[0] > 0 else None,
        is_kafka07,
        is_token,
    )


def connection_of(packed: bytes) -> int:
    """Return the row of the connection of the exchange that `pack` made bytes of."""
    connection: int = _CONNECTION.unpack_from(packed)[0]
    return connection


def _frame(row: tuple[int, ...], data: bytes) -> CapturedFrame:
    """Return a frame from the fields of its row, in their order."""
    start, _, frame_stop, first_ns, last_ns, packet, position = row
    return CapturedFrame(
        data, frame_stop - start, first_ns, None if last_ns < 0 else last_ns, packet, position
    )
