"""Fetches that were looked at before their turn say the same as those that were not: positions, sessions, leaders, refusals."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

import pytest

from kdissect.replay.disposition import Disposition
from kdissect.replay.net.connection import Connection
from kdissect.replay.settings import Offsets
from tests.helpers.paper_target import PaperTarget, Script, Tree, play, settings, topology
from tests.replay.test_courses import FETCH, batch

VERSION, SESSION = 12, 700
PARTITIONS, FETCHES = 4, 60
UNKNOWN_SESSION, NOT_LEADER = 70, 6


class Sessions(PaperTarget):
    """Answers fetches in sessions of its own: with records now and then, with errors as often as it is told, link by link."""

    def __init__(self, errors: float) -> None:
        super().__init__(lambda *_: {})
        self.errors = errors
        self.said: dict[tuple[object, int], list[Tree]] = defaultdict(list)  # what was asked on each link
        self._random: dict[tuple[object, int], Random] = {}

    def answer(self, link: Connection, key: int, version: int, body: Tree) -> Tree | None:
        if key != FETCH:
            return super().answer(link, key, version, body)
        where = link.owner, link.node
        random, asked = self._random.setdefault(where, Random(str(where))), self.said[where]
        asked.append(body)
        failing = random.random() < self.errors
        if failing and random.random() < 0.5:
            return {"error_code": UNKNOWN_SESSION, "session_id": 0, "responses": []}
        said: list[Tree] = []
        for topic in body["topics"]:
            parts = []
            for each in topic["partitions"]:
                some = not failing and random.random() < 0.5
                records = len(asked).to_bytes(8, "big") + batch()[8:] if some else None
                parts.append({"partition_index": each["partition"], "error_code": NOT_LEADER * failing, "high_watermark": 1 << 20, "log_start_offset": 0, "records": records})  # fmt: skip
            said.append({"topic": topic["topic"], "partitions": parts})
        session = body["session_id"] if body["session_epoch"] else len(asked)
        return {"session_id": session, "responses": said}


def fetch(session: int, epoch: int, offsets: dict[int, int], topic: str = "orders", gone: tuple[int, ...] = ()) -> Tree:  # fmt: skip
    named = [{"partition": each, "fetch_offset": at, "partition_max_bytes": 1 << 20} for each, at in offsets.items()]  # fmt: skip
    topics = [{"topic": topic, "partitions": named}] if named else []
    forgotten = [{"topic": topic, "partitions": list(gone)}] if gone else []
    return {"max_wait_ms": 5, "min_bytes": 1, "session_id": session, "session_epoch": epoch, "topics": topics, "forgotten_topics_data": forgotten, "rack_id": ""}  # fmt: skip


def script() -> Script:
    """A session of four partitions of which some are read no more; a fetch without session; an older session; an unknown topic."""
    made, random = Script(), Random(3)
    opened: Tree = {"session_id": SESSION, "responses": []}
    made.add(0, FETCH, VERSION, fetch(0, 0, dict.fromkeys(range(PARTITIONS), 0)), opened)
    for epoch in range(1, FETCHES):
        moved = {each: epoch for each in range(PARTITIONS) if random.random() < 0.3}
        gone = (epoch % PARTITIONS,) if epoch % 13 == 0 else ()
        asked = fetch(SESSION, epoch, {each: at for each, at in moved.items() if each not in gone}, gone=gone)
        made.add(epoch, FETCH, VERSION, asked, opened)
        if epoch % 10 == 0:
            made.add(
                epoch + 0.1,
                FETCH,
                VERSION,
                fetch(0, -1, {1: epoch}),
                {"responses": []},
                connection=2,
                client_id="b",
            )
            made.add(epoch + 0.2, FETCH, VERSION, fetch(99, epoch, {}), opened, connection=3, client_id="c")
            made.add(epoch + 0.3, FETCH, VERSION, fetch(0, -1, {0: 5}, "missing"), {"responses": []}, connection=4, client_id="d")  # fmt: skip
    return made


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize(
    ("leaders", "took_ms", "speed", "wait_ms"),
    [(1, 7, 1, 500), (2, 7, 1, 5), (2, 0.4, 1, 0), (2, 70, 2, 20), (2, 499, 1, 200), (2, 900, 1, 500), (2, None, 1, 500)],
)  # fmt: skip
def test_several_leaders_wait_no_longer_than_the_one_that_was_captured(
    leaders: int, took_ms: float | None, speed: float, wait_ms: int, prepared: bool
) -> None:
    """Of what one broker answers when any partition has something, those that have nothing would else hold up all."""
    body = fetch(0, -1, {0: 3, 1: 5}) | {"max_wait_ms": 500 * speed}
    made = Script()
    answer: Tree | None = None if took_ms is None else {"responses": []}
    made.add(0, FETCH, VERSION, body, answer, took_ms=took_ms or 0)
    paper, target = Sessions(0.0), topology({"t-orders": 2}, leaders)
    done = play(made.capture(), made.shelf, paper, target, settings(speed=speed), prepared=prepared)
    assert done.buckets() == {"answered": 1}
    asked = [each for bodies in paper.said.values() for each in bodies]
    assert [each["max_wait_ms"] for each in asked] == [wait_ms] * leaders


@pytest.mark.parametrize(("session", "epoch"), [(0, -1), (SESSION, 1)])
@pytest.mark.parametrize("prepared", [False, True])
def test_topics_that_come_again_behind_others_keep_their_offsets(
    session: int, epoch: int, prepared: bool
) -> None:
    """As librdkafka names them, which goes on behind the partition that it was given last."""
    order = [("orders", 2), ("audit", 1), ("orders", 0), ("audit", 0), ("orders", 1)]
    begin, later = fetch(0, 0, {}), fetch(session, epoch, {})
    for body, at in ((begin, 0), (later, 1000)):
        for number, (topic, partition) in enumerate(order):
            body["topics"] += fetch(0, 0, {partition: at + number}, topic)["topics"]
    made = Script()
    opened: Tree = {"session_id": SESSION, "responses": []}
    made.add(0, FETCH, VERSION, begin, opened)
    made.add(5, FETCH, VERSION, later, opened)
    paper, target = Sessions(0.0), topology({"t-orders": 3, "t-audit": 2})
    asked = settings(offsets=Offsets.IDENTITY)
    done = play(made.capture(), made.shelf, paper, target, asked, prepared=prepared)
    assert done.buckets() == {"answered": 2}
    said = [{(topic["topic"], each["partition"]): each["fetch_offset"] for topic in body["topics"] for each in topic["partitions"]}
            for body in next(iter(paper.said.values()))]  # fmt: skip
    assert said == [
        {(f"t-{topic}", partition): at + number for number, (topic, partition) in enumerate(order)}
        for at in (0, 1000)
    ]


@pytest.mark.parametrize("errors", [0.0, 0.2])
@pytest.mark.parametrize("leaders", [1, 2])
def test_what_was_looked_at_before_its_turn_is_asked_alike(leaders: int, errors: float) -> None:
    found: list[Any] = []
    for prepared in (False, True):
        made, target = script(), topology({"t-orders": PARTITIONS}, leaders)
        paper = Sessions(errors)
        done = play(made.capture(), made.shelf, paper, target, settings(), prepared=prepared)
        ends = [(each.index, each.bucket, each.reason, each.parts) for each in done.player.results]
        found.append((sorted(ends), paper.said, done.context.notes.by_request))
    assert found[0] == found[1]
    ends, sent, _ = found[1]
    skipped = [bucket for _, bucket, _, _ in ends if bucket is not Disposition.ANSWERED]
    assert skipped.count(Disposition.HEADLESS) == skipped.count(Disposition.DEPENDENCY) == len(skipped) / 2 == FETCHES // 10 - 1  # fmt: skip
    assert len(sent) == leaders + 1
    assert sum(map(len, sent.values())) >= FETCHES
