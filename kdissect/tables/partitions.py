"""Rows of the table `partitions`: each topic-partition that an exchange names, once.

Request and response both name them: a Produce request has the records, its response the error and the offset.
Rows of both that mean the same partition become one. A topic that a request names without partitions has no
row of its own if the response has rows.

Samples of uncompressed records are compressed with LZ4, the quickest codec of Kafka, to know what
compression would save. The first exchanges of each connection are tried, and then one of many. Their
ordinal decides, so the choice does not depend on how the capture was split. For each partition that such a
Produce request writes, the records of the first batches are compressed, up to a bound, which costs about as
much as reading them did. Other codecs mostly save more than LZ4.
"""

import numpy as np
import pyarrow as pa
from cramjam import lz4

from kdissect.array_types import Bools, Bytes, Int64s
from kdissect.jit.decorators import jit_flat, jit_inner, prefetch
from kdissect.jit.many_rows import are_many, read_only
from kdissect.jit.same_bytes import same_bytes
from kdissect.protocol.columnar.unread_records import SAMPLE_BYTES
from kdissect.protocol.records.batches import CODEC_NAMES, HEADER_BYTES
from kdissect.streams.engine import ExchangeBatch
from kdissect.tables.array_batch import ArrayBatch, ArrayColumn
from kdissect.tables.arrow_columns import UUID_BYTES
from kdissect.tables.coded_columns import coded_names, coded_spans, coded_uuids, table_batch
from kdissect.tables.coded_text import NumberColumn
from kdissect.tables.exchanges import error_names
from kdissect.tables.message_columns import MessageColumns
from kdissect.tables.partition_keys import (
    PARTITION,
    TOPIC,
    TOPIC_ID,
    TOPIC_LENGTH,
    hash_key,
)
from kdissect.tables.partition_numbers import PartitionSide, RowPairs, partition_numbers
from kdissect.tables.schemas import PARTITIONS

SMALLEST_TABLE = 16
FETCHED_AHEAD = 8  # names of topics, which lie apart


@jit_inner
def _same(arena: Bytes, keys: Int64s, one: int, others: Int64s, other: int) -> bool:
    """Return whether row `one` of keys and row `other` of others name the same partition (or topic)."""
    if keys[one, PARTITION] != others[other, PARTITION]:
        return False
    if keys[one, TOPIC] >= 0 and others[other, TOPIC] >= 0:
        length = keys[one, TOPIC_LENGTH]
        return length == others[other, TOPIC_LENGTH] and same_bytes(
            arena, keys[one, TOPIC], arena, others[other, TOPIC], length
        )
    if keys[one, TOPIC_ID] >= 0 and others[other, TOPIC_ID] >= 0:
        return same_bytes(arena, keys[one, TOPIC_ID], arena, others[other, TOPIC_ID], UUID_BYTES)
    # Neither has a name or an id: rows that differ in nothing are one, or they would make long probe chains.
    return max(keys[one, TOPIC], keys[one, TOPIC_ID], others[other, TOPIC], others[other, TOPIC_ID]) < 0


def partners(
    arena: Bytes, request_keys: Int64s, request_of: Int64s, response_keys: Int64s, response_of: Int64s
) -> Int64s:
    """Return the request row of each response row, -1 without one. Each request row occurs at most once.

    Keys have the columns of `partition_keys`. The others have exchange numbers, ascending.
    """
    partner = np.full(len(response_keys), -1, np.int64)
    # A power of two, and twice as many slots as rows. The loop makes no arrays of its own, so it can be flat:
    # 92 ns an exchange became 53.
    slots = max(SMALLEST_TABLE, 1 << max(0, 2 * len(request_keys) - 1).bit_length())
    taken, table = np.zeros(len(request_keys), np.bool_), np.empty(slots, np.int64)
    match_rows(arena, request_keys, request_of, response_keys, response_of, partner, taken, table)
    return partner


@jit_inner
def _fetch_name(arena: Bytes, keys: Int64s, row: int) -> None:
    """Have the processor fetch the name or id of the topic of a row that is needed soon, if it exists."""
    if row < len(keys):
        prefetch(arena, max(keys[row, TOPIC], keys[row, TOPIC_ID]))


@jit_flat
def match_rows(
    arena: Bytes,
    request_keys: Int64s,
    request_of: Int64s,
    response_keys: Int64s,
    response_of: Int64s,
    partner: Int64s,
    taken: Bools,
    table: Int64s,
) -> None:
    """Fill `partner` as `partners` returns it.

    `taken` has one False for each request row. `table` has room for a hash table of one exchange's rows.
    """
    first, row = 0, 0
    while row < len(response_keys):
        exchange = response_of[row]
        while first < len(request_keys) and request_of[first] < exchange:
            first += 1
        stop = first
        while stop < len(request_keys) and request_of[stop] == exchange:
            stop += 1
        built, following = False, first
        while row < len(response_keys) and response_of[row] == exchange:
            partner[row] = -1
            _fetch_name(arena, response_keys, row + FETCHED_AHEAD)
            _fetch_name(arena, request_keys, first + FETCHED_AHEAD)
            if (
                following < stop
                and not taken[following]
                and _same(arena, response_keys, row, request_keys, following)
            ):
                partner[row] = following
            elif stop > first:
                if not built:
                    size = SMALLEST_TABLE
                    while size < 2 * (stop - first):
                        size *= 2
                    for slot in range(size):
                        table[slot] = -1
                    for candidate in range(first, stop):
                        slot = hash_key(arena, request_keys, candidate) & (size - 1)
                        # Equal keys are entered once: hostile repetition must not make long probe chains.
                        while table[slot] >= 0 and not _same(
                            arena, request_keys, candidate, request_keys, table[slot]
                        ):
                            slot = (slot + 1) & (size - 1)
                        if table[slot] < 0:
                            table[slot] = candidate
                    built = True
                slot = hash_key(arena, response_keys, row) & (size - 1)
                while table[slot] >= 0 and not _same(arena, response_keys, row, request_keys, table[slot]):
                    slot = (slot + 1) & (size - 1)
                if table[slot] >= 0 and not taken[table[slot]]:
                    partner[row] = table[slot]
            if partner[row] >= 0:
                taken[partner[row]] = True
                following = partner[row] + 1
            row += 1
        first = stop


def _sample_columns(
    batch: ExchangeBatch, requests: PartitionSide, request_rows: Int64s, exchange: Int64s, rows: Int64s
) -> list[NumberColumn]:
    """Return the sizes of samples before and after LZ4, which are taken of `rows`; null without a sample."""
    span = requests.table.spans_at("record_set", request_rows[rows])
    captured_stop = batch.exchanges["request"]["stop"][
        exchange[rows]
    ]  # of a frame that was cut off less is there
    sizes = compressed(batch.arena, span.start, np.minimum(span.start + span.length, captured_stop))
    columns = []
    for values in sizes:
        spread = np.zeros(len(request_rows), np.int64)
        spread[rows] = values
        columns.append(NumberColumn(spread, spread > 0, pa.int64()))
    return columns


def partition_rows(
    batch: ExchangeBatch,
    request: MessageColumns,
    response: MessageColumns,
    identities: Int64s,
    as_arrays: bool = False,
) -> pa.RecordBatch | ArrayBatch:
    """Return the rows of a batch, sorted by exchange; rows that only the request has come first.

    Rows are arrays if `as_arrays`.
    """
    requests, responses = PartitionSide(batch.arena, request), PartitionSide(batch.arena, response)
    partner = partners(batch.arena, requests.keys, requests.exchange, responses.keys, responses.exchange)
    pairs = row_pairs(partner, requests.keys, requests.exchange, responses.exchange)
    columns = _columns(batch, identities, requests, responses, pairs)
    return table_batch(columns, PARTITIONS, as_arrays)


def row_pairs(partner: Int64s, request_keys: Int64s, request_of: Int64s, response_of: Int64s) -> RowPairs:
    """Return the rows of the table, in its order; the arguments are those of `partners`, and its result.

    A bare topic in a request says nothing if the response has rows of its own.
    """
    most = len(request_keys) + len(partner)
    if not are_many(most):
        return plain_pairs(partner, request_keys, request_of, response_of)
    pairs = RowPairs(*(np.empty(most, np.int64) for _ in range(3)))
    alone = np.ones(len(request_keys), np.bool_)
    alone[partner[partner >= 0]] = False
    count = merge_rows(partner, alone, request_keys, read_only(request_of), read_only(response_of), *pairs)
    return RowPairs(*(rows[:count] for rows in pairs))


def plain_pairs(partner: Int64s, request_keys: Int64s, request_of: Int64s, response_of: Int64s) -> RowPairs:
    """Return what `row_pairs` does, by sorting."""
    alone = np.ones(len(request_keys), bool)
    alone[partner[partner >= 0]] = False
    alone &= ~(np.isin(request_of, response_of) & (request_keys[:, PARTITION] < 0))
    request_rows = np.concatenate([np.flatnonzero(alone), partner])
    response_rows = np.concatenate([np.full(int(alone.sum()), -1, np.int64), np.arange(len(partner))])
    exchange = np.concatenate([request_of[alone], response_of])
    order = np.argsort(exchange, kind="stable")
    return RowPairs(request_rows[order], response_rows[order], exchange[order])


@jit_flat
def merge_rows(
    partner: Int64s,
    alone: Bools,
    request_keys: Int64s,
    request_of: Int64s,
    response_of: Int64s,
    request_rows: Int64s,
    response_rows: Int64s,
    exchange_of: Int64s,
) -> int:
    """Fill the three columns of RowPairs, and return their length. Sorting takes some 4 ns an exchange more.

    `alone` marks request rows without a partner.
    """
    count, request, response = 0, 0, 0
    while request < len(request_of) or response < len(response_of):
        is_answered = response < len(response_of)
        if request < len(request_of):
            exchange = request_of[request]
            is_answered = is_answered and response_of[response] <= exchange
        if is_answered:
            exchange = response_of[response]
        while request < len(request_of) and request_of[request] == exchange:
            if alone[request] and (request_keys[request, PARTITION] >= 0 or not is_answered):
                request_rows[count], response_rows[count], exchange_of[count] = request, -1, exchange
                count += 1
            request += 1
        while response < len(response_of) and response_of[response] == exchange:
            request_rows[count], response_rows[count] = partner[response], response
            exchange_of[count] = exchange
            count += 1
            response += 1
    return count


def _columns(
    batch: ExchangeBatch,
    identities: Int64s,
    requests: PartitionSide,
    responses: PartitionSide,
    pairs: RowPairs,
) -> dict[str, ArrayColumn]:
    numbers = partition_numbers(batch.exchanges, identities, requests, responses, pairs)
    error = numbers.columns["error_code"]
    sampled, sampled_lz4 = _sample_columns(batch, requests, pairs.request, pairs.exchange, numbers.tried)
    return {
        **numbers.columns,
        "topic": coded_spans(batch.arena, numbers.topic, numbers.topic_length),
        "topic_id": coded_uuids(batch.arena, numbers.topic_id),
        "error_name": error_names(error.values, error.present),
        "codec": coded_names(CODEC_NAMES, numbers.codec),
        "sampled_bytes": sampled,
        "sampled_lz4_bytes": sampled_lz4,
    }


_ROOM = lz4.compress_block_bound(bytes(SAMPLE_BYTES))


def compressed(arena: Bytes, start: Int64s, stop: Int64s) -> tuple[Int64s, Int64s]:
    """Return for record sets arena[start:stop] how many bytes were tried, and how many LZ4 made of them.

    The header of the first batch is left out, since Kafka does not compress it. Both are 0 for a set that has
    nothing else. LZ4 writes blocks, without a frame of a few bytes, and all into the same memory: a sample of
    80 bytes takes 0.6 µs, and 1.3 with memory of its own by Arrow's codec.
    """
    tried, made = np.zeros(len(start), np.int64), np.zeros(len(start), np.int64)
    begin = start + HEADER_BYTES
    end = np.minimum(stop, begin + SAMPLE_BYTES)
    rows = np.flatnonzero(end > begin)
    data, room = arena.data, bytearray(_ROOM)
    sizes = [
        lz4.compress_block_into(data[first:last], room, store_size=False)
        for first, last in zip(begin[rows].tolist(), end[rows].tolist(), strict=True)
    ]
    tried[rows], made[rows] = (end - begin)[rows], sizes
    return tried, made


def call_all() -> None:
    """Call the loop that only many rows need, so that it is compiled and kept."""
    rows, out, keys = read_only(np.zeros(0, np.int64)), np.zeros(0, np.int64), np.zeros((0, 4), np.int64)
    merge_rows(out, np.zeros(0, np.bool_), keys, rows, rows, out, out, out)
