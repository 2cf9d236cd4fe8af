"""`replay.engine.fast_path.alike_produces`: requests that are prepared as those of the plain way."""

from __future__ import annotations

import dataclasses
from contextlib import closing

import numpy as np
import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.engine.fast_path import prepared_requests
from kdissect.replay.engine.fast_path.alike_produces import AlikeProduce, AlikeProduces
from kdissect.replay.engine.fast_path.prepared_requests import PreparedRequests
from kdissect.replay.engine.run import Replay
from kdissect.replay.handlers.replay_context import new_context
from kdissect.replay.load.analysis import load
from kdissect.replay.load.replay_items import ReplayItems
from kdissect.replay.settings import DRY_CLUSTER, DRY_TARGET, Groups, Pace, ReplaySettings, Timestamps
from tests.helpers.conversations import CAPTURES
from tests.helpers.paper_cluster import PRODUCE, batch, produce, took
from tests.helpers.paper_target import Script, settings, topology
from tests.replay.engine.fast_path.test_prepared_requests import whole


@pytest.mark.parametrize("capture", ["steady", "transactions", "broker-restart"])
@pytest.mark.parametrize("block", [1, 256])
def test_recorded_requests_are_prepared_as_in_the_plain_way(
    capture: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared_requests, "LARGEST_BLOCK", block)
    asked = ReplaySettings(
        (DRY_TARGET,), dry_partitions=1, known_target=DRY_CLUSTER, groups=Groups.OFF, pace=Pace.ASAP
    )
    asked = dataclasses.replace(asked, topic_map={"audit": "a-much-longer-name-of-the-topic"})
    with closing(Replay(asked, [str(CAPTURES / f"{capture}.pcapng")])) as replay:
        replay.learn()

        def prepared() -> tuple[list[object], object, int]:
            context = replay.context()
            made = PreparedRequests(context, replay.loaded.items)
            made.make()
            indices = range(len(replay.loaded.items))
            found = [made.seen(each) for each in indices]
            notes = [context.notes.by_request.get(each) for each in indices]
            return list(map(whole, found)), notes, sum(isinstance(each, AlikeProduce) for each in found)

        requests, notes, alike = prepared()
        produces = sum(item.request.key == ApiKey.PRODUCE for item in replay.loaded.items)
        assert alike > produces / 3
        monkeypatch.setattr(AlikeProduces, "_search", lambda _self, columns: [None] * len(columns[0]))
        assert prepared() == (requests, notes, alike)  # one by one
        monkeypatch.setattr(AlikeProduces, "find", lambda *_: None)
        assert prepared() == (requests, notes, 0)


def among(made: PreparedRequests, items: ReplayItems, first: int = 0) -> dict[int, AlikeProduce]:
    """Return those of some items that are found, by their places."""
    found = made._alike.among(items, np.arange(first, len(items)), 1 << 20)
    return {place: alike for place, alike in found if alike is not None}


def made_alike(script: Script, asked: ReplaySettings) -> dict[int, AlikeProduce]:
    """Return those of all requests that are like the first one, which is prepared in the plain way."""
    loaded = load(script.capture(), script.shelf, asked)
    context = new_context(asked, loaded, topology({"t-orders": 3}), lambda: 0, script.shelf.get)
    made = PreparedRequests(context, loaded.items)
    made.make(1)
    return among(made, loaded.items)


def test_requests_of_another_form_are_not_taken_for_those_like_an_earlier_one() -> None:
    script = Script()
    script.add(0, PRODUCE, 9, produce(batch()), took(0, base=0))
    script.add(1, PRODUCE, 9, produce(batch(records=7)), took(0, base=1))
    script.add(2, PRODUCE, 9, produce(b"", batch()), took(0, base=2))
    script.add(3, PRODUCE, 9, produce(batch(), topic="elsewhere"), took(0, base=3))
    script.add(4, PRODUCE, 9, produce(batch() + batch()), took(0, base=4))
    script.add(5, PRODUCE, 9, produce(batch()), took(0, base=5), client_id="another")
    script.add(6, PRODUCE, 8, produce(batch()), took(0, base=6))
    script.add(7, PRODUCE, 9, produce(batch()), took(0, base=7), connection=2)
    script.add(8, PRODUCE, 9, produce(batch()) | {"acks": 1}, took(0, base=8))
    script.add(9, PRODUCE, 9, produce(batch(records=200)), took(0, base=9))
    script.add(10, PRODUCE, 9, produce(batch(records=3)))  # without an answer
    script.add(11, PRODUCE, 9, produce(batch(records=4)), took(3, base=11))  # refused
    found = made_alike(script, settings())
    assert {place: alike.offset for place, alike in found.items()} == {0: 0, 1: 1, 9: 9}
    assert not made_alike(script, settings(timestamps=Timestamps.SHIFT))


def test_a_request_that_waits_for_another_one_is_not_found() -> None:
    script = Script()
    for number in range(4):
        script.add(number, PRODUCE, 9, produce(batch()), took(0, base=number))
    asked = settings()
    loaded = load(script.capture(), script.shelf, asked)
    loaded.after[2] = {0}
    loaded.retries[3] = {("orders", 0): (1,)}
    context = new_context(asked, loaded, topology({"t-orders": 3}), lambda: 0, script.shelf.get)
    made = PreparedRequests(context, loaded.items)
    made.make()
    assert [isinstance(made.seen(each), AlikeProduce) for each in range(4)] == [False, True, False, False]


def test_a_target_that_speaks_other_versions_ends_what_was_learnt() -> None:
    script = Script()
    for number in range(3):
        script.add(number, PRODUCE, 9, produce(batch()), took(0, base=number))
    asked, known = settings(), topology({"t-orders": 3})
    loaded = load(script.capture(), script.shelf, asked)
    context = new_context(asked, loaded, known, lambda: 0, script.shelf.get)
    made = PreparedRequests(context, loaded.items)
    made.make(1)
    assert len(among(made, loaded.items, 1)) == 2
    known.versions[PRODUCE] = (0, 8)
    assert not among(made, loaded.items, 1)


def test_a_block_ends_where_its_frames_have_many_bytes() -> None:
    script = Script()
    for number in range(6):
        script.add(number, PRODUCE, 9, produce(batch(records=20)), took(0, base=number))
    asked = settings()
    loaded = load(script.capture(), script.shelf, asked)
    context = new_context(asked, loaded, topology({"t-orders": 3}), lambda: 0, script.shelf.get)
    size = script.requests[0].frame.size
    for most, count in ((0, 1), (size, 1), (3 * size, 3), (3 * size + 1, 3), (9 * size, 5)):
        found = AlikeProduces(context).among(loaded.items, np.arange(1, 6), most)
        assert [place for place, _ in found] == list(range(1, 1 + count))
