"""The packed form of descriptors: what goes in comes out."""

import numpy as np
import pyarrow as pa
import pytest

from kdissect.capture.segment_index import (
    ACK,
    CAPTURED,
    FLAG_ACK,
    FLAG_ACK_ONLY,
    FLAG_B_TO_A,
    FLAGS,
    MISSING,
    MOST_PACKED,
    OFFSET,
    PACKET,
    SEGMENT_COLUMNS,
    SEQ,
    TIME,
    Counts,
    pack,
    pack_counts,
    pack_rows,
    unpack,
    unpack_counts,
    unpack_pieces,
)


def random_columns(count: int, seed: int) -> np.ndarray:
    """Return descriptors with everything in them: jumps in time, sequence wraps, lost bytes."""
    random = np.random.default_rng(seed)
    columns = np.zeros((SEGMENT_COLUMNS, count), dtype=np.int64)
    columns[TIME] = random.integers(0, 1 << 62, count)
    columns[PACKET] = np.cumsum(random.integers(1, 1 << random.integers(1, 30), count))
    columns[OFFSET] = random.integers(0, 1 << 50, count)
    columns[CAPTURED] = random.integers(0, 1 << random.integers(1, 26), count)
    columns[MISSING] = random.integers(0, 3, count) * random.integers(0, 1 << 32, count)
    columns[SEQ] = random.integers(0, 1 << 32, count)
    columns[FLAGS] = random.integers(0, 64, count)
    columns[ACK] = np.where(columns[FLAGS] & FLAG_ACK, random.integers(0, 1 << 32, count), 0)
    return columns


def conversation(count: int) -> np.ndarray:
    """Return descriptors of two streams in order, the usual case."""
    columns = np.zeros((SEGMENT_COLUMNS, count), dtype=np.int64)
    columns[TIME] = 1_700_000_000_000_000_000 + np.arange(count) * 50_000
    columns[PACKET] = np.arange(count) * 2 + 1
    columns[OFFSET] = np.arange(count) * 300
    columns[CAPTURED] = 100
    columns[FLAGS] = FLAG_ACK | (np.arange(count) % 2 * FLAG_B_TO_A)
    columns[SEQ] = (0xFFFFFF00 + np.arange(count) // 2 * 100) & 0xFFFFFFFF
    columns[ACK] = (0xFFFFFF00 + (np.arange(count) + 1) // 2 * 100) & 0xFFFFFFFF
    return columns


@pytest.mark.parametrize("seed", range(20))
def test_what_is_packed_comes_out_again(seed: int) -> None:
    columns = random_columns(seed * 7, seed)
    packed = pack(columns)
    assert len(packed) <= columns.shape[1] * MOST_PACKED
    unpacked = unpack(pa.array([packed], pa.binary()), np.array([columns.shape[1]]))
    np.testing.assert_array_equal(unpacked, columns)


def test_extremes() -> None:
    columns = np.zeros((SEGMENT_COLUMNS, 4), dtype=np.int64)
    columns[TIME] = [(1 << 62) - 1, 0, (1 << 62) - 1, 0]
    columns[OFFSET] = [0, (1 << 61), 0, 1]
    columns[SEQ] = [0xFFFFFFFF, 0, 0x80000000, 0x7FFFFFFF]
    columns[MISSING] = [0xFFFFFFFF, 0, 1, 0]
    columns[FLAGS] = 63
    np.testing.assert_array_equal(unpack(pa.array([pack(columns)], pa.binary()), np.array([4])), columns)


@pytest.mark.parametrize("bits", range(1, 34))
def test_numbers_of_every_length(bits: int) -> None:
    columns = np.zeros((SEGMENT_COLUMNS, 6), dtype=np.int64)
    columns[CAPTURED] = [0, (1 << bits) - 1, 1 << bits, (1 << bits) + 1, 1, 0]
    columns[OFFSET] = np.cumsum([1 << bits, -(1 << bits), (1 << bits) - 1, 1 - (1 << bits), -1, 1])
    np.testing.assert_array_equal(unpack(pa.array([pack(columns)], pa.binary()), np.array([6])), columns)


def test_pieces_say_where_their_segments_begin() -> None:
    packets = random_columns(200, 5)
    packets[FLAGS, ::3] = packets[FLAGS, 100] = FLAG_ACK_ONLY
    packets[OFFSET : SEQ + 1, packets[FLAGS] == FLAG_ACK_ONLY] = 0
    stops = np.array([0, 10, 10, 100, 101, 200])
    counts = np.diff(stops, prepend=0)
    unpacked = unpack_pieces(pack_rows(packets, np.arange(200), stops - counts, stops), counts, 1000)
    packets[PACKET] += 1000
    np.testing.assert_array_equal(unpacked.packets, packets)
    assert unpacked.packets.T.flags.c_contiguous
    assert unpacked.heads.tolist() == [-1, 1, -1, 10, -1, 101]


def test_a_usual_conversation_is_small() -> None:
    assert len(pack(conversation(1000))) < 11 * 1000
    columns = conversation(1000)
    np.testing.assert_array_equal(unpack(pa.array([pack(columns)], pa.binary()), np.array([1000])), columns)


def test_rows_of_a_column_and_slices_of_it() -> None:
    columns = random_columns(100, 3)
    order = np.random.default_rng(4).permutation(100)
    firsts, stops = np.array([0, 10, 10, 60]), np.array([10, 10, 60, 100])
    blobs = pack_rows(columns, order, firsts, stops)
    assert blobs.type == pa.binary()
    np.testing.assert_array_equal(unpack(blobs, stops - firsts), columns[:, order])
    np.testing.assert_array_equal(unpack(blobs[2:], (stops - firsts)[2:]), columns[:, order[10:]])
    assert unpack(blobs[:0], np.array([], dtype=np.int64)).shape == (SEGMENT_COLUMNS, 0)
    with_last = pack_rows(columns, order, firsts, stops, b"the last")
    assert with_last.to_pylist() == [*blobs.to_pylist(), b"the last"]


def test_counts() -> None:
    counts = Counts(*range(1, 14))
    assert unpack_counts(pack_counts(counts)) == counts
    assert len(Counts()) == 13
