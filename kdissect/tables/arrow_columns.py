"""Arrow columns of what pass two holds as numbers: spans of bytes in an arena, codes, numbers with a mask.

Bytes become columns of text without an object for each value. A missing value becomes null. Text columns that
go to a CSV file are made harmless here as well.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kdissect.array_types import Bytes, Int64s
from kdissect.jit.decorators import jit_flat
from kdissect.jit.many_rows import are_many, read_only
from kdissect.text import UUID_CHARACTERS, escape_cell

UUID_BYTES = 16
DENSE_NAMES = 1 << 12  # numbers from the lowest to the highest that has a name
FORMULA = r"^([=+\-@\t\r])"
PERHAPS_CONTROL = r"[^\t\n\r\x20-\x7e]"  # the Unicode of Arrow may be another than that of Python
_ALPHABET = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8)


@jit_flat
def _gather(arena: Bytes, start: Int64s, offsets: NDArray[np.int32], out: Bytes) -> None:
    for row in range(len(start)):
        at = np.int64(offsets[row])
        for index in range(np.int64(offsets[row + 1]) - at):
            out[at + index] = arena[start[row] + index]


def text_column(arena: Bytes, start: Int64s, length: Int64s) -> pa.Array:
    """Return spans as a string column; null where `start` is -1, U+FFFD for bytes that are not UTF-8."""
    sizes = np.where(start >= 0, np.maximum(length, 0), 0)
    offsets = np.zeros(len(start) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    data = np.empty(int(offsets[-1]), np.uint8)
    _gather(arena, start, offsets, data)
    buffers = [_validity(start >= 0), pa.py_buffer(offsets), pa.py_buffer(data)]
    raw = pa.Array.from_buffers(pa.binary(), len(start), buffers)
    if len(data) == 0 or int(data.max()) < 0x80:
        return raw.view(pa.string())
    try:
        return raw.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if value is None else value.decode("utf-8", "replace") for value in raw.to_pylist()]
        return pa.array(texts, pa.string())


def is_ascii(texts: pa.Array) -> bool:
    """Return whether all texts of a whole array are there, and none has a byte beyond ASCII."""
    data = texts.buffers()[2]
    return not texts.null_count and (not data or int(np.frombuffer(data, np.uint8).max(initial=0)) < 0x80)


def uuid_column(arena: Bytes, start: Int64s) -> pa.Array:
    """Return the 16 bytes at each `start` as text, as Kafka prints ids.

    Null where it is -1 or the id is zero.
    """
    text = np.empty(len(start) * UUID_CHARACTERS, np.uint8)
    there = np.zeros(len(start), np.bool_)
    _write_uuids(arena, start, _ALPHABET, text, there)
    offsets = (np.arange(len(start) + 1) * UUID_CHARACTERS).astype(np.int32)
    buffers = [_validity(there), pa.py_buffer(offsets), pa.py_buffer(text)]
    return pa.Array.from_buffers(pa.string(), len(start), buffers)


@jit_flat
def _write_uuids(arena: Bytes, start: Int64s, alphabet: Bytes, text: Bytes, there: NDArray[np.bool_]) -> None:
    for row in range(len(start)):
        bits = np.int64(0)  # read and not yet written
        held = 0
        at = row * UUID_CHARACTERS
        for index in range(UUID_BYTES):
            byte = np.int64(arena[start[row] + index]) if start[row] >= 0 else np.int64(0)
            there[row] = there[row] or byte != 0
            bits = (bits << 8 | byte) & 0xFFFF
            held += 8
            while held >= 6:
                held -= 6
                text[at] = alphabet[bits >> held & 63]
                at += 1
        text[at] = alphabet[bits << (6 - held) & 63]


def int_column(values: NDArray[np.generic], present: NDArray[np.bool_], kind: pa.DataType) -> pa.Array:
    """Return numbers as a column of a type; null where not present."""
    # Not `to_pandas_dtype`, for which some versions of PyArrow import pandas.
    sign = "u" if pa.types.is_unsigned_integer(kind) else "i"
    if are_many(len(values)) and values.dtype == np.int64 and sign == "i" and kind.bit_width > 8:
        return _int_column_of_many(values, present, kind)
    validity = _validity(present)
    known = values if validity is None else np.where(present, values, 0)
    plain = np.array(known, f"{sign}{kind.bit_width // 8}", order="C")  # a copy: others reuse their memory
    return pa.Array.from_buffers(kind, len(plain), [validity, pa.py_buffer(plain)])


def _int_column_of_many(
    values: NDArray[np.generic], present: NDArray[np.bool_], kind: pa.DataType
) -> pa.Array:
    plain = np.empty(len(values), f"i{kind.bit_width // 8}")
    validity = np.zeros(-(-len(values) // 8), np.uint8)
    known = fill_column(read_only(values), read_only(present), plain, validity)
    buffers = [None if known == len(values) else pa.py_buffer(validity), pa.py_buffer(plain)]
    return pa.Array.from_buffers(kind, len(values), buffers, len(values) - known)


@jit_flat
def fill_column(values: Int64s, present: NDArray[np.bool_], plain: Any, validity: Bytes) -> int:
    """Fill `plain` with the values that are present, 0 for others, and `validity` with bits for them.

    `validity` is 0 before. Return how many are present. NumPy goes through the values four times for that.
    """
    known = 0
    for row in range(len(values)):
        plain[row] = values[row] if present[row] else 0
        validity[row >> 3] |= np.uint8(present[row]) << (row & 7)
        known += present[row]
    return known


def call_all() -> None:
    """Call the loops that only many rows need, so that they are compiled and kept."""
    values, present = np.zeros(2, np.int64), np.ones(2, np.bool_)
    for kind in (pa.int16(), pa.int32(), pa.int64()):
        _int_column_of_many(values, present, kind)


def name_column(
    names: Mapping[int, str], codes: NDArray[np.integer], present: NDArray[np.bool_] | None = None
) -> pa.Array:
    """Return the name of each code; null where it has none or is not present."""
    index, known, texts = name_index(names, codes, present)
    return texts.take(pa.array(index, mask=~known))


def name_index(
    names: Mapping[int, str], codes: NDArray[np.integer], present: NDArray[np.bool_] | None = None
) -> tuple[Int64s, NDArray[np.bool_], pa.Array]:
    """Return for each code the index of its name among all names, whether it has one, and all names."""
    keys = np.array(sorted(names), np.int64)
    if len(keys) == 0:
        return np.zeros(len(codes), np.int64), np.zeros(len(codes), np.bool_), pa.array([], pa.string())
    if keys[-1] - keys[0] < DENSE_NAMES:  # a table: a binary search for each row takes ten times as long
        place = np.full(keys[-1] - keys[0] + 3, -1, np.int64)  # both ends stand for what lies outside
        place[keys - keys[0] + 1] = np.arange(len(keys))
        index = place.take(codes - (keys[0] - 1), mode="clip")
        known: NDArray[np.bool_] = index >= 0
    else:
        index = np.minimum(np.searchsorted(keys, codes), len(keys) - 1)
        known = keys[index] == codes
    if present is not None:
        known &= present
    return index, known, _text_array(tuple(names[key] for key in keys.tolist()))


@lru_cache(maxsize=256)
def _text_array(texts: tuple[str, ...]) -> pa.Array:
    """Return texts as a column: batches have the same names of APIs, errors and codecs again and again."""
    return pa.array(texts, pa.string())


def _validity(present: NDArray[np.bool_]) -> pa.Buffer | None:
    return None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))


def escape_csv_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with every text column as `text.escape_cell` makes it; numbers stay as they are."""
    columns = [_escaped(column) if pa.types.is_string(column.type) else column for column in batch.columns]
    return pa.record_batch(columns, schema=batch.schema)


def _escaped(column: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(column, PERHAPS_CONTROL)).as_py():
        cells = [None if text is None else escape_cell(text) for text in column.to_pylist()]
        return pa.array(cells, pa.string())
    return pc.replace_substring_regex(column, FORMULA, r"'\1")
