"""Leaders on paper that answer fetches, and captures of fetches."""

from __future__ import annotations

from collections import defaultdict
from random import Random

from kdissect.replay.net.connection import Connection
from tests.helpers.paper_cluster import FETCH, batch
from tests.helpers.paper_target import PaperTarget, Script, Tree

VERSION, SESSION = 12, 700


PARTITIONS, FETCHES = 4, 60


UNKNOWN_SESSION, NOT_LEADER = 70, 6


class Sessions(PaperTarget):
    """Answers fetches in sessions of its own.

    With records now and then, with errors as often as it is told, link by link.
    """

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
                parts.append(
                    {
                        "partition_index": each["partition"],
                        "error_code": NOT_LEADER * failing,
                        "high_watermark": 1 << 20,
                        "log_start_offset": 0,
                        "records": records,
                    }
                )
            said.append({"topic": topic["topic"], "partitions": parts})
        session = body["session_id"] if body["session_epoch"] else len(asked)
        return {"session_id": session, "responses": said}


def fetch(
    session: int, epoch: int, offsets: dict[int, int], topic: str = "orders", gone: tuple[int, ...] = ()
) -> Tree:
    named = [
        {"partition": each, "fetch_offset": at, "partition_max_bytes": 1 << 20}
        for each, at in offsets.items()
    ]
    topics = [{"topic": topic, "partitions": named}] if named else []
    forgotten = [{"topic": topic, "partitions": list(gone)}] if gone else []
    return {
        "max_wait_ms": 5,
        "min_bytes": 1,
        "session_id": session,
        "session_epoch": epoch,
        "topics": topics,
        "forgotten_topics_data": forgotten,
        "rack_id": "",
    }


def script() -> Script:
    """A session of four partitions of which some are read no more.

    A fetch without session; an older session; an unknown topic.
    """
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
            made.add(
                epoch + 0.3,
                FETCH,
                VERSION,
                fetch(0, -1, {0: 5}, "missing"),
                {"responses": []},
                connection=4,
                client_id="d",
            )
    return made
