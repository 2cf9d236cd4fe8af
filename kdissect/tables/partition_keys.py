"""Keys of topic-partitions: columns of numbers, and hashes of them for tables in compiled loops.

In come the columns of the requests or the responses of a batch, out goes one row of numbers for each
topic-partition that they name. Names and topic ids stay in the arena, as positions.
"""

from typing import NamedTuple

import numpy as np

from kdissect.array_types import Bytes, Int64s
from kdissect.jit.decorators import jit_inner
from kdissect.jit.same_bytes import WORD_BYTES
from kdissect.tables.message_columns import MessageColumns

TOPIC, TOPIC_LENGTH, TOPIC_ID, PARTITION = range(4)
"""Start and length of the name, start of the topic id, and the partition; -1 where absent."""


class PartitionKeys(NamedTuple):
    """One row of `keys` for each topic-partition, and the exchange of each, ascending."""

    keys: Int64s
    exchange: Int64s


def partition_keys(columns: MessageColumns) -> PartitionKeys:
    """Return the topic-partitions that messages name. They are made once, for partitions and ends of logs."""
    if "partition_keys" not in columns.derived:
        table = columns.columns.partitions
        keys = np.empty((len(table), 4), np.int64)
        keys[:, TOPIC] = table.spans("topic").start
        keys[:, TOPIC_LENGTH] = table.spans("topic").length
        keys[:, TOPIC_ID] = table.spans("topic_id").start
        partition = table.integers("partition")
        keys[:, PARTITION] = np.where(partition.present, partition.values, -1)
        columns.derived["partition_keys"] = keys, columns.rows[table.message]
    return PartitionKeys(*columns.derived["partition_keys"])


@jit_inner
def _word(arena: Bytes, position: int) -> int:
    """Return eight bytes as a number, by one read: the compiler joins those of the bytes."""
    word = np.uint64(0)
    for index in range(WORD_BYTES):
        word |= np.uint64(arena[np.uint64(position + index)]) << np.uint64(8 * index)
    return word  # type: ignore[return-value]


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
def hash_key(arena: Bytes, keys: Int64s, row: int) -> int:
    """Return a number from 0 to 2^62 for a row of keys; equal partitions have equal numbers."""
    if keys[row, TOPIC] >= 0:
        return hash_bytes(arena, keys[row, TOPIC], keys[row, TOPIC_LENGTH], keys[row, PARTITION])
    if keys[row, TOPIC_ID] >= 0:
        return hash_bytes(arena, keys[row, TOPIC_ID], 16, keys[row, PARTITION])
    return 0


@jit_inner
def hash_number(number: int) -> int:
    """Return a number from 0 to 2^62 in which all bits depend on a number that is not negative."""
    value = np.uint64(number + 1) * np.uint64(11400714819323198485)
    mixed = (value ^ (value >> np.uint64(32))) & np.uint64(0x3FFFFFFFFFFFFFFF)
    return np.int64(mixed)  # type: ignore[return-value]
