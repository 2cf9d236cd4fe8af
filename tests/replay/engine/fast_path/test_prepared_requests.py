"""Which requests are prepared ahead, and how far."""

from __future__ import annotations

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.engine import player
from kdissect.replay.engine.fast_path import prepared_requests
from kdissect.replay.engine.fast_path.alike_produces import AlikeProduce
from kdissect.replay.engine.fast_path.prepared_parts import PreparedRequest
from kdissect.replay.engine.fast_path.prepared_requests import PreparedRequests, can_be_prepared
from kdissect.replay.handlers.replay_context import new_context
from kdissect.replay.load.analysis import load
from kdissect.replay.settings import Pace, ReplaySettings, Timestamps
from tests.helpers.paper_cluster import PRODUCE, batch, produce, took
from tests.helpers.paper_target import MS, PaperTarget, Script, play, settings, topology
from tests.replay.engine.test_player import FIND, FOUND, asks


@pytest.mark.parametrize(("every_ms", "ready"), [(100.0, 12), (0.0, 3)])
def test_requests_are_made_ready_as_far_ahead_as_there_is_room(
    monkeypatch: pytest.MonkeyPatch, every_ms: float, ready: int
) -> None:
    taken: list[bool] = []

    class Watched(prepared_requests.PreparedRequests):
        def take(self, index: int) -> PreparedRequest | AlikeProduce | None:
            assert len(self) <= 3
            found = super().take(index)
            taken.append(found is not None)
            return found

    monkeypatch.setattr(prepared_requests, "MOST_REQUESTS", 3)
    monkeypatch.setattr(prepared_requests, "PreparedRequests", Watched)
    script = asks(Script(), [number * every_ms for number in range(12)], in_flight=12)
    paper = PaperTarget(lambda *_: FOUND)
    done = play(script.capture(), script.shelf, paper, topology(), settings(), prepared=True)
    assert done.buckets() == {"answered": 12}
    assert [body["key"] for _, _, body in done.sent(FIND)] == [f"t-group-{each}" for each in range(12)]
    assert sum(taken) == ready  # the others took their course: there was no idle moment before their turn


@pytest.mark.parametrize(("pace", "least", "most"), [(Pace.ASAP, 10, 25), (Pace.SCHEDULE, 60, 80)])
def test_without_a_schedule_few_are_made_ready_ahead(
    monkeypatch: pytest.MonkeyPatch, pace: Pace, least: int, most: int
) -> None:
    """They are prepared by sixteen, at pace asap while fewer than ten are ready."""
    ready: list[int] = []

    class Watched(prepared_requests.PreparedRequests):
        def take(self, index: int) -> PreparedRequest | AlikeProduce | None:
            ready.append(len(self))
            return super().take(index)

    monkeypatch.setattr(player, "ENOUGH_AHEAD", 10)
    monkeypatch.setattr(prepared_requests, "PATIENCE_S", 0.0)
    monkeypatch.setattr(prepared_requests, "PreparedRequests", Watched)
    script = asks(Script(), [10.0 * number for number in range(80)])
    paper = PaperTarget(lambda *_: FOUND, delay_ns=20 * MS)
    done = play(script.capture(), script.shelf, paper, topology(), settings(pace=pace), prepared=True)
    assert done.buckets() == {"answered": 80}
    assert least <= max(ready) <= most


def prepared(script: Script, asked: ReplaySettings | None = None, leaders: int = 2) -> list[bool]:
    """Return for each request whether it is prepared."""
    wanted, known = asked or settings(), topology({"t-orders": 3}, leaders)
    loaded = load(script.capture(), script.shelf, wanted)
    context = new_context(wanted, loaded, known, lambda: 0, script.shelf.get)
    made = PreparedRequests(context, loaded.items)
    made.make()
    return [made.seen(item.request.index) is not None for item in loaded.items]


def test_what_waits_for_nothing_is_prepared_and_nothing_else() -> None:
    script = Script()
    script.add(0, PRODUCE, 9, produce(batch()), took(0))
    script.add(1, PRODUCE, 9, produce(batch(), topic="elsewhere"), took(0))  # not on the target
    script.add(2, PRODUCE, 9, produce(batch() + batch()), took(0))  # two batches: two rounds
    script.add(3, FIND, 1, {"key": "g", "key_type": 0}, FOUND)
    script.add(4, ApiKey.HEARTBEAT, 4, {"group_id": "g", "generation_id": 1, "member_id": "m"})
    script.add(5, ApiKey.METADATA, 9, {"topics": None})
    assert prepared(script) == [True, False, False, True, False, True]


def test_a_partition_without_a_leader_is_left_to_the_handler() -> None:
    script = Script()
    script.add(0, PRODUCE, 9, produce(batch()), took(0))
    assert prepared(script, leaders=1) == [True]
    wanted, known = settings(), topology({"t-orders": 3})
    known.topics["t-orders"].leaders[0] = -1
    loaded = load(script.capture(), script.shelf, wanted)
    context = new_context(wanted, loaded, known, lambda: 0, script.shelf.get)
    made = PreparedRequests(context, loaded.items)
    made.make()
    assert len(made) == 0


def test_batches_whose_times_move_are_not_prepared() -> None:
    script = Script()
    script.add(0, PRODUCE, 9, produce(batch()), took(0))
    asked = settings(timestamps=Timestamps.SHIFT)
    loaded = load(script.capture(), script.shelf, asked)
    context = new_context(asked, loaded, topology({"t-orders": 3}), lambda: 0, script.shelf.get)
    assert not can_be_prepared(context, loaded.items[0])


def whole(prepared: PreparedRequest | AlikeProduce | None) -> PreparedRequest | None:
    """Return a request in its parts, whichever way it was prepared."""
    return prepared.whole() if isinstance(prepared, AlikeProduce) else prepared


def test_a_request_whose_turn_comes_first_is_prepared_then() -> None:
    script, wanted, known = Script(), settings(), topology({"t-orders": 3})
    for time_ms in range(4):
        script.add(time_ms, PRODUCE, 9, produce(batch()), took(time_ms))
    script.add(9, ApiKey.HEARTBEAT, 4, {"group_id": "g", "generation_id": 1, "member_id": "m"})
    loaded = load(script.capture(), script.shelf, wanted)
    context = new_context(wanted, loaded, known, lambda: 0, script.shelf.get)
    made, ahead = PreparedRequests(context, loaded.items), PreparedRequests(context, loaded.items)
    ahead.make()
    made.make(1)
    found = [(made.make_now(item), ahead.seen(item.request.index)) for item in loaded.items]
    assert [whole(now) == whole(earlier) for now, earlier in found] == [
        False,  # which was prepared, and is there to be taken
        *[True] * 4,
    ]
    assert made.make_now(loaded.items[1]) is not None
    assert made.make_now(loaded.items[4]) is None
    assert PreparedRequests(context).make_now(loaded.items[1]) is None


def test_leaders_that_move_make_what_is_prepared_stale() -> None:
    script, wanted, known = Script(), settings(), topology({"t-orders": 3})
    script.add(0, PRODUCE, 9, produce(batch()), took(0))
    loaded = load(script.capture(), script.shelf, wanted)
    made = PreparedRequests(new_context(wanted, loaded, known, lambda: 0, script.shelf.get), loaded.items)
    made.make()
    assert made.make_now(loaded.items[0]) is None  # it was prepared, and would have been taken
    known.turn += 1
    assert made.take(0) is None
    assert made.make_now(loaded.items[0]) is not None


def test_the_item_of_a_request_in_parts_is_there_once() -> None:
    script, asked = Script(), settings()
    for time_ms in range(3):
        script.add(time_ms, PRODUCE, 9, produce(batch()), took(0, base=time_ms))
    loaded = load(script.capture(), script.shelf, asked)
    context = new_context(asked, loaded, topology({"t-orders": 3}), lambda: 0, script.shelf.get)
    made = PreparedRequests(context, loaded.items)
    made.make()
    assert made.take_item(0) == loaded.items[0]
    assert made.take_item(0) is None
    assert isinstance(made.seen(1), AlikeProduce)
    assert made.take_item(1) is None  # which is in no need of one


def test_at_pace_asap_the_next_requests_are_prepared_with_one_that_is_wanted() -> None:
    script = Script()
    for time_ms in range(60):
        script.add(time_ms, PRODUCE, 9, produce(batch()), took(0, base=time_ms))
    for pace, ready in ((Pace.ASAP, 15), (Pace.SCHEDULE, 0)):
        asked = settings(pace=pace)
        loaded = load(script.capture(), script.shelf, asked)
        context = new_context(asked, loaded, topology({"t-orders": 3}), lambda: 0, script.shelf.get)
        made = PreparedRequests(context, loaded.items)
        assert (made.take(0) is not None) == bool(ready)
        assert len(made) >= ready
