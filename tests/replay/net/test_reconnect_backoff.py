"""Pauses grow with each failure, and a connection that was made ends them."""

from kdissect.replay.net.reconnect_backoff import FIRST_NS, LONGEST_NS, ReconnectBackoff


def test_pauses_double_up_to_the_longest() -> None:
    backoff, now_ns, pauses = ReconnectBackoff(), 7, []
    assert backoff.end_ns("owner", 1) == 0
    for _ in range(7):
        backoff.failed("owner", 1, now_ns)
        pauses.append(backoff.end_ns("owner", 1) - now_ns)
        now_ns = backoff.end_ns("owner", 1)
    assert pauses == [FIRST_NS << number for number in range(5)] + [LONGEST_NS] * 2
    assert backoff.end_ns("owner", 2) == backoff.end_ns("other", 1) == 0


def test_a_connection_that_was_made_ends_them() -> None:
    backoff = ReconnectBackoff()
    backoff.failed("owner", 1, 0)
    backoff.failed("owner", 1, 0)
    backoff.made("owner", 1)
    assert backoff.end_ns("owner", 1) == 0
    backoff.failed("owner", 1, 0)
    assert backoff.end_ns("owner", 1) == FIRST_NS
