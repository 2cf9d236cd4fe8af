"""`replay.load.unseen_records`: facts tell what the responses of unseen requests would tell."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.load.captured_reads import FIRST_INCARNATION, CapturedReads
from kdissect.replay.load.known_requests import KnownRequests
from kdissect.replay.load.logged_shapes import RequestFacts
from kdissect.replay.load.replay_input import ReplayInput
from kdissect.replay.load.replay_items import ReplayItems
from kdissect.replay.load.request_shapes import NO_SHAPE
from kdissect.replay.load.requests import Capture
from kdissect.replay.load.shaped_messages import NONE, FetchedFacts, ProducedFacts
from kdissect.replay.load.unseen_records import UnseenRecords
from kdissect.replay.rewrite.names import Names
from kdissect.replay.settings import ReplaySettings

KEYS = [ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.FETCH, ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.PRODUCE]
SHAPES = [0, NO_SHAPE, 1, 0, 1, 2]  # nothing is known of the last one
ANSWERED_NS = [10, 20, 30, 40, 50, 60]
CLIENT = "host", "client"
IDLE = "host", "another"


class Columns(ReplayItems):
    """Items that have no more than two columns."""

    def column(self, name: str, first: int = 0, stop: int | None = None) -> NDArray[Any]:
        return np.array({"key": KEYS, "answered_ns": ANSWERED_NS}[name])[first:stop]


class Shaped(KnownRequests):
    """Requests of which the shape is known."""

    def __init__(self) -> None:
        self.shapes = np.array(SHAPES, np.int32)


def produced(offset: int) -> ProducedFacts:
    return ProducedFacts(0, 5, 0, 0, 3, 100, offset)


FACTS: list[list[ProducedFacts | FetchedFacts]] = [
    [produced(7), produced(8)],
    [],
    [FetchedFacts(9, 500), FetchedFacts(NONE, 0)],
    [produced(NONE), produced(11)],
    [FetchedFacts(NONE, 0), FetchedFacts(12, 600)],
    [produced(77)],
]


def test_facts_tell_what_was_written_and_read() -> None:
    names = Names(ReplaySettings(target=()), {})
    loaded = ReplayInput(Capture((), {}, [], 0, 0), names)
    loaded.items, loaded.known = Columns([]), Shaped()
    records, reads = UnseenRecords(loaded), loaded.reads
    answers = [{"index": number} for number in (0, 1)]
    records.learn(0, ApiKey.PRODUCE, {"responses": [{"name": "t", "partition_responses": answers}]}, CLIENT)
    fetched = [{"partition_index": number} for number in (0, 1)]
    records.learn(1, ApiKey.FETCH, {"responses": [{"topic": "t", "partitions": fetched}]}, CLIENT)
    values = [[value for row in rows for value in row] for rows in FACTS]
    edges = np.array([0, *accumulate(map(len, values))])
    facts = RequestFacts(0, edges, np.array([value for each in values for value in each]))
    reads._committed.add((CLIENT, ("t", 1)))
    records.add(facts, np.arange(6))
    assert (loaded.records, loaded.record_bytes) == (15, 500)
    assert [reads.reads(index) for index in range(6)] == [
        {},
        {},
        {("t", 0): (9, 500)},
        {},
        {("t", 1): (12, 600)},
        {},
    ]
    assert written(reads, 0) == [(7, 0)]
    assert written(reads, 1) == [(8, 0), (11, 3)]
    assert reads._readers[CLIENT, ("t", 1)][1].tolist() == [4]
    assert not reads.is_committed(IDLE, ("t", 1))
    assert list(reads._readers) == [(CLIENT, ("t", 1))]  # nobody asks who read the other one


def written(reads: CapturedReads, partition: int) -> list[tuple[int, int]]:
    writers = reads._writers[("t", partition), FIRST_INCARNATION]
    return list(zip(writers.offsets, writers.requests, strict=True))
