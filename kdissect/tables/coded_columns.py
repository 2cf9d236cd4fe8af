"""Text columns as dictionary codes: each distinct text once, and its number in every row.

In come spans of bytes in an arena, or numbers that have names. Out go columns of codes. Figures group by the
codes and never look at the texts (see `coded_text`). When a table is written, `table_batch` replaces codes by
their texts.

A dictionary has each text once. A missing value is null.
"""

import secrets
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kdissect.array_types import Bytes, Int32s, Int64s
from kdissect.jit.decorators import jit_flat, jit_inner, prefetch
from kdissect.jit.rows import COMPILED
from kdissect.jit.same_bytes import same_bytes
from kdissect.tables.array_batch import ArrayBatch, ArrayColumn, array_batch, arrow_column
from kdissect.tables.arrow_columns import (
    UUID_BYTES,
    is_ascii,
    name_index,
    text_column,
    uuid_column,
)
from kdissect.tables.coded_text import CodedText
from kdissect.tables.partition_keys import hash_bytes

SLOTS_A_ROW = 2  # of the hash table, at least
FEW_TEXTS, FEW_BYTES = 32, 1 << 12  # of a column that is kept for the next batches
FETCHED_AHEAD = 8  # texts, which lie apart in a buffer that is larger than the processor's cache
# Another one in each process, so that no capture can fill one chain of the hash table on purpose.
_SEED = secrets.randbits(31)


@jit_inner
def _same(arena: Bytes, start: Int64s, length: Int64s, one: int, other: int) -> bool:
    if length[one] != length[other]:
        return False
    return start[one] == start[other] or same_bytes(arena, start[one], arena, start[other], length[one])


@jit_flat
def number_spans(
    arena: Bytes, start: Int64s, length: Int64s, seed: int, slots: Int32s, numbers: Int32s, firsts: Int64s
) -> int:
    """Number equal spans alike, in the order of their first rows. Return how many differ.

    `numbers` gets the number of each row, -1 where `start` is -1, and `firsts` the first row of each number.
    `slots` is an empty hash table (-1) of a power of two, larger than the number of rows.
    """
    count, mask, number = 0, len(slots) - 1, -1
    for row in range(len(start)):
        prefetch(arena, start[min(row + FETCHED_AHEAD, len(start) - 1)])
        if start[row] < 0:
            numbers[row] = -1
            continue
        size = length[row]
        # Most rows name what the row before names: two of three texts need no hash.
        if number < 0 or not _same(arena, start, length, row, firsts[number]):
            slot = hash_bytes(arena, start[row], size, seed) & mask
            while slots[slot] >= 0 and not _same(arena, start, length, row, firsts[slots[slot]]):
                slot = (slot + 1) & mask
            if slots[slot] < 0:
                slots[slot] = count
                firsts[count] = row
                count += 1
            number = int(slots[slot])
        numbers[row] = number
    return count


def distinct_spans(arena: Bytes, start: Int64s, length: Int64s) -> tuple[Int32s, Int64s]:
    """Return the number of each span, -1 where there is none, and the first row of each number."""
    if not COMPILED:
        return distinct_bytes(arena, start, length)
    size = 1 << (SLOTS_A_ROW * max(1, len(start)) - 1).bit_length()
    slots = np.full(size, -1, np.int32)
    numbers, firsts = np.empty(len(start), np.int32), np.empty(len(start), np.int64)
    count = number_spans(
        arena, np.ascontiguousarray(start), np.ascontiguousarray(length), _SEED, slots, numbers, firsts
    )
    return numbers, firsts[:count]


def distinct_bytes(arena: Bytes, start: Int64s, length: Int64s) -> tuple[Int32s, Int64s]:
    """Return what `distinct_spans` does, by a copy of each span: without the compiler this is faster."""
    number_of: dict[bytes, int] = {}
    numbers = np.full(len(start), -1, np.int32)
    firsts: list[int] = []
    for row in np.flatnonzero(start >= 0).tolist():
        number = number_of.setdefault(arena[start[row] : start[row] + length[row]].tobytes(), len(firsts))
        if number == len(firsts):
            firsts.append(row)
        numbers[row] = number
    return numbers, np.array(firsts, np.int64)


def coded_spans(arena: Bytes, start: Int64s, length: Int64s) -> CodedText:
    """Return spans as texts; null where `start` is -1, U+FFFD for bytes that are not UTF-8."""
    length = np.maximum(length, 0)
    numbers, firsts = distinct_spans(arena, start, length)
    start, length = start[firsts], length[firsts]
    if len(firsts) <= FEW_TEXTS and int(length.sum()) <= FEW_BYTES:
        spans = zip(start.tolist(), length.tolist(), strict=True)
        texts, are_distinct = _few_texts(tuple(arena[at : at + size].tobytes() for at, size in spans))
        return _coded(numbers, texts, are_distinct)
    texts = text_column(arena, start, length)
    return _coded(numbers, texts, is_distinct=is_ascii(texts))


@lru_cache(maxsize=256)
def _few_texts(texts: tuple[bytes, ...]) -> tuple[pa.Array, bool]:
    """Return texts as a column, and whether they differ.

    Batches have the same client ids and topics again and again. A column of a few texts takes 40 µs, and its
    bytes take 5.
    """
    decoded = [text.decode("utf-8", "replace") for text in texts]
    return pa.array(decoded, pa.string()), len(set(decoded)) == len(decoded)


def coded_uuids(arena: Bytes, start: Int64s) -> CodedText:
    """Return the 16 bytes at each `start` as text, as Kafka prints ids.

    Null where it is -1 or the id is zero.
    """
    numbers, firsts = distinct_spans(arena, start, np.full(len(start), UUID_BYTES))
    texts = uuid_column(arena, start[firsts])
    return _coded(numbers, texts, is_distinct=not texts.null_count)


def coded_names(
    names: Mapping[int, str], codes: NDArray[np.integer], present: NDArray[np.bool_] | None = None
) -> CodedText:
    """Return the name of each code; null where it has none or is not present."""
    index, known, texts = name_index(names, codes, present)
    return _coded(np.where(known, index, -1), texts, is_distinct=len(set(names.values())) == len(names))


def _coded(numbers: Int32s | Int64s, texts: pa.Array, is_distinct: bool) -> CodedText:
    """Return codes of texts that, if not `is_distinct`, may be null or, with U+FFFD in them, occur twice."""
    if not is_distinct:
        distinct = texts.dictionary_encode()
        if len(distinct.dictionary) < len(texts):
            numbers = np.append(distinct.indices.fill_null(-1).to_numpy(), -1)[numbers]
        texts = distinct.dictionary
    return CodedText(numbers.astype(np.int64, copy=False), texts)


@overload
def table_batch(
    columns: Mapping[str, pa.Array | ArrayColumn], schema: pa.Schema, as_arrays: Literal[False] = False
) -> pa.RecordBatch: ...


@overload
def table_batch(
    columns: Mapping[str, pa.Array | ArrayColumn], schema: pa.Schema, as_arrays: bool
) -> pa.RecordBatch | ArrayBatch: ...


def table_batch(
    columns: Mapping[str, pa.Array | ArrayColumn], schema: pa.Schema, as_arrays: bool = False
) -> pa.RecordBatch | ArrayBatch:
    """Return columns as a batch of a table: `as_arrays` (texts are codes), or else of Arrow."""
    if as_arrays:
        return array_batch(columns, schema)
    arrays = (columns[name] for name in schema.names)
    return pa.record_batch(
        [column if isinstance(column, pa.Array) else arrow_column(column) for column in arrays], schema=schema
    )
