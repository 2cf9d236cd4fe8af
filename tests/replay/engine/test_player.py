"""Lines on a clock that the test moves.

Order, pace, pipelining, deadlines, and that every request ends in one bucket.
"""

import dataclasses
from itertools import pairwise
from random import Random

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.disposition import (
    Disposition,
    Unaccounted,
    check,
)
from kdissect.replay.net.connection import Connection
from kdissect.replay.settings import Address, Breaker, Caps, Pace
from tests.helpers.paper_target import MS, PaperTarget, Script, play, replay, settings, topology

FIND = 10  # FindCoordinator: a read that needs nothing
NOT_THERE = {"error_code": 15, "node_id": -1, "host": "", "port": -1}
FOUND = {"error_code": 0, "node_id": 1, "host": "127.0.0.1", "port": 9092}
NODES = {
    "cluster_id": "target",
    "brokers": [{"node_id": node, "host": "127.0.0.1", "port": 9091 + node} for node in (1, 2)],
    "topics": [],
}
"""The answer to a replayer that asks for leaders again, since a connection was refused."""


def asks(script: Script, times_ms: list[float], **how: object) -> Script:
    for number, at_ms in enumerate(times_ms):
        body = {"key": f"group-{number}", "key_type": 0}
        script.add(at_ms, FIND, 1, body, FOUND, **how)  # type: ignore[arg-type]
    return script


def test_requests_are_sent_at_their_captured_times() -> None:
    done = replay(asks(Script(), [0, 10, 15, 500]), lambda *_: FOUND)
    times = [time for time, _, _ in done.sent(FIND)]
    assert times[1:] == [10 * MS, 15 * MS, 500 * MS]
    assert times[0] <= 3 * MS  # connecting and the handshake
    assert done.buckets() == {"answered": 4}


@pytest.mark.parametrize(("speed", "last"), [(0.5, 1000), (2.0, 250), (100.0, 5)])
def test_speed_divides_time(speed: float, last: int) -> None:
    done = replay(asks(Script(), [0, 100, 500]), lambda *_: FOUND, settings(speed=speed))
    assert done.sent(FIND)[-1][0] == last * MS


def test_no_more_is_in_flight_than_in_the_capture() -> None:
    slow = replay(asks(Script(), [0, 1, 2, 3]), lambda *_: FOUND, delay_ns=50 * MS)
    times = [time for time, _, _ in slow.sent(FIND)]
    assert all(after - before >= 50 * MS for before, after in pairwise(times))
    assert {result.cause for result in list(slow.player.results)[1:]} == {"in-flight cap"}
    both = replay(asks(Script(), [0, 1, 2, 3], in_flight=4), lambda *_: FOUND, delay_ns=50 * MS)
    times = [time for time, _, _ in both.sent(FIND)]
    assert times[-1] - times[0] <= 3 * MS


def test_order_is_kept_on_each_connection() -> None:
    script = Script()
    for number in range(40):
        body = {"key": f"{number % 3}-{number}", "key_type": 0}
        script.add(number // 7, FIND, 1, body, FOUND, connection=number % 3, in_flight=3)
    done = replay(script, lambda *_: FOUND, settings(pace=Pace.ASAP))
    keys = [body["key"] for _, _, body in done.sent(FIND)]
    for connection in range(3):
        mine = [key for key in keys if key.startswith(f"t-{connection}-")]
        assert mine == [f"t-{connection}-{number}" for number in range(40) if number % 3 == connection]


def test_thinking_starts_at_the_answer() -> None:
    script = asks(Script(), [0, 20, 120], took_ms=10)
    done = replay(script, lambda *_: FOUND, settings(pace=Pace.THINK), delay_ns=70 * MS)
    times = [time for time, _, _ in done.sent(FIND)]
    assert times[1] - times[0] == (70 + 10) * MS  # answered after 70, then thought for 20 - 10
    assert times[2] - times[1] == (70 + 90) * MS


def test_silence_ends_at_the_deadline_and_the_line_goes_on() -> None:
    silent = {"t-group-1"}
    done = replay(
        asks(Script(), [0, 10, 20, 30]),
        lambda _key, _version, body: None if body["key"] in silent else FOUND,
        settings(answer_deadline_s=2.0),
    )
    assert done.buckets() == {"answered": 3, "timed out": 1}
    assert list(done.player.results)[-1].received_ns is not None


def test_refused_connections_stop_the_run() -> None:
    known = topology()
    script = asks(Script(), [float(at) for at in range(30)])
    done = replay(script, lambda *_: FOUND, settings(breaker=Breaker(refusals=5)), target=known, refuse=True)
    assert "refused" in done.player.stopped
    assert sum(done.buckets().values()) == 30
    assert 3 <= done.buckets()["failed to send"] <= 6  # questions for leaders are refused, too


class HalfDead(PaperTarget):
    """One whose node 2 refuses connections for two seconds."""

    def connect(self, link: Connection, address: Address) -> None:
        self.refuse = link.node == 2 and self.now_ns < 2000 * MS
        super().connect(link, address)


@pytest.mark.parametrize("pace", [Pace.THINK, Pace.ASAP])
def test_a_broker_that_is_down_costs_one_request_that_any_answers(pace: Pace) -> None:
    """The connection that would go to it asks the other one from then on."""
    script = asks(Script(), [float(at) for at in range(300)], connection=1)  # goes to node 2
    asks(script, [at * 100.0 for at in range(40)], connection=2)
    paper = HalfDead(lambda key, *_: NODES if key == ApiKey.METADATA else FOUND)
    done = play(script.capture(), script.shelf, paper, topology(leaders=2), settings(pace=pace))
    assert not done.player.stopped
    assert done.buckets() == {"failed to send": 1, "answered": 339}


def test_the_breaker_stops_on_errors_that_the_capture_did_not_have() -> None:
    wanted = settings(breaker=Breaker(error_share=0.5, least_answers=20))
    done = replay(asks(Script(), [float(at) for at in range(100)]), lambda *_: NOT_THERE, wanted)
    assert "failed that did not in the capture" in done.player.stopped
    assert 20 <= done.buckets()["answered"] <= 25
    fine = replay(asks(Script(), [float(at) for at in range(100)]), lambda *_: FOUND, wanted)
    assert not fine.player.stopped


def test_interrupting_drains_and_accounts_for_the_rest() -> None:
    done = replay(asks(Script(), [0, 10, 1000, 2000]), lambda *_: FOUND, interrupt_ns=500 * MS)
    assert done.player.stopped == "interrupted"
    assert done.buckets() == {"answered": 2, "policy": 2}
    assert {result.reason for result in done.player.results if result.bucket is Disposition.POLICY} == {
        "the run ended before: interrupted"
    }


def test_the_breaker_stops_when_the_target_throttles() -> None:
    wanted = settings(breaker=Breaker(throttled_share=0.5, least_answers=20))
    throttled = FOUND | {"throttle_time_ms": 1}
    done = replay(asks(Script(), [float(at) for at in range(100)]), lambda *_: throttled, wanted)
    assert "the target throttled" in done.player.stopped
    assert 20 <= done.buckets()["answered"] <= 25


class Busy(PaperTarget):
    """Between two requests a replayer on this wire has no processor for a while."""

    def take(self, link: Connection, frame: bytes) -> None:
        super().take(link, frame)
        self.now_ns += 100 * MS


def test_the_breaker_stops_a_replayer_that_cannot_keep_up() -> None:
    script = Script()
    for connection in range(300):
        asks(script, [10.0 * connection], connection=connection)
    asked = settings(breaker=Breaker(lag_s=1.0))
    done = play(script.capture(), script.shelf, Busy(lambda *_: FOUND), topology(), asked)
    assert "behind its own schedule" in done.player.stopped
    assert sum(done.buckets().values()) == 300
    assert done.buckets()["policy"] > 100


def test_caps_bound_rate_connections_and_duration() -> None:
    slowed = replay(asks(Script(), [0.0] * 11), lambda *_: FOUND, settings(caps=Caps(requests_per_second=10)))
    assert slowed.sent(FIND)[-1][0] - slowed.sent(FIND)[0][0] >= 990 * MS
    script = Script()
    for number in range(6):
        asks(script, [0, 100], connection=number)
    few = replay(script, lambda *_: FOUND, settings(caps=Caps(connections=2)))
    assert few.player.outcome().peak_connections == 2
    assert few.buckets() == {"answered": 12}
    cut = replay(asks(Script(), [0, 100, 5000]), lambda *_: FOUND, settings(caps=Caps(duration_s=1)))
    assert "--max-duration" in cut.player.stopped
    short = replay(asks(Script(), [0, 100, 200, 300]), lambda *_: FOUND, settings(caps=Caps(bytes_in_all=50)))
    assert "--max-bytes" in short.player.stopped
    assert short.buckets() == {"answered": 2, "policy": 2}  # of 28 bytes each


def test_whoever_waits_behind_a_cap_is_late_by_the_cap() -> None:
    """Else the replayer would be called too slow for what it was told not to do."""
    script = Script()
    for number in range(2):
        asks(script, [0, 100, 200, 300], connection=number, in_flight=4)
    done = replay(script, lambda *_: FOUND, settings(caps=Caps(connections=1)), delay_ns=5 * MS)
    late = [result for result in done.player.results if (result.lag_ns or 0) > 10 * MS]
    assert len(late) == 4  # of the second connection, which could not begin before the first one had ended
    assert {result.cause for result in late} == {"connection cap"}


def test_a_throttle_silences_the_connection_and_is_the_cause_of_lag() -> None:
    answers = iter([FOUND | {"throttle_time_ms": 300}, FOUND, FOUND])
    done = replay(asks(Script(), [0, 10, 20], in_flight=3), lambda *_: next(answers))
    times = [time for time, _, _ in done.sent(FIND)]
    assert times[1] >= times[0] + 300 * MS
    assert "throttle" in {result.cause for result in done.player.results}


def test_every_request_ends_in_one_bucket_whatever_happens() -> None:
    for seed in range(25):
        chance = Random(seed)
        script = Script()
        for number in range(60):
            connection, kind = chance.randrange(6), chance.random()
            at = number * chance.choice([0, 1, 5])
            if kind < 0.6:
                asks(script, [at], connection=connection, in_flight=chance.randrange(1, 4))
            elif kind < 0.8:
                script.add(
                    at,
                    chance.choice([18, 27, 51, 57, 20, 64]),
                    0,
                    {},
                    None,
                    connection=connection,
                    raw=b"\0\x12\0\0\0\0\0\1\0\0",
                )
            else:
                script.add(
                    at, FIND, 1, {}, None, connection=connection, raw=chance.randbytes(chance.randrange(30))
                )
        asked = settings(answer_deadline_s=0.5, pace=chance.choice(list(Pace)))
        done = replay(script, lambda *_, chance=chance: FOUND if chance.random() < 0.9 else None, asked)
        indices = sorted(result.index for result in done.player.results)
        assert indices == list(range(60))
        check(60, {Disposition(name): count for name, count in done.buckets().items()})
    with pytest.raises(Unaccounted):
        check(61, {Disposition.ANSWERED: 60})


def test_settings_do_not_show_the_password() -> None:
    from kdissect.replay.settings import Credentials

    shown = repr(dataclasses.replace(settings(), credentials=Credentials("PLAIN", "me", "hunter2")))
    assert "hunter2" not in shown
