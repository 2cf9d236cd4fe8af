"""Latency by design: long polls and waits for group members are not service time.

In come exchanges with the columns of their messages, out goes which of them waited by design, and how long.

- A fetch waits on the broker until `min_bytes` are there or `max_wait_ms` is over (protocol guide, Fetch). It
  did wait if it returned fewer bytes without an error. It also waited if its records came after the request:
  a record is younger than the request, or nothing was there when the connection learned of the end of the log
  (`log_ends`), and the time from then to the request is shorter than the latency. A record that came at any
  time since then came more likely in the longer of the two.
- A fetch that is answered much later than `max_wait_ms` is late: only `max_wait_ms` of it are a wait.
- A fetch of which the capture kept no `max_wait_ms` may have waited for as long as clients let brokers wait.
- A join is answered when all members have joined or the rebalance is over.
- A sync is answered when the leader has sent the assignment; the leader's own sync is not a wait.

A compiled loop tells this of many exchanges. `plain_waits` is the plain way, for few.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdissect import limits
from kdissect.array_types import Bools, Bytes, Int64s
from kdissect.jit.decorators import jit_flat, jit_inline
from kdissect.jit.many_rows import are_many, read_only
from kdissect.jit.rows import RowTable, new_table
from kdissect.protocol.api_keys import FETCHES, ApiKey
from kdissect.protocol.api_mask import in_apis
from kdissect.protocol.codec.messages import decode_request
from kdissect.protocol.columnar.field_reader import FieldReader
from kdissect.protocol.columnar.registers import ROW_SLOTS, ROW_WIDTH, SUMMARY_AT, SUMMARY_WIDTH
from kdissect.protocol.columnar.vm_state import OWNER_PRESENT, OWNER_WIDTH
from kdissect.protocol.records.batch_summary import MAX_TIMESTAMP
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import ANSWERED, REQUEST_SIDE, ExchangeRow
from kdissect.tables.arrow_columns import UUID_BYTES
from kdissect.tables.log_ends import UNKNOWN, FetchHistory
from kdissect.tables.message_columns import MessageColumns
from kdissect.tables.message_list import frame_spans
from kdissect.tables.partition_keys import TOPIC_ID, partition_keys

NS_PER_MS = 1_000_000
RECORD_SET_SLOT = ROW_SLOTS["record_set"]
SYNC_REQUEST = FieldReader({"assignments": "assignments"}, response=False)
FEW_SYNCS = 8  # in a batch: the plain codec reads so many sooner
QUORUM_TOPIC_ID = np.array([0] * 15 + [1], np.uint8)
"""The id of the topic `__cluster_metadata`."""

LONGEST_DEFAULT_MS = 5_000
"""franz-go and kafkajs let a broker wait for so long, the Java client, librdkafka and replicas for 500 ms."""

LATE_NS = 100 * NS_PER_MS
"""A broker answers a long poll within milliseconds after its end, unless something else held it up."""


class Waits(NamedTuple):
    """For each exchange: is the latency a wait by design, which part of it is, and has it a latency."""

    idle: Bools
    wait_ns: Int64s
    is_timed: Bools


def waits_by_design(
    batch: ExchangeBatch, request: MessageColumns, response: MessageColumns, history: FetchHistory
) -> Waits:
    """Return the waits by design of a batch; `history` has what its fetches knew of the ends of logs."""
    if are_many(len(batch.exchanges)):
        return _waits_of_many(batch, request, response, history)
    return plain_waits(batch, request, response, history)


def plain_waits(
    batch: ExchangeBatch, request: MessageColumns, response: MessageColumns, history: FetchHistory
) -> Waits:
    """Return what `waits_by_design` does, column by column."""
    exchanges = batch.exchanges
    key = exchanges["api_key"]
    sent, answered = exchanges["request"]["last_byte_ns"], exchanges["response"]["first_byte_ns"]
    is_timed = (exchanges["response"]["start"] > 0) & (sent >= 0) & (answered >= sent)
    latency = np.where(is_timed, answered - sent, 0)
    succeeded = (exchanges["status"] == ANSWERED) & (response.spread(response.columns.error_code, 0) == 0)
    idle: Bools = succeeded & (key == ApiKey.JOIN_GROUP)
    syncs = np.flatnonzero(succeeded & (key == ApiKey.SYNC_GROUP))
    idle[syncs] = ~_carry_assignments(batch, syncs)
    wait_ns = np.where(idle, latency, 0)
    fetches = succeeded & in_apis(key, FETCHES)
    if fetches.any():
        max_wait_ms, is_known = request.integers("max_wait_ms")
        max_wait_ms = np.where(is_known, max_wait_ms, LONGEST_DEFAULT_MS)
        # A broker handles the requests of a connection one after the other: the wait begins when it can.
        allowed = max_wait_ms * NS_PER_MS + np.maximum(np.where(is_timed, history.previous - sent, 0), 0)
        may_wait = ~is_known | _waited_for_data(batch, request, response, latency, history)
        waited = fetches & (max_wait_ms > 0) & may_wait
        is_late = latency > allowed + LATE_NS
        idle |= waited & ~is_late
        wait_ns = np.where(waited, np.where(is_late, allowed, latency), wait_ns)
    return Waits(idle, wait_ns, is_timed)


def _waited_for_data(
    batch: ExchangeBatch,
    request: MessageColumns,
    response: MessageColumns,
    latency: Int64s,
    history: FetchHistory,
) -> Bools:
    sent = batch.exchanges["request"]["last_byte_ns"]
    min_bytes, _ = request.integers("min_bytes")
    min_bytes = np.where(_of_quorum(batch, response), np.maximum(min_bytes, 1), min_bytes)
    sizes = response.columns.partitions.spans("record_set").length
    received_bytes = response.per_exchange(np.maximum(sizes, 0), np.add, 0)
    newest_ms = response.per_exchange(response.columns.records["max_timestamp_ms"], np.maximum, -1)
    since = history.at_end_since
    has_come = (newest_ms >= sent // NS_PER_MS) | ((since != UNKNOWN) & (latency > sent - since))
    waited: Bools = (min_bytes > 0) & ((received_bytes < min_bytes) | has_come)
    return waited


def _of_quorum(batch: ExchangeBatch, response: MessageColumns) -> Bools:
    """Return which fetches read the log of the controllers: they wait although `min_bytes` is 0 (KIP-595)."""
    ids = response.columns.partitions.spans("topic_id").start
    rows = np.flatnonzero(ids >= 0)
    # The last byte tells it from almost all others: sixteen bytes of each id took a twentieth of all columns.
    rows = rows[batch.arena[ids[rows] + len(QUORUM_TOPIC_ID) - 1] == QUORUM_TOPIC_ID[-1]]
    if not len(rows):
        return np.zeros(len(batch.exchanges), np.bool_)
    same = (batch.arena[ids[rows, None] + np.arange(len(QUORUM_TOPIC_ID))] == QUORUM_TOPIC_ID).all(axis=1)
    return response.per_exchange(_marked(len(ids), rows[same]), np.maximum, 0) > 0


def _waits_of_many(
    batch: ExchangeBatch, request: MessageColumns, response: MessageColumns, history: FetchHistory
) -> Waits:
    count = len(batch.exchanges)
    waits = Waits(np.empty(count, np.bool_), np.empty(count, np.int64), np.empty(count, np.bool_))
    max_wait_ms, is_known = request.integers("max_wait_ms")
    keys, exchange_of = partition_keys(batch.arena, response)
    syncs = np.empty(count, np.int64)
    found = fill_waits(
        read_only(batch.arena),
        batch.exchanges,
        response.spread(response.columns.error_code, 0),
        max_wait_ms,
        is_known,
        request.integers("min_bytes")[0],
        keys,
        exchange_of,
        response.columns.rows,
        response.columns.records.summaries,
        *history,
        syncs,
        *waits,
    )
    syncs = syncs[:found]
    waits.idle[syncs] = ~_carry_assignments(batch, syncs)
    waits.wait_ns[syncs] *= waits.idle[syncs]
    return waits


@jit_inline
def _is_quorum(arena: Bytes, keys: Int64s, row: int) -> bool:
    """Return whether a row has QUORUM_TOPIC_ID, of which all bytes are 0 but the last one."""
    at = keys[row, TOPIC_ID]
    if at < 0 or arena[at + UUID_BYTES - 1] != 1:
        return False
    others = 0
    for index in range(UUID_BYTES - 1):
        others |= int(arena[at + index])
    return others == 0


@jit_inline
def _size_of_records(rows: Int64s, row: int) -> int:
    has_records = rows[row, OWNER_PRESENT] >> RECORD_SET_SLOT & 1
    return max(rows[row, OWNER_WIDTH + RECORD_SET_SLOT + 1], 0) if has_records else 0


@jit_flat
def fill_waits(
    arena: Bytes,
    exchanges: RowTable[ExchangeRow],
    error: NDArray[np.int16],
    max_wait_ms: Int64s,
    is_known: Bools,
    min_bytes: Int64s,
    keys: Int64s,
    exchange_of: Int64s,
    rows: Int64s,
    summaries: Int64s,
    at_end_since: Int64s,
    previous: Int64s,
    syncs: Int64s,
    idle: Bools,
    wait_ns: Int64s,
    is_timed: Bools,
) -> int:
    """Fill the columns of Waits, and `syncs` with the syncs that succeeded, as if all waited.

    Return how many those are. `rows` are the partition rows of responses, with their keys, exchanges, and
    summaries of their records. NumPy takes 30 ns an exchange more.
    """
    found, row = 0, 0
    for exchange in range(len(exchanges)):
        key, sent = exchanges[exchange].api_key, exchanges[exchange].request.last_byte_ns
        answered = exchanges[exchange].response.first_byte_ns
        timed = exchanges[exchange].response.start > 0 and sent >= 0 and answered >= sent
        latency = answered - sent if timed else 0
        idle[exchange], wait_ns[exchange], is_timed[exchange] = False, 0, timed
        if exchanges[exchange].status != ANSWERED or error[exchange] != 0:
            continue
        if key == ApiKey.JOIN_GROUP or key == ApiKey.SYNC_GROUP:
            idle[exchange], wait_ns[exchange] = True, latency
            if key == ApiKey.SYNC_GROUP:
                syncs[found] = exchange
                found += 1
        if key != ApiKey.FETCH and key != ApiKey.SHARE_FETCH:
            continue
        while row < len(exchange_of) and exchange_of[row] < exchange:
            row += 1
        received, newest_ms, least = 0, -1, min_bytes[exchange]
        while row < len(exchange_of) and exchange_of[row] == exchange:
            received += _size_of_records(rows, row)
            if rows[row, OWNER_WIDTH + SUMMARY_AT] >= 0:
                newest_ms = max(newest_ms, summaries[rows[row, OWNER_WIDTH + SUMMARY_AT], MAX_TIMESTAMP])
            if _is_quorum(arena, keys, row):
                least = max(least, 1)
            row += 1
        longest_ms = max_wait_ms[exchange] if is_known[exchange] else LONGEST_DEFAULT_MS
        since = at_end_since[exchange]
        has_come = newest_ms >= sent // NS_PER_MS or (since != UNKNOWN and latency > sent - since)
        waited = least > 0 and (received < least or has_come)
        if longest_ms > 0 and (waited or not is_known[exchange]):
            allowed = longest_ms * NS_PER_MS
            if timed:
                allowed += max(previous[exchange] - sent, 0)
            is_late = latency > allowed + LATE_NS
            idle[exchange], wait_ns[exchange] = not is_late, allowed if is_late else latency
    return found


def _marked(count: int, rows: Int64s) -> Int64s:
    marks = np.zeros(count, np.int64)
    marks[rows] = 1
    return marks


def _carry_assignments(batch: ExchangeBatch, rows: Int64s) -> Bools:
    """Return which of some syncs, by row, carry assignments."""
    if len(rows) < FEW_SYNCS:
        return np.array([_carries_assignment(batch, row) for row in rows.tolist()], np.bool_)
    exchanges = batch.exchanges
    spans = frame_spans(exchanges, REQUEST_SIDE, rows)
    columns = SYNC_REQUEST.read(
        batch.arena,
        spans,
        exchanges["api_key"][rows].astype(np.int16),
        exchanges["api_version"][rows].astype(np.int16),
    )
    carry: Bools = columns.counts("assignments") > 0
    unusual = columns.has_fault | (spans[:, 1] - spans[:, 0] >= limits.ELEMENTS)
    for row in np.flatnonzero(unusual).tolist():
        carry[row] = _carries_assignment(batch, int(rows[row]))
    return carry


def _carries_assignment(batch: ExchangeBatch, row: int) -> bool:
    start, stop = batch.exchanges["request"]["start"][row], batch.exchanges["request"]["stop"][row]
    body = decode_request(batch.arena[start:stop].tobytes()).body
    return bool(body and body.get("assignments"))


def call_all() -> None:
    """Call the loop, so that it is compiled and kept."""
    exchanges: RowTable[ExchangeRow] = new_table(ExchangeRow, 1)
    numbers, flags = np.zeros(1, np.int64), np.zeros(1, np.bool_)
    rows, summaries = (np.zeros((1, width), np.int64) for width in (OWNER_WIDTH + ROW_WIDTH, SUMMARY_WIDTH))
    asked = np.zeros(1, np.int16), numbers, flags, numbers
    answered = np.zeros((1, 4), np.int64), numbers, rows, summaries
    arena = read_only(np.zeros(UUID_BYTES, np.uint8))
    fill_waits(arena, exchanges, *asked, *answered, numbers, numbers, numbers, flags, numbers, flags)
