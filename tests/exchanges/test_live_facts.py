"""While a capture is written, an exchange waits for what began before it, but not for ever."""

from kdissect.exchanges.live_facts import HOLD_NS, LiveFacts
from kdissect.exchanges.watermark import NEVER


def test_nothing_is_complete_behind_the_latest_packet() -> None:
    assert LiveFacts(lambda: 5).complete_ns(NEVER) == 5


def test_what_is_unfinished_holds_up_what_began_later() -> None:
    assert LiveFacts(lambda: HOLD_NS).complete_ns(7) == 7


def test_it_does_not_hold_up_for_ever() -> None:
    assert LiveFacts(lambda: 10 * HOLD_NS).complete_ns(7) == 9 * HOLD_NS
