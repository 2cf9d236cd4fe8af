"""`replay.load.filter_matches`: the sentence about a filter that matches nothing."""

from __future__ import annotations

from kdissect.exchanges.filter import ExchangeFilter
from kdissect.replay.load.filter_matches import MOST_NAMES, FilterMatches

WANTED = ExchangeFilter(topics=("nonesuch",), groups=("g",))


def test_nothing_is_said_of_an_option_that_matched_or_excluded_nothing() -> None:
    found = FilterMatches()
    found.note("--group", False)  # as by requests that name no group
    found.note_excluded("--topic", ["orders"])
    found.note("--topic", True)
    found.note_excluded("--topic", ["audit"])
    assert found.matched("--topic")
    assert not found.matched("--group")
    assert found.sentence(WANTED, 0, 0) == ""


def test_the_names_that_are_there_are_told_sorted_and_not_all_of_many() -> None:
    found = FilterMatches()
    found.note_excluded("--topic", ["orders", "au\ndit"])
    found.note_excluded("--topic", ["audit"])
    said = "nothing matches --topic nonesuch: the topics there are au\\x0adit, audit, orders"
    assert found.sentence(WANTED, 0, 0) == said
    found.note_excluded("--topic", (f"t{number:04}" for number in range(2 * MOST_NAMES)))
    said = found.sentence(WANTED, 0, 0)
    assert said.endswith("orders, t0000, t0001, t0002, t0003, t0004 and 992 or more")


def test_names_of_no_kind_and_times_have_sentences_of_their_own() -> None:
    found = FilterMatches()
    found.note_excluded("--group", [])
    said = "nothing matches --group g: the requests that it is asked about have no groups"
    assert found.sentence(WANTED, 0, 0) == said
    found = FilterMatches()
    found.note_excluded("--since", [])
    said = "--since leaves nothing: the capture is from 1970-01-01T00:00:00.000Z to 1970-01-01T00:00:01.000Z"
    assert found.sentence(WANTED, 0, 1_000_000_000) == said
