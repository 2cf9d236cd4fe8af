"""The segment index, the result of pass one: all segments of one connection in one split, called a piece.

One row of PIECES is one piece: the two endpoints, counts, and one descriptor for every packet that reassembly
needs. Payload stays in the capture file, and a descriptor says where it lies. The rows of one connection,
ordered by (split, piece), hold its packets in capture order.

A descriptor is eight integers (the columns TIME … FLAGS below). Packed, they are variable-length integers
(LEB128, signed ones zigzag) of differences to the previous descriptor, about 12 bytes in all. `seq` is the
difference to the byte that its direction is expected to send next, `ack` to that of the other direction:
mostly a single zero byte.

Some descriptors are acknowledgments (FLAG_ACK_ONLY): a packet without payload that acknowledges more than the
packets of its direction before it in the piece, or one that closes or opens the receive window. Reassembly
passes over them. They have no sequence number and no place in the file, and take about four bytes.

A split also has one row with bucket and piece -1: its `Counts`, for the quality of the capture.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kdissect.array_types import Bytes, Int64s
from kdissect.jit.decorators import jit_flat, jit_inline, jit_inner, prefetch

PIECES = pa.schema(
    [
        pa.field(name, kind, nullable=False)
        for name, kind in {
            "bucket": pa.int32(),  # hash of the canonical 4-tuple, 0..65535; -1 in the row of counts
            "split": pa.int32(),  # Split.index
            "piece": pa.int32(),  # order of first packets in the split; -1 in the row of counts
            "a_host": pa.binary(16),  # A is the lower endpoint by (address, port); IPv4 as ::ffff:a.b.c.d
            "a_port": pa.int32(),
            "b_host": pa.binary(16),
            "b_port": pa.int32(),
            "packets_ab": pa.int64(),
            "packets_ba": pa.int64(),
            "zero_windows": pa.int64(),  # packets with window 0 and neither SYN nor RST
            "duplicates": pa.int64(),  # second copies of packets
            "first_time_ns": pa.int64(),
            "last_time_ns": pa.int64(),
            "count": pa.int32(),  # descriptors in `segments`
            "segments": pa.binary(),
        }.items()
    ]
)

# Columns of a descriptor table: an int64 array of shape (SEGMENT_COLUMNS, n). Unpacked descriptors lie one
# after the other, 64 bytes each, as loops go through them: eight streams of numbers take twice as long.
TIME = 0  # nanoseconds since the epoch
PACKET = 1  # number in its split, from 0; negative: a fragment that waited for one of the split
OFFSET = 2  # file offset of the first payload byte (of the packet's end when it has none)
CAPTURED = 3  # payload bytes in the file
MISSING = 4  # payload bytes on the wire that were not kept (snaplen)
SEQ = 5  # sequence number as on the wire, 0..2^32-1: of the first payload byte, of the SYN in a SYN
ACK = 6  # acknowledgement number as on the wire; 0 without FLAG_ACK
FLAGS = 7
SEGMENT_COLUMNS = 8

FLAG_B_TO_A, FLAG_SYN, FLAG_ACK, FLAG_FIN, FLAG_RST = 1, 2, 4, 8, 16
# No payload, SYN, FIN or RST: the first acknowledgement of its direction in the piece or after a SYN of it.
FLAG_BARE_ACK = 32
_HAS_MISSING = 64  # in the packed flags byte only
# Only time, packet, acknowledgement number and direction are known, and whether the receive window is zero.
FLAG_ACK_ONLY = 128
FLAG_WINDOW_CLOSED = FLAG_RST  # of an acknowledgment

MOST_PACKED = 56  # bytes: a descriptor never takes more
FETCHED_AHEAD = 12  # descriptors


class Counts(NamedTuple):
    """Counts of the packets of a split; the classes from `tcp` to `malformed` add up to `packets`."""

    packets: int = 0
    tcp: int = 0  # segments that went into pieces
    filtered: int = 0  # TCP on other ports than the requested ones
    other: int = 0  # neither IP nor TCP
    fragments: int = 0  # IP fragments of TCP whose first fragment was not found
    unknown_link: int = 0  # of a link type (or interface) that is not known
    malformed: int = 0  # headers that are wrong or cut off
    truncated: int = 0  # packets of any class that the capture kept only in part
    payload_bytes: int = 0  # TCP payload on the wire, retransmissions included
    missing_bytes: int = 0  # of these, not kept in the capture
    duplicates: int = 0  # of `tcp`: packets that the capture has twice
    tunnelled: int = 0  # of `tcp`: inside another IP packet
    attempts: int = 0  # unanswered connection attempts beyond the limit


def pack_counts(counts: Counts) -> bytes:
    """Return the counts as bytes for the column `segments` of the row of counts."""
    return np.array(counts, dtype="<i8").tobytes()


def unpack_counts(packed: bytes) -> Counts:
    """Return the counts that `pack_counts` packed."""
    return Counts(*np.frombuffer(packed, dtype="<i8").tolist())


def pack(columns: Int64s) -> bytes:
    """Return a descriptor table (SEGMENT_COLUMNS, n) as one blob. Differences must stay below 2**62."""
    count = columns.shape[1]
    blobs = pack_rows(columns, np.arange(count), np.zeros(1, np.int64), np.array([count]))
    packed: bytes = blobs[0].as_py()
    return packed


def pack_rows(
    columns: Int64s, order: Int64s, firsts: Int64s, stops: Int64s, last: bytes | None = None
) -> pa.Array:
    """Return a `segments` column; its blob i packs the descriptors order[firsts[i]:stops[i]] of `columns`.

    The one behind them is `last`, if it is given. Only for columns of which each is contiguous nothing is
    copied.
    """
    rows = np.ascontiguousarray(columns.T)
    out = np.empty(len(order) * MOST_PACKED, dtype=np.uint8)
    offsets = np.zeros(len(firsts) + 1, dtype=np.int32)
    pack_each(rows, rows.reshape(-1).view(np.uint8), order, firsts, stops, out, offsets)
    data = b"".join((out[: offsets[-1]].data, last or b""))
    if last is not None:
        offsets = np.append(offsets, np.int32(len(data)))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.BinaryArray.from_buffers(pa.binary(), len(offsets) - 1, buffers)


class UnpackedPieces(NamedTuple):
    """Descriptors of pieces."""

    packets: Int64s
    """A descriptor table of all of them, piece after piece."""
    heads: Int64s
    """For each piece its first column of `packets` that is no acknowledgment, -1 without one."""


def unpack(blobs: pa.Array, counts: Int64s) -> Int64s:
    """Return one descriptor table for a `segments` column and its `count` column, piece after piece."""
    return unpack_pieces(blobs, counts).packets


def unpack_pieces(blobs: pa.Array, counts: Int64s, packet_base: int = 0) -> UnpackedPieces:
    """Return what `unpack` does, and where segments begin. `packet_base` is added to numbers of packets."""
    _, offsets, data = blobs.buffers()
    starts = np.frombuffer(offsets, dtype=np.int32)[blobs.offset : blobs.offset + len(blobs)].astype(np.int64)
    counts = np.asarray(counts, dtype=np.int64)
    rows = np.empty((int(counts.sum()), SEGMENT_COLUMNS), dtype=np.int64)
    heads = np.empty(len(counts), np.int64)
    unpack_rows(np.frombuffer(data or b"", dtype=np.uint8), starts, counts, packet_base, rows, heads)
    return UnpackedPieces(rows.T, heads)


@jit_inline
def _write_varint(value: int, out: Bytes, at: int) -> int:
    while value >= 128:
        out[at] = (value & 127) | 128
        value >>= 7
        at += 1
    out[at] = value
    return at + 1


@jit_inline
def _write_signed(value: int, out: Bytes, at: int) -> int:
    return int(_write_varint(value << 1 if value >= 0 else ((-value) << 1) - 1, out, at))


@jit_inner
def _read_varint(data: Bytes, at: int) -> tuple[int, int]:
    byte = np.int64(data[at])
    at += 1
    value = byte & 127
    shift = 7
    while byte >= 128:
        byte = np.int64(data[at])
        at += 1
        value |= (byte & 127) << shift
        shift += 7
    return int(value), at


@jit_inner
def _read_signed(data: Bytes, at: int) -> tuple[int, int]:
    value, at = _read_varint(data, at)
    return (-((value + 1) >> 1) if value & 1 else value >> 1), at


@jit_inline
def _sequence_distance(expected: int, seq: int) -> int:
    ahead = (seq - expected) & 0xFFFFFFFF
    return ahead if ahead < 0x80000000 else ahead - 0x100000000


@jit_flat
def pack_into(rows: Int64s, lines: Bytes, order: Int64s, first: int, stop: int, out: Bytes, at: int) -> int:
    """Pack the descriptors order[first:stop] into out[at:]. Return the position behind them.

    `rows` has a row for each descriptor, and `lines` are the bytes of it. The rows of one connection lie
    apart, so they are fetched ahead: 80 ns a descriptor became 25.
    """
    width = rows.shape[1] * rows.itemsize
    time, packet, offset, expected_a, expected_b = 0, 0, 0, 0, 0
    for i in range(first, stop):
        ahead = order[min(i + FETCHED_AHEAD, stop - 1)] * width
        prefetch(lines, ahead)
        prefetch(lines, ahead + width - 1)
        row = order[i]
        flags, captured = rows[row, FLAGS], rows[row, CAPTURED]
        missing, seq = rows[row, MISSING], rows[row, SEQ]
        from_b = flags & FLAG_B_TO_A
        out[at] = flags | (_HAS_MISSING if missing != 0 else 0)
        at = _write_signed(rows[row, TIME] - time, out, at + 1)
        at = _write_signed(rows[row, PACKET] - packet, out, at)
        if flags & FLAG_ACK_ONLY:
            expected = expected_a if from_b else expected_b
            at = _write_signed(_sequence_distance(expected, rows[row, ACK]), out, at)
            time, packet = rows[row, TIME], rows[row, PACKET]
            continue
        at = _write_signed(rows[row, OFFSET] - offset, out, at)
        at = _write_varint(captured, out, at)
        if missing != 0:
            at = _write_varint(missing, out, at)
        at = _write_signed(_sequence_distance(expected_b if from_b else expected_a, seq), out, at)
        if flags & FLAG_ACK:
            ack = rows[row, ACK]
            at = _write_signed(_sequence_distance(expected_a if from_b else expected_b, ack), out, at)
        following = seq + captured + missing + (1 if flags & (FLAG_SYN | FLAG_FIN) else 0)
        if from_b:
            expected_b = following
        else:
            expected_a = following
        time, packet, offset = rows[row, TIME], rows[row, PACKET], rows[row, OFFSET] + captured
    return at


@jit_flat
def pack_each(
    rows: Int64s,
    lines: Bytes,
    order: Int64s,
    firsts: Int64s,
    stops: Int64s,
    out: Bytes,
    offsets: NDArray[np.int32],
) -> None:
    """Pack order[firsts[i]:stops[i]] into `out`, one after another; offsets[i + 1] is where blob i ends."""
    at = np.int64(0)  # with a plain 0, pack_into would be compiled twice, once for a literal
    for i in range(len(firsts)):
        at = pack_into(rows, lines, order, firsts[i], stops[i], out, at)
        offsets[i + 1] = at


@jit_inner
def unpack_into(data: Bytes, at: int, count: int, packet_base: int, rows: Int64s, first: int) -> int:
    """Unpack `count` descriptors from data[at:] into rows[first:].

    Return the row of the first that is no acknowledgment, -1 without one.
    """
    time, packet, offset, expected_a, expected_b = 0, packet_base, 0, 0, 0
    head = -1
    for row in range(first, first + count):
        header = np.int64(data[at])
        flags = header & ~_HAS_MISSING
        change, at = _read_signed(data, at + 1)
        time += change
        change, at = _read_signed(data, at)
        packet += change
        if flags & FLAG_ACK_ONLY:
            change, at = _read_signed(data, at)
            expected = expected_a if flags & FLAG_B_TO_A else expected_b
            rows[row, TIME], rows[row, PACKET], rows[row, FLAGS] = time, packet, flags
            rows[row, ACK] = (expected + change) & 0xFFFFFFFF
            for column in (OFFSET, CAPTURED, MISSING, SEQ):
                rows[row, column] = 0
            continue
        head = row if head < 0 else head
        change, at = _read_signed(data, at)
        offset += change
        captured, at = _read_varint(data, at)
        missing, ack = 0, 0
        if header & _HAS_MISSING:
            missing, at = _read_varint(data, at)
        from_b = flags & FLAG_B_TO_A
        change, at = _read_signed(data, at)
        seq = ((expected_b if from_b else expected_a) + change) & 0xFFFFFFFF
        if flags & FLAG_ACK:
            change, at = _read_signed(data, at)
            ack = ((expected_a if from_b else expected_b) + change) & 0xFFFFFFFF
        following = seq + captured + missing + (1 if flags & (FLAG_SYN | FLAG_FIN) else 0)
        if from_b:
            expected_b = following
        else:
            expected_a = following
        rows[row, TIME], rows[row, PACKET], rows[row, OFFSET] = time, packet, offset
        rows[row, CAPTURED], rows[row, MISSING] = captured, missing
        rows[row, SEQ], rows[row, ACK], rows[row, FLAGS] = seq, ack, flags
        offset += captured
    return head


@jit_flat
def unpack_rows(
    data: Bytes, starts: Int64s, counts: Int64s, packet_base: int, rows: Int64s, heads: Int64s
) -> None:
    """Unpack the blob at each of `starts`, one after another, into `rows`."""
    first = 0
    for i in range(len(starts)):
        heads[i] = unpack_into(data, starts[i], counts[i], packet_base, rows, first)
        first += counts[i]
