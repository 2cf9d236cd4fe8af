"""A finished row becomes bytes and an exchange again."""

import numpy as np
import pytest

from kdissect.exchanges.exchange import CapturedFrame, Exchange, connection_of, pack, unpack
from kdissect.jit.rows import dtype_of, row_size, rows_of
from kdissect.streams.flow_state import (
    ANSWERED,
    BEFORE_VERSIONS,
    ORPHAN_RESPONSE,
    SASL_TOKEN,
    ExchangeRow,
    FrameRow,
)

ARENA = np.frombuffer(b".request..answer.", np.uint8)
SHARED = ("connection", "ordinal", "api_key", "api_version", "correlation_id", "in_flight")
REQUEST = CapturedFrame(b"request", 7, 100, 110, 3)
RESPONSE = CapturedFrame(b"answ", 6, 150, None, 4)


def finished(status: int, api_version: int = 12) -> Exchange:
    """Return what comes back of a row with both frames, of which the response lost its last two bytes."""
    exchanges = np.zeros(1, dtype_of(ExchangeRow))
    row = rows_of(ExchangeRow, exchanges)[0]
    fill(row.request, start=1, stop=8, frame_stop=8, first_byte_ns=100, last_byte_ns=110, packet=3)
    fill(row.response, start=10, stop=14, frame_stop=16, first_byte_ns=150, last_byte_ns=-1, packet=4)
    row.connection, row.ordinal, row.status, row.api_key = 5, 9, status, 1
    row.api_version, row.correlation_id, row.in_flight = api_version, 77, 2
    (packed,) = pack(exchanges, ARENA)
    assert connection_of(packed) == 5
    return unpack(packed)


def fill(row: FrameRow, **fields: int) -> None:
    for name, value in fields.items():
        setattr(row, name, value)


def test_an_answered_request() -> None:
    assert finished(ANSWERED) == Exchange(5, 9, "answered", 1, 12, 77, 2, REQUEST, RESPONSE)


def test_what_a_response_without_request_does_not_have() -> None:
    orphan = finished(ORPHAN_RESPONSE)
    assert orphan == Exchange(5, None, "orphan_response", None, None, 77, None, None, orphan.response)
    assert orphan.first_ns == 150
    assert orphan.latency_ns is None


def test_kafka_0_7_has_a_type_and_nothing_more() -> None:
    old = finished(ANSWERED, BEFORE_VERSIONS)
    assert (old.is_kafka07, old.api_key, old.api_version, old.correlation_id) == (True, 1, None, None)


def test_a_raw_token_has_nothing_of_kafka() -> None:
    token = finished(SASL_TOKEN)
    assert (token.is_token, token.ordinal, token.api_key, token.correlation_id) == (True, None, None, None)
    assert token.request == REQUEST


@pytest.mark.parametrize(("first_ns", "latency_ns"), [(150, 40), (110, 0), (109, None)])
def test_a_response_before_its_request_has_no_latency(first_ns: int, latency_ns: int | None) -> None:
    response = RESPONSE._replace(first_ns=first_ns)
    assert finished(ANSWERED)._replace(response=response).latency_ns == latency_ns


def test_every_field_of_a_row_comes_back_in_its_place() -> None:
    exchanges = np.arange(1, 1 + row_size(ExchangeRow) // 8).view(dtype_of(ExchangeRow))
    for side in ("request", "response"):
        exchanges[side]["start"], exchanges[side]["stop"] = 1, 1
    exchanges["status"] = ANSWERED
    (row,), (packed,) = rows_of(ExchangeRow, exchanges), pack(exchanges, ARENA)
    found = unpack(packed)
    assert [getattr(found, name) for name in SHARED] == [getattr(row, name) for name in SHARED]
    for frame, fields in ((found.request, row.request), (found.response, row.response)):
        assert frame is not None
        assert (frame.size, frame.first_ns, frame.last_ns, frame.packet, frame.position) == (
            fields.frame_stop - fields.start,
            fields.first_byte_ns,
            fields.last_byte_ns,
            fields.packet,
            fields.position,
        )
