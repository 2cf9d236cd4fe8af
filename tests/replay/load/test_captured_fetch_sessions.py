"""`replay.load.captured_fetch_sessions`, against a target on paper: captured and older ones."""

from __future__ import annotations

from kdissect.exchanges.filter import ExchangeFilter
from kdissect.replay.load.captured_fetch_sessions import CapturedFetchSessions
from tests.helpers.paper_cluster import FETCH, Cluster, orders
from tests.helpers.paper_groups import at_offset, fetch, fetched
from tests.helpers.paper_target import MS, START, Script, replay, settings, topology
from tests.helpers.rewriting_cases import fetch as fetch_body
from tests.helpers.rewriting_cases import names


def test_captured_sessions_are_known_in_full() -> None:
    sessions = CapturedFetchSessions(names())
    full, said, _ = sessions.follow(sessions.read("a:1", fetch_body(0, 0, {0: 1, 1: 2}), issued=9)) or (
        {},
        {},
        [],
    )
    assert set(full) == set(said) == {("orders", 0), ("orders", 1)}
    full, _, gone = sessions.follow(sessions.read("a:1", fetch_body(9, 1, {1: 5, 2: 0}, (0,)), issued=9)) or (
        {},
        {},
        [],
    )
    assert gone == [("orders", 0)]
    assert set(full) == {("orders", 1), ("orders", 2)}
    assert full["orders", 1]["fetch_offset"] == 5
    # Another broker's, or older than the capture.
    assert sessions.follow(sessions.read("b:1", fetch_body(9, 1, {}), issued=9)) is None


def test_a_session_older_than_the_capture_is_known_by_what_it_brought() -> None:
    script = Script()
    fetch(script, 0, 55, 7, {})
    fetch(script, 20, 55, 8, {}, {("orders", 0): (at_offset(3), 4), ("orders", 1): (b"", 6)})
    fetch(script, 40, 55, 9, {("orders", 0): 4, ("orders", 2): 1})
    fetch(script, 60, 56, 3, {}, connection=2)  # nothing is ever told of this one
    done = replay(script, Cluster(), settings(offsets="identity"), target=orders())
    assert done.loaded.older_sessions["10.0.0.1:9092", 55].keys() == {("orders", 0), ("orders", 1)}
    assert fetched(done)[0] == {0: 3, 1: 6}
    assert done.sent(FETCH)[0][2]["session_epoch"] == 0
    assert fetched(done)[2] == {0: 4, 1: 6, 2: 1}  # the target on paper keeps no sessions: all is said again
    assert done.buckets() == {"answered": 3, "headless": 1}
    assert done.loaded.items[3].refusal is not None


def test_a_session_opened_before_the_chosen_time_is_known_in_full() -> None:
    script = Script()
    fetch(script, 0, 0, 0, {("orders", 0): 10, ("orders", 1): 20, ("bills", 0): 5})
    fetch(script, 20, 900, 1, {("orders", 0): 11})
    fetch(script, 40, 900, 2, {})
    script.exclude(lambda request: request.first_ns < START + 30 * MS, "--since")
    orders_only = settings(offsets="identity", filter=lambda _start_ns: ExchangeFilter(topics=("orders",)))
    done = replay(script, Cluster(), orders_only, target=topology({"t-orders": 4, "t-bills": 1}))
    assert fetched(done) == [{0: 11, 1: 20}]
    assert done.buckets() == {"policy": 2, "answered": 1}
