"""Pass one: from the packet headers of one split to its segment index.

A split comes in. One Arrow batch of PIECES comes out: a row for every connection with packets in the split,
in the order of their first packets, and a row of counts. Only headers are interpreted; payload is described
by its offset in the file. Memory is bounded by the size of the split.

A SYN that does not belong to the piece of its connection (another initial sequence number, or packets without
a known start before it) begins a new piece, since the ports are used again. Pass two decides whether the
first piece of a split continues a connection of an earlier split.

Every connection costs memory later, also one that was never opened. So of a flood of SYNs only the first
MOST_ATTEMPTS of a split are passed on, and the others are counted.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from kdissect import limits
from kdissect.array_types import Int64s
from kdissect.capture import flow_pieces, flow_table
from kdissect.capture.flow_pieces import take_fields
from kdissect.capture.flow_table import (
    FlowTable,
)
from kdissect.capture.formats.record_reader import (
    CHUNK_BYTES,
    ReadOutcome,
    RecordLayout,
    RecordReader,
)
from kdissect.capture.index.splits import Split, interface_table
from kdissect.capture.packets.headers import HEAD_BYTES
from kdissect.capture.segment_index import (
    CAPTURED,
    MISSING,
    PIECES,
    Counts,
    pack_counts,
    pack_rows,
)
from kdissect.capture.storage import open_storage

# Fields of a piece that its row has.
TAKEN = (
    *range(flow_pieces.KEY_FIELDS),
    flow_pieces.BUCKET,
    flow_pieces.PACKETS_AB,
    flow_pieces.PACKETS_BA,
    flow_pieces.ZERO_WINDOWS,
    flow_pieces.COPIES,
    flow_pieces.FIRST_NS,
    flow_pieces.LAST_NS,
    flow_pieces.COUNT,
)
MOST_ATTEMPTS = limits.ATTEMPTS  # in one split
ROW_SEGMENTS = 1 << 20  # descriptors in one row, about 12 MiB; a longer piece continues in the next rows


def scan_split(
    split: Split,
    ports: Iterable[int] = (),
    chunk_bytes: int = CHUNK_BYTES,
    row_segments: int = ROW_SEGMENTS,
    gathering: FlowTable | None = None,
    most_attempts: int = MOST_ATTEMPTS,
) -> pa.RecordBatch:
    """Return the PIECES of one split. With `ports`, TCP packets on other ports are only counted.

    A flow table for the same ports can be passed as `gathering`, so that its memory is used again.
    """
    flows = gathering or FlowTable(ports)
    read_split(split, flows, chunk_bytes)
    return piece_rows(split.index, flows, row_segments, most_attempts)


def read_split(split: Split, flows: FlowTable, chunk_bytes: int = CHUNK_BYTES) -> None:
    """Read one split into a flow table, as far as its records go."""
    flows.begin(split.packets, split.recalled_packets)
    with open_storage(split.path) as source:
        reader = RecordReader(
            source, split.recall_start, split.stop, HEAD_BYTES, chunk_bytes, split.time_before_ns
        )
        layout = RecordLayout(
            split.format, split.big_endian, split.record_header, interface_table(split.interfaces)
        )
        outcome = ReadOutcome.MORE
        while outcome in (ReadOutcome.MORE, ReadOutcome.FULL):
            outcome = reader.advance(layout)
            flows.add(reader.buffer, reader.base, reader.records)


def scan_batches(
    batches: Iterable[pa.RecordBatch], splits: Sequence[Split], ports: Iterable[int] = ()
) -> Iterator[pa.RecordBatch]:
    """Return one batch of PIECES for each split whose ordinal is in the column `split`."""
    gathering = FlowTable(ports)
    for batch in batches:
        for ordinal in batch.column("split").to_pylist():
            yield scan_split(splits[ordinal], gathering=gathering)


def piece_rows(
    split: int, flows: FlowTable, row_segments: int = ROW_SEGMENTS, most_attempts: int = MOST_ATTEMPTS
) -> pa.RecordBatch:
    """Return the pieces of a split, and the row of counts behind them."""
    order, starts = flows.by_piece()
    kept = _kept_pieces(flows, most_attempts)
    counts = pack_counts(Counts(*flows.counts.tolist()))  # when it is known how many are left out
    parts = np.maximum(1, -(-flows.pieces[kept, flow_pieces.COUNT] // row_segments))
    piece_of = np.repeat(kept, parts)
    part = np.arange(len(piece_of)) - np.repeat(np.cumsum(parts) - parts, parts)
    fields = dict(zip(TAKEN, take_fields(flows.pieces, piece_of, np.array(TAKEN)), strict=True))
    first = starts[piece_of] + part * row_segments
    count = np.minimum(fields[flow_pieces.COUNT] - part * row_segments, row_segments)
    counted = part == 0  # counts are in the first row of a piece only
    columns = {
        "bucket": (fields[flow_pieces.BUCKET], -1),
        "split": (np.full(len(piece_of), split), split),
        "piece": (np.arange(len(piece_of)), -1),
        "a_port": (fields[flow_pieces.A_PORT], 0),
        "b_port": (fields[flow_pieces.B_PORT], 0),
        "packets_ab": (fields[flow_pieces.PACKETS_AB] * counted, 0),
        "packets_ba": (fields[flow_pieces.PACKETS_BA] * counted, 0),
        "zero_windows": (fields[flow_pieces.ZERO_WINDOWS] * counted, 0),
        "duplicates": (fields[flow_pieces.COPIES] * counted, 0),
        "first_time_ns": (fields[flow_pieces.FIRST_NS], 0),
        "last_time_ns": (fields[flow_pieces.LAST_NS], 0),
        "count": (count, 0),
    }
    arrays = {
        name: pa.array(np.append(values, last), PIECES.field(name).type)
        for name, (values, last) in columns.items()
    }
    arrays["segments"] = pack_rows(flows.segments.T, order, first, first + count, counts)
    for name, word in (("a_host", flow_pieces.A_HOST), ("b_host", flow_pieces.B_HOST)):
        arrays[name] = _hosts([fields[word + number] for number in range(4)])
    return pa.RecordBatch.from_arrays([arrays[name] for name in PIECES.names], schema=PIECES)


def _kept_pieces(flows: FlowTable, most_attempts: int) -> Int64s:
    """Return the numbers of the pieces that are passed on. Count the others."""
    pieces, segments = flows.pieces, flows.segments
    if len(pieces) <= most_attempts:
        return np.arange(len(pieces))
    has_payload = np.zeros(len(pieces), np.bool_)
    has_payload[segments[segments[:, CAPTURED] + segments[:, MISSING] > 0, flow_table.PIECE]] = True
    attempts = ~has_payload & (
        (pieces[:, flow_pieces.PACKETS_AB] == 0) | (pieces[:, flow_pieces.PACKETS_BA] == 0)
    )
    left_out = np.flatnonzero(attempts)[most_attempts:]
    flows.counts[flow_table.ATTEMPTS] += len(left_out)
    return np.delete(np.arange(len(pieces)), left_out)


def _hosts(words: Sequence[Int64s]) -> pa.Array:
    """Return addresses, and an empty one behind them, from the columns of their four words."""
    hosts = np.zeros((len(words[0]) + 1, 4), ">u4")
    for number, word in enumerate(words):
        hosts[:-1, number] = word
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(hosts), [None, pa.py_buffer(hosts)])
