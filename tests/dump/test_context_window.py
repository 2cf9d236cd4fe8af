"""Around a match its connection is shown, as `grep -B` and `-A` show lines, in bounded memory."""

from kdissect.dump.context_window import ContextWindow
from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.exchange import Exchange
from tests.dump.handmade import REQUEST, frame


def exchange(connection: int, ordinal: int) -> DecodedExchange:
    return DecodedExchange(
        Exchange(connection, ordinal, "unanswered", 12, 0, 9, 1, frame(REQUEST, ordinal), None)
    )


def shown(window: ContextWindow, rows: list[tuple[int, int, bool]]) -> list[tuple[int, int | None, bool]]:
    return [
        (one.decoded.exchange.connection, one.decoded.exchange.ordinal, one.is_match)
        for connection, ordinal, is_match in rows
        for one in window.add(exchange(connection, ordinal), is_match)
    ]


def test_only_matches_without_context() -> None:
    window = ContextWindow(0, 0)
    assert not window.is_wanted
    assert shown(window, [(1, 0, False), (1, 1, True), (1, 2, False)]) == [(1, 1, True)]


def test_before_and_after_are_of_the_same_connection() -> None:
    rows = [
        (1, 0, False),
        (1, 1, False),
        (2, 0, False),
        (1, 2, True),
        (2, 1, False),
        (1, 3, False),
        (1, 4, False),
    ]
    assert shown(ContextWindow(1, 1), rows) == [(1, 1, False), (1, 2, True), (1, 3, False)]


def test_nothing_is_shown_twice() -> None:
    rows = [(1, 0, True), (1, 1, False), (1, 2, True), (1, 3, False), (1, 4, False), (1, 5, True)]
    assert [row[1] for row in shown(ContextWindow(5, 1), rows)] == [0, 1, 2, 3, 4, 5]


def test_it_stays_open_until_all_that_follows_is_shown() -> None:
    window = ContextWindow(0, 2)
    shown(window, [(1, 0, True)])
    assert window.is_open
    shown(window, [(1, 1, False), (1, 2, False)])
    assert not window.is_open


def test_the_oldest_is_dropped_and_counted_when_memory_runs_out() -> None:
    window = ContextWindow(10, 0, most_bytes=2000)
    found = shown(window, [*((connection, 0, False) for connection in range(9)), (8, 1, True), (0, 1, True)])
    assert found == [(8, 0, False), (8, 1, True), (0, 1, True)]
    assert window.dropped == 6
