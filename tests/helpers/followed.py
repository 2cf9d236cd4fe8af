"""The exchanges of a made-up wire, as a flow processor finds them."""

from typing import NamedTuple

import numpy as np

from kdissect.jit.rows import rows_of
from kdissect.streams.flow_state import STATUS_NAMES, ExchangeRow
from kdissect.streams.processor import FlowProcessor
from kdissect.streams.tls.decrypt_stage import new_flow_processor
from tests.helpers.segment_wire import Wire

VERSIONS = np.full(93, 13, np.int64)


class Found(NamedTuple):
    ordinal: int
    status: str
    api_key: int
    correlation_id: int
    in_flight: int
    request: bytes
    response: bytes
    request_cut: int  # bytes that the frame should have and the capture has not
    response_cut: int
    latency_ns: int


def follow(wire: Wire, splits: int = 1, tokens: bool = False) -> tuple[list[Found], FlowProcessor]:
    made, pieces = wire.splits(splits)
    conversations = new_flow_processor(made, VERSIONS, tokens=tokens)
    found = []
    for piece in pieces:
        for harvest in conversations.feed(piece):
            found += [row(exchange, harvest.arena) for exchange in rows_of(ExchangeRow, harvest.exchanges)]
    for harvest in conversations.close():
        found += [row(exchange, harvest.arena) for exchange in rows_of(ExchangeRow, harvest.exchanges)]
    return sorted(found), conversations


def row(exchange, arena) -> Found:
    def side(first):
        return arena[first.start : first.stop].tobytes()

    return Found(
        exchange.ordinal,
        STATUS_NAMES[exchange.status],
        exchange.api_key,
        exchange.correlation_id,
        exchange.in_flight,
        side(exchange.request),
        side(exchange.response),
        exchange.request.frame_stop - exchange.request.stop,
        exchange.response.frame_stop - exchange.response.stop,
        exchange.response.first_byte_ns - exchange.request.last_byte_ns,
    )


def brief(found: list[Found]) -> list[tuple[str, int]]:
    return [(one.status, one.correlation_id) for one in found]
