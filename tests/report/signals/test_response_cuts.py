"""Connections that a client closes in the middle of a response, as rows of tables."""

import pytest

from kdissect.report.model.incidents import Signal
from tests.helpers.made_paths import BEGIN, SECOND, pair_connections, report_of
from tests.helpers.paper_capture import T
from tests.helpers.report_rows import FETCH, Row, connection, exchange_of

SIZE = 60_000


def cuts(count: int = 6, **more: object) -> tuple[Signal, ...]:
    """Return the signals of connections that end a moment after a Fetch response of SIZE has begun."""
    connections, exchanges = pair_connections(), []
    for number in range(101, 101 + count):
        begin = BEGIN + (number - 100) * 2 * SECOND
        own: Row = {
            "client_host": "10.1.0.9", "client_id": "small", "closed": "rst", "closed_by": "client",
            "bytes_to_client": 800, "first_time_ns": begin, "last_time_ns": begin + SECOND // 10,
        }  # fmt: skip
        connections.append(connection(number, **own | more))
        at_ms = (begin - T) // 1_000_000 + 5
        row = exchange_of(number, 0, FETCH, at_ms, response_bytes=SIZE)
        exchanges.append(row | {"client_id": "small"})
    found = report_of((), (), connections, exchanges=exchanges).signals
    return tuple(one for one in found if one.kind == "responses_cut")


def test_a_client_that_closes_in_the_middle_of_each_response_is_told_with_its_size() -> None:
    (signal,) = cuts()
    assert signal.subject.name == "small at 10.1.0.9"
    assert signal.measures["bytes"] == SIZE
    assert signal.measures["connections"] == 6
    assert signal.begin_ns == BEGIN + 2 * SECOND + SECOND // 10


@pytest.mark.parametrize(
    "more",
    [
        {"count": 3},
        {"closed_by": "server"},
        {"bytes_to_client": SIZE},
        {"lost_bytes": 50_000},
        {"opened": "midstream"},
    ],
    ids=["seldom", "by the server", "whole responses", "bytes that the capture lacks", "begun before"],
)
def test_what_is_no_cut(more: dict[str, object]) -> None:
    assert cuts(**more) == ()  # type: ignore[arg-type]
