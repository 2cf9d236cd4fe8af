"""Exchanges as the shapes of a log need them: their bytes, the partitions that they name, and their facts.

In: a batch of exchanges with the columns of its requests and responses. Out: what can be read of them at all,
bytes that are equal for messages that name the same partitions, and facts as columns (`ProducedFacts`,
`FetchedFacts`). Names become hashes, since names of one batch are numbers that the next batch does not know.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdissect.array_types import Int64s
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import decode_request, decode_response
from kdissect.protocol.columnar.vm_state import Reason
from kdissect.protocol.records.batches import LAST_OFFSET_DELTA_AT, following_offset
from kdissect.protocol.schema.registry import is_known
from kdissect.replay.load.frame_places import ranges
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import ANSWERED, NO_ANSWER
from kdissect.tables.coded_columns import coded_spans, coded_uuids
from kdissect.tables.message_columns import MessageColumns

NONE = -1  # for an offset that is not there
REPLACED = "\ufffd"  # in a name that is not UTF-8, which may stand for another one


class ProducedFacts(NamedTuple):
    """The columns of the facts of a Produce request, a row for each partition that it names."""

    partition: Any  # a hash of topic and number
    producer: Any  # the id of the first batch; below NONE for a client without one, by its client id
    epoch: Any
    sequence: Any
    records: Any
    size: Any  # bytes of the records
    offset: Any  # of the first record, by the response; NONE if it was not written


class FetchedFacts(NamedTuple):
    """The columns of the facts of a Fetch request, a row for each partition of its response."""

    following: Any  # the offset behind the last whole batch; NONE without one
    size: Any  # bytes of the records


PRODUCED, FETCHED = len(ProducedFacts._fields), len(FetchedFacts._fields)
MIX = np.uint64(0x9E3779B97F4A7C15)  # spreads the numbers of a topic's partitions


class MessageSide:
    """The requests or the responses of a part: what can be read, and rows of partitions by exchange."""

    def __init__(self, batch: ExchangeBatch, columns: MessageColumns, hashed: Callable[[str], int]) -> None:
        read, rows = columns.columns, columns.columns.partitions
        frames = batch.exchanges[columns.side]
        self.columns, self.records = columns, read.records
        self.start: Int64s = frames["start"].astype(np.int64)
        self.stop: Int64s = frames["stop"].astype(np.int64)
        self.complete = (frames["start"] > 0) & (frames["stop"] == frames["frame_stop"])
        self.present = columns.spread(np.ones(len(columns.rows), bool), False)
        self.error = columns.spread(read.error_code, 0).astype(np.int64)
        self.length = self.stop - self.start
        self.topic = np.where(
            rows.spans("topic").start >= 0, rows.spans("topic").start, rows.spans("topic_id").start
        )
        self.partition, self.hash, named = _hashes(batch, columns, hashed)
        wrong = columns.columns.fault_reason != Reason.NONE
        wrong[rows.message[~named | (self.records["fault"] > 0)]] = True
        self.readable = self.complete & self.present & ~columns.spread(wrong, False)
        self.count = len(batch.exchanges)
        self.exchange = columns.rows[rows.message]
        self.edges: Int64s = np.searchsorted(self.exchange, np.arange(self.count + 1))
        self.rows = np.diff(self.edges)  # of each exchange
        span = rows.spans("record_set")
        self.records_start, self.size = span.start, np.where(span.start >= 0, span.length, 0)

    def all(self, rows: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return for each exchange whether something holds for all of its rows."""
        fulfilled: NDArray[np.bool_] = np.bincount(self.exchange[~rows], minlength=self.count) == 0
        return fulfilled

    def integer(self, name: str) -> tuple[Int64s, NDArray[np.bool_]]:
        """Return a column of partitions, and where it is present."""
        return self.columns.columns.partitions.integers(name)


def _hashes(
    batch: ExchangeBatch, columns: MessageColumns, hashed: Callable[[str], int]
) -> tuple[Int64s, Int64s, NDArray[np.bool_]]:
    """Return number, hash of topic and number, and whether it has a name that can be told, by partition."""
    rows = columns.columns.partitions
    number = rows.integers("partition")
    partition = np.where(number.present, number.values, NONE)
    topics = np.zeros(len(rows), np.uint64)
    named = np.zeros(len(rows), bool)
    topic = rows.spans("topic")
    for codes in (
        coded_uuids(batch.arena, rows.spans("topic_id").start),
        coded_spans(batch.arena, topic.start, topic.length),
    ):
        there = codes.numbers >= 0
        if not there.any():
            continue
        texts = codes.texts.to_pylist()
        hashes = np.array([hashed(text) for text in texts], np.uint64)
        clear = np.array([REPLACED not in text for text in texts], bool)
        index = np.maximum(codes.numbers, 0)
        topics, named = np.where(there, hashes[index], topics), np.where(there, clear[index], named)
    with np.errstate(over="ignore"):
        mixed = topics + (partition + 1).astype(np.uint64) * MIX
    return partition, mixed.view(np.int64), named


class ShapedMessages:
    """The requests and responses of a part, for shapes.

    `counts` says how many facts each exchange has, and `facts` has them one after the other.
    """

    def __init__(
        self,
        batch: ExchangeBatch,
        request: MessageColumns,
        response: MessageColumns,
        hashed: Callable[[str], int],
    ) -> None:
        exchanges = batch.exchanges
        self.bytes = np.ascontiguousarray(batch.arena)
        self.keys, self.versions = (exchanges[name].astype(np.int64) for name in ("api_key", "api_version"))
        self.connections, self.status = (
            exchanges[name].astype(np.int64) for name in ("connection", "status")
        )
        self.request = MessageSide(batch, request, hashed)
        self.response = MessageSide(batch, response, hashed)
        self.answered = exchanges["status"] == ANSWERED
        self.readable = self.request.readable.copy()
        self.readable &= np.where(self.answered, self.response.readable, exchanges["response"]["start"] <= 0)
        self.client_start, size = request.spans("client_id")
        self.client_stop = self.client_start + size
        self.readable &= self.client_start >= 0
        self.replica = request.integers("replica_id")[0]
        self.transactional = request.spans("transactional_id")[0] >= 0
        self._hashed = hashed
        produced, is_produced = self._produced()
        fetched, is_fetched = self._fetched()
        self.is_produced = (
            (self.keys == ApiKey.PRODUCE) & self.request.all(is_produced) & (self.request.rows > 0)
        )
        self.is_fetched = (self.keys == ApiKey.FETCH) & self.response.all(is_fetched)
        self.counts = np.zeros(len(exchanges), np.int64)
        for side, rows, is_it in (
            (self.request, produced, self.is_produced),
            (self.response, fetched, self.is_fetched),
        ):
            chosen = np.flatnonzero(is_it & self.readable)
            self.counts[chosen] = side.rows[chosen] * rows.shape[1]
        starts = np.cumsum(self.counts) - self.counts
        self.facts = np.zeros(int(self.counts.sum()), np.int64)
        for side, rows, is_it in (
            (self.request, produced, self.is_produced),
            (self.response, fetched, self.is_fetched),
        ):
            chosen = np.flatnonzero(is_it & self.readable)
            values = rows[ranges(side.edges[chosen], side.rows[chosen])].ravel()
            self.facts[ranges(starts[chosen], self.counts[chosen])] = values

    def first_topics(self) -> Int64s:
        """Return where the first topic stands that each request names; NONE without one."""
        places = np.append(self.request.topic, NONE)
        return np.where(self.request.rows > 0, places[self.request.edges[:-1]], NONE)

    def int32s(self, positions: Int64s) -> Int64s:
        """Return the numbers of 32 bits at some positions."""
        data = self.bytes
        values = np.zeros(len(positions), np.uint32)
        for byte in range(4):
            values = values << np.uint32(8) | data[positions + byte]
        return values.view(np.int32).astype(np.int64)

    def can_be_decoded(self, row: int) -> bool:
        """Return whether the codec has no objection to an exchange."""
        if decode_request(self.frame(self.request, row), strict=True).fault is not None:
            return False
        if not self.response.present[row]:
            return True
        key, version = int(self.keys[row]), int(self.versions[row])
        if not is_known(key, version):
            return False
        decoded = decode_response(self.frame(self.response, row), key, version, strict=True)
        return decoded.fault is None and decoded.body is not None

    def frame(self, side: MessageSide, row: int) -> bytes:
        """Return a message."""
        return self.bytes[side.start[row] : side.stop[row]].tobytes()

    def asked(self) -> Int64s:
        """Return what tells the partitions and producers of requests, in rows of partitions."""
        return np.stack([self.request.hash, self.request.records["producer_id"]], axis=1)

    def told(self) -> Int64s:
        """Return what tells the partitions of responses, with what is known of each but its offsets."""
        error, start = self.response.integer("error_code"), self.response.integer("log_start_offset")
        known = error[0] * 4 + error[1] * 2 + (start[1] & (start[0] >= 0))
        return np.stack([self.response.hash, known], axis=1)

    def same_partitions(self) -> NDArray[np.bool_]:
        """Return which responses have the partitions of their requests, in the same order."""
        same: NDArray[np.bool_] = self.request.rows == self.response.rows
        chosen = np.flatnonzero(same)
        asked, told = (
            ranges(side.edges[chosen], side.rows[chosen]) for side in (self.request, self.response)
        )
        differs = self.request.hash[asked] != self.response.hash[told]
        same[self.request.exchange[asked[differs]]] = False
        return same

    def may_come_again(self) -> NDArray[np.bool_]:
        """Return which Produce requests of clients without a producer id failed, or got no answer."""
        anonymous = ~self.request.all(self.request.records["producer_id"] >= 0)
        failed = ~self.response.all(self.response.integer("error_code")[0] == 0)
        again: NDArray[np.bool_] = anonymous & (failed | (self.status == NO_ANSWER))
        return again

    def _produced(self) -> tuple[Int64s, NDArray[np.bool_]]:
        """Return the facts of partitions in Produce requests, and which of them are whole record batches."""
        side = self.request
        records = side.records
        whole = (records["magic"] == 2) & (records["cut"] == 0) & (records["batches"] > 0)
        whole &= (records["wrappers"] == 0) & (side.partition >= 0)
        producer = np.where(
            records["producer_id"] >= 0, records["producer_id"], self._clients()[side.exchange]
        )
        facts = ProducedFacts(
            side.hash,
            producer,
            records["producer_epoch"],
            records["base_sequence"],
            records["records"],
            side.size,
            self._offsets(),
        )
        return np.stack(facts, axis=1), whole

    def _clients(self) -> Int64s:
        """Return a number below NONE for the client id of each request."""
        codes = coded_spans(self.bytes, *self.request.columns.spans("client_id"))
        hashes = [self._hashed(text) >> 2 for text in codes.texts.to_pylist()]
        numbers: Int64s = NONE - 1 - np.array([*hashes, 0], np.int64)[codes.numbers]
        return numbers

    def _offsets(self) -> Int64s:
        """Return the offset that a response gives for each partition of a request, NONE without one.

        Responses that have other partitions, or in another order, leave the request without a shape.
        """
        offsets = np.full(len(self.request.hash), NONE, np.int64)
        same = np.flatnonzero(self.request.rows == self.response.rows)
        asked_rows, answered_rows = (
            ranges(side.edges[same], side.rows[same]) for side in (self.request, self.response)
        )
        offset, error = self.response.integer("offset"), self.response.integer("error_code")
        written = offset[1] & (offset[0] >= 0) & (error[0] == 0)
        offsets[asked_rows] = np.where(written, offset[0], NONE)[answered_rows]
        return offsets

    def _fetched(self) -> tuple[Int64s, NDArray[np.bool_]]:
        """Return the facts of partitions in Fetch responses, and which of them can be told by facts."""
        side = self.response
        records = side.records
        batches = records["batches"]
        following = np.full(len(batches), NONE, np.int64)
        single = np.flatnonzero((batches == 1) & (records["cut"] == 0) & (records["magic"] == 2))
        delta = self.int32s(side.records_start[single] + LAST_OFFSET_DELTA_AT)
        following[single] = records["base_offset"][single] + delta + 1
        others, data = np.ones(len(batches), bool), memoryview(self.bytes.data)
        others[single] = False
        for row in np.flatnonzero(others & (side.size > 0)).tolist():
            start = int(side.records_start[row])
            found = following_offset(data, start, start + int(side.size[row]))
            following[row] = NONE if found is None else found
        following[side.integer("error_code")[0] != 0] = NONE
        plain = (side.partition >= 0) & (records["control_batches"] <= 0) & (following >= NONE)
        return np.stack(FetchedFacts(following, side.size), axis=1), plain
