"""Facts learnt from the first request of each shape, and from them the facts of all others.

In: the first request of each shape, decoded (see `request_shapes`). Out: of the requests that need no look
the same as a look would find out: their items, their bodies if these are equal, the records that they wrote
and read. Requests of groups are looked at one by one even so, since the order between members depends on each
of them, but none is decoded.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.identifiers import ClientKey, TopicPartition
from kdissect.replay.load.policy import Refusal
from kdissect.replay.load.replay_input import ReplayInput
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.load.request_shapes import SAME_BODY
from kdissect.replay.load.request_table import ROWS_AT_ONCE
from kdissect.replay.load.retries import RetryFinder
from kdissect.replay.load.shaped_messages import FETCHED, NONE, PRODUCED, FetchedFacts, ProducedFacts
from kdissect.replay.rewrite.names import Names, Tree
from kdissect.replay.settings import Groups, ReplaySettings
from kdissect.streams.flow_state import Int64s

OF_MEMBERS = frozenset({ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.OFFSET_COMMIT})


@dataclass(frozen=True, slots=True)
class LearnedShape:
    """The first request of a shape."""

    key: int
    body: Tree
    response: Tree | None
    client: ClientKey
    refusal: Refusal | None


class LearnedShapes:
    """The shapes of a capture, as far as they were looked at."""

    def __init__(self, loaded: ReplayInput, settings: ReplaySettings) -> None:
        self._loaded = loaded
        self._full = settings.groups is Groups.FULL
        self._learned: dict[int, LearnedShape] = {}  # by the first request

    def of(self, index: int) -> LearnedShape | None:
        """Return what is known of a request that is looked at; None if it has to be decoded."""
        known = self._loaded.known
        first = int(known.first[index])
        learned = None if first == index else self._learned.get(first)
        return learned if learned is not None and learned.key in OF_MEMBERS else None

    def add(self, item: ReplayItem, body: Tree, response: Tree | None) -> None:
        """Learn from a request, which may be the first of a shape."""
        known, request = self._loaded.known, item.request
        others = known.others_like(request.index)
        if known.first[request.index] != request.index or len(others) < 2:
            return
        client = self._loaded.capture.client_host(request.connection), item.client_id
        self._learned[request.index] = LearnedShape(request.key, body, response, client, item.refusal)
        sent_commit = request.key == ApiKey.OFFSET_COMMIT and item.refusal is None
        if request.key in OF_MEMBERS and (self._full or sent_commit):
            known.mark(others[1:])

    def learn_unseen(self, retries: RetryFinder) -> None:
        """Learn from all requests that were not decoded."""
        loaded, known = self._loaded, self._loaded.known
        if known.logged is None:
            return
        unseen = known.unseen()
        again = [
            known.others_like(first)[1:] for first, each in self._learned.items() if each.key in OF_MEMBERS
        ]
        keys = loaded.items.column("key")
        for copied in (part for requests in (unseen, *again) for part in _parts(requests)):
            loaded.items.copy(copied, known.first[copied])
            same = copied[np.isin(keys[copied], list(SAME_BODY))]
            loaded.bodies.copy(same, known.first[same])
        answered_ns = loaded.items.column("answered_ns")
        for first, learned in self._learned.items():
            if learned.key == ApiKey.PRODUCE:
                for some in _parts(known.unseen_like(first)):
                    self._learn_produces(some, learned)
                for request in known.others_like(first)[-1:].tolist():
                    retries.note_last(loaded.items[first].request.connection, request)
            elif learned.key == ApiKey.FETCH and learned.refusal is None:
                for some in _parts(known.unseen_like(first)):
                    self._learn_fetches(some, learned, answered_ns)

    def _learn_produces(self, requests: Int64s, learned: LearnedShape) -> None:
        loaded, logged = self._loaded, self._loaded.known.logged
        assert logged is not None
        rows, owners = logged.rows(requests, PRODUCED)
        facts = ProducedFacts(*rows.T)
        loaded.records += int(facts.records.sum())
        loaded.record_bytes += int(facts.size.sum())
        if learned.refusal is not None or learned.response is None:
            return
        answer = learned.response
        count = len(rows) // len(requests)
        for column, partition in _partitions(answer, loaded.names, "name", "partition_responses", "index"):
            offsets, writers = facts.offset[column::count], owners[column::count]
            written = offsets != NONE
            loaded.reads.add_writes(partition, offsets[written], writers[written])

    def _learn_fetches(self, requests: Int64s, learned: LearnedShape, answered_ns: Int64s) -> None:
        loaded, logged = self._loaded, self._loaded.known.logged
        assert logged is not None
        answer = learned.response
        if answer is None:
            return
        rows, owners = logged.rows(requests, FETCHED)
        facts, count = FetchedFacts(*rows.T), len(rows) // len(requests)
        for column, partition in _partitions(answer, loaded.names, "topic", "partitions", "partition_index"):
            following, size = facts.following[column::count], facts.size[column::count]
            readers = owners[column::count]
            read = following != NONE
            loaded.reads.add_reads(
                learned.client,
                partition,
                readers[read],
                answered_ns[readers[read]],
                following[read],
                size[read],
            )


def _parts(requests: Int64s) -> Iterator[Int64s]:
    """Yield requests in parts, whose facts take little memory."""
    for begin in range(0, len(requests), ROWS_AT_ONCE):
        yield requests[begin : begin + ROWS_AT_ONCE]


def _partitions(
    response: Tree, names: Names, topic_field: str, partitions: str, number: str
) -> Iterator[tuple[int, TopicPartition]]:
    """Yield the partitions of a response whose topic has a name, with their place in it."""
    place = 0
    for topic in response.get("responses") or ():
        name = names.captured_topic(topic, topic_field)
        for each in topic[partitions]:
            if name is not None:
                yield place, (name, each[number])
            place += 1
