"""Keys of topic-partitions: columns of numbers, and hashes of them for tables in compiled loops.

In come the columns of the requests or the responses of a batch, out goes one row of numbers for each
topic-partition that they name. Names and topic ids stay in the arena, as positions.
"""

from typing import NamedTuple

import numpy as np

from kdissect.array_types import Bytes, Int64s
from kdissect.jit.decorators import jit_flat, jit_inner
from kdissect.jit.many_rows import are_many, read_only
from kdissect.jit.same_bytes import WORD_BYTES
from kdissect.protocol.columnar.registers import ROW_SLOTS, ROW_WIDTH
from kdissect.protocol.columnar.vm_state import OWNER, OWNER_PRESENT, OWNER_WIDTH
from kdissect.tables.arrow_columns import UUID_BYTES
from kdissect.tables.message_columns import MessageColumns

TOPIC, TOPIC_LENGTH, TOPIC_ID, PARTITION = range(4)
"""Start and length of the name, start of the topic id, and the partition; -1 where absent.

An id of zeros stands for none: Kafka sends it beside a name.
"""


TOPIC_SLOT, TOPIC_ID_SLOT, PARTITION_SLOT = (ROW_SLOTS[name] for name in ("topic", "topic_id", "partition"))


class PartitionKeys(NamedTuple):
    """One row of `keys` for each topic-partition, and the exchange of each, ascending."""

    keys: Int64s
    exchange: Int64s


def partition_keys(arena: Bytes, columns: MessageColumns) -> PartitionKeys:
    """Return the topic-partitions that messages name. They are made once, for all that need them."""
    if "partition_keys" not in columns.derived:
        rows = columns.columns.rows
        made = (_keys_of_many if are_many(len(rows)) else plain_keys)(arena, columns)
        columns.derived["partition_keys"] = made
    return PartitionKeys(*columns.derived["partition_keys"])


def plain_keys(arena: Bytes, columns: MessageColumns) -> PartitionKeys:
    """Return what `partition_keys` does, column by column."""
    table = columns.columns.partitions
    keys = np.empty((len(table), 4), np.int64)
    name = table.spans("topic")
    keys[:, TOPIC] = name.start
    keys[:, TOPIC_LENGTH] = np.where(name.start >= 0, name.length, -1)
    keys[:, TOPIC_ID] = _ids_but_zeros(arena, table.spans("topic_id").start)
    partition = table.integers("partition")
    keys[:, PARTITION] = np.where(partition.present, partition.values, -1)
    return PartitionKeys(keys, columns.rows[table.message])


def _ids_but_zeros(arena: Bytes, start: Int64s) -> Int64s:
    """Return where ids start, -1 for those of zeros."""
    rows = np.flatnonzero(start >= 0)
    rows = rows[arena[start[rows]] == 0]  # of few ids more than one byte is looked at
    is_zero = ~arena[start[rows, None] + np.arange(UUID_BYTES)].any(axis=1)
    others = start.copy()
    others[rows[is_zero]] = -1
    return others


def _keys_of_many(arena: Bytes, columns: MessageColumns) -> PartitionKeys:
    rows = columns.columns.rows
    made = PartitionKeys(np.empty((len(rows), 4), np.int64), np.empty(len(rows), np.int64))
    fill_keys(read_only(arena), rows, read_only(columns.rows), *made)
    return made


@jit_inner
def _word(arena: Bytes, position: int) -> int:
    """Return eight bytes as a number, by one read: the compiler joins those of the bytes."""
    word = np.uint64(0)
    for index in range(WORD_BYTES):
        word |= np.uint64(arena[np.uint64(position + index)]) << np.uint64(8 * index)
    return word  # type: ignore[return-value]


@jit_flat
def fill_keys(arena: Bytes, rows: Int64s, exchange_of: Int64s, keys: Int64s, exchange: Int64s) -> None:
    """Fill the columns of PartitionKeys from the rows of a walk; NumPy takes 20 ns an exchange more.

    `exchange_of` has the exchange of each message.
    """
    last, is_id = -1, False
    for row in range(len(rows)):
        bits = rows[row, OWNER_PRESENT]
        exchange[row] = exchange_of[rows[row, OWNER]]
        has_topic, has_id = bits >> TOPIC_SLOT & 1, bits >> TOPIC_ID_SLOT & 1
        keys[row, TOPIC] = rows[row, OWNER_WIDTH + TOPIC_SLOT] if has_topic else -1
        keys[row, TOPIC_LENGTH] = rows[row, OWNER_WIDTH + TOPIC_SLOT + 1] if has_topic else -1
        if has_id and rows[row, OWNER_WIDTH + TOPIC_ID_SLOT] != last:  # partitions share that of their topic
            last = rows[row, OWNER_WIDTH + TOPIC_ID_SLOT]
            is_id = _word(arena, last) | _word(arena, last + WORD_BYTES) != np.uint64(0)
        keys[row, TOPIC_ID] = last if has_id and is_id else -1
        has_partition = bits >> PARTITION_SLOT & 1
        keys[row, PARTITION] = rows[row, OWNER_WIDTH + PARTITION_SLOT] if has_partition else -1


def call_all() -> None:
    """Call the loop, so that it is compiled and kept."""
    rows = np.zeros((1, OWNER_WIDTH + ROW_WIDTH), np.int64)
    arena, keys = read_only(np.zeros(UUID_BYTES, np.uint8)), np.zeros((1, 4), np.int64)
    fill_keys(arena, rows, read_only(np.zeros(1, np.int64)), keys, np.zeros(1, np.int64))


@jit_inner
def hash_bytes(arena: Bytes, start: int, length: int, seed: int) -> int:
    """Return a number from 0 to 2^62 for some bytes and a seed (FNV-1a, eight bytes at a time)."""
    value = np.uint64(14695981039346656037) ^ np.uint64(seed & 0xFFFFFFFF)
    position, stop = start, start + length
    while position + WORD_BYTES <= stop:
        value = (value ^ np.uint64(_word(arena, position))) * np.uint64(1099511628211)
        value ^= value >> np.uint64(32)
        position += WORD_BYTES
    while position < stop:
        value = (value ^ np.uint64(arena[position])) * np.uint64(1099511628211)
        position += 1
    return np.int64((value >> np.uint64(7)) & np.uint64(0x3FFFFFFFFFFFFFFF))  # type: ignore[return-value]


@jit_inner
def hash_number(number: int) -> int:
    """Return a number from 0 to 2^62 in which all bits depend on a number that is not negative."""
    value = np.uint64(number + 1) * np.uint64(11400714819323198485)
    mixed = (value ^ (value >> np.uint64(32))) & np.uint64(0x3FFFFFFFFFFFFFFF)
    return np.int64(mixed)  # type: ignore[return-value]


@jit_inner
def hash_key(arena: Bytes, keys: Int64s, row: int) -> int:
    """Return a number from 0 to 2^62 for a row of keys; equal partitions have equal numbers."""
    if keys[row, TOPIC] >= 0:
        return hash_bytes(arena, keys[row, TOPIC], keys[row, TOPIC_LENGTH], keys[row, PARTITION])
    if keys[row, TOPIC_ID] >= 0:
        return hash_bytes(arena, keys[row, TOPIC_ID], UUID_BYTES, keys[row, PARTITION])
    return hash_number(keys[row, PARTITION] & 0xFFFFFFFF)
