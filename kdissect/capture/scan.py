"""Pass one: packet headers of one split become pieces.

A split comes in, one Arrow batch of PIECES goes out: a row for every connection that has packets in the split, in the
order of their first packets, and a row of counts. Only headers are interpreted; payload is described by its place in
the file. Memory is bounded by the size of the split.

A pure SYN that does not belong to the connection's piece (another initial sequence number, or packets without a known
start before it) begins a new piece: the port pair is being used again. Whether the first piece of a split continues a
connection of an earlier split is for pass two to tell.

Connections cost memory later on, even those that never came to be: of a flood of SYNs the first MOST_ATTEMPTS of a split
go on, the others are only counted.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from kdissect import limits
from kdissect.capture.flow_table import (
    A_HOST,
    A_PORT,
    ATTEMPTS,
    B_HOST,
    B_PORT,
    BUCKET,
    COPIES,
    COUNT,
    FIRST_NS,
    LAST_NS,
    PACKETS_AB,
    PACKETS_BA,
    PIECE,
    ZERO_WINDOWS,
    FlowTable,
)
from kdissect.capture.formats.record_reader import (
    CHUNK_BYTES,
    ReadOutcome,
    RecordLayout,
    RecordReader,
)
from kdissect.capture.formats.record_table import Int64s
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

MOST_ATTEMPTS = limits.ATTEMPTS  # in one split
ROW_SEGMENTS = 1 << 20  # descriptors in one row: about 12 MiB; a longer piece goes on in the next rows


def scan_split(
    split: Split,
    ports: Iterable[int] = (),
    chunk_bytes: int = CHUNK_BYTES,
    row_segments: int = ROW_SEGMENTS,
    gathering: FlowTable | None = None,
    most_attempts: int = MOST_ATTEMPTS,
) -> pa.RecordBatch:
    """Read one split; give its PIECES. With `ports`, TCP packets on none of them are only counted.

    A `gathering` made for the same ports is used again; that saves its memory from being made anew.
    """
    found = gathering or FlowTable(ports)
    read_split(split, found, chunk_bytes)
    return pa.concat_batches(
        [_piece_rows(split.index, found, row_segments, most_attempts), _counts_row(split.index, found)]
    )


def read_split(split: Split, found: FlowTable, chunk_bytes: int = CHUNK_BYTES) -> None:
    """Read one split into `found`, as far as its records go."""
    found.begin(split.first_packet, split.packets, split.recalled_packets)
    with open_storage(split.path) as source:
        walk = RecordReader(
            source, split.recall_start, split.stop, HEAD_BYTES, chunk_bytes, split.time_before_ns
        )
        layout = RecordLayout(
            split.format, split.big_endian, split.record_header, interface_table(split.interfaces)
        )
        outcome = ReadOutcome.MORE
        while outcome in (ReadOutcome.MORE, ReadOutcome.FULL):
            outcome = walk.advance(layout)
            found.add(walk.buffer, walk.base, walk.records)


def scan_batches(
    batches: Iterable[pa.RecordBatch], splits: Sequence[Split], ports: Iterable[int] = ()
) -> Iterator[pa.RecordBatch]:
    """Scan the splits whose ordinals come in the column `split`; give one batch of PIECES for each."""
    gathering = FlowTable(ports)
    for batch in batches:
        for ordinal in batch.column("split").to_pylist():
            yield scan_split(splits[ordinal], gathering=gathering)


def _piece_rows(split: int, found: FlowTable, row_segments: int, most_attempts: int) -> pa.RecordBatch:
    order, starts = found.by_piece()
    kept = _pieces_that_go_on(found, most_attempts)
    parts = np.maximum(1, -(-found.pieces[kept, COUNT] // row_segments))
    piece_of = np.repeat(kept, parts)
    part = np.arange(len(piece_of)) - np.repeat(np.cumsum(parts) - parts, parts)
    pieces = found.pieces[piece_of]
    first = starts[piece_of] + part * row_segments
    count = np.minimum(pieces[:, COUNT] - part * row_segments, row_segments)
    counted = part == 0  # what is counted stands in the first row of a piece only
    columns = {
        "bucket": pieces[:, BUCKET],
        "split": np.full(len(pieces), split),
        "piece": np.arange(len(pieces)),
        "a_host": _hosts(pieces, A_HOST),
        "a_port": pieces[:, A_PORT],
        "b_host": _hosts(pieces, B_HOST),
        "b_port": pieces[:, B_PORT],
        "packets_ab": pieces[:, PACKETS_AB] * counted,
        "packets_ba": pieces[:, PACKETS_BA] * counted,
        "zero_windows": pieces[:, ZERO_WINDOWS] * counted,
        "duplicates": pieces[:, COPIES] * counted,
        "first_time_ns": pieces[:, FIRST_NS],
        "last_time_ns": pieces[:, LAST_NS],
        "count": count,
        "segments": pack_rows(found.segments.T, order, first, first + count),
    }
    return pa.RecordBatch.from_arrays(
        [
            column if isinstance(column, pa.Array) else pa.array(column, PIECES.field(name).type)
            for name, column in columns.items()
        ],
        schema=PIECES,
    )


def _pieces_that_go_on(found: FlowTable, most_attempts: int) -> Int64s:
    """Give the numbers of the pieces that pass two is told of; count the others."""
    pieces, segments = found.pieces, found.segments
    if len(pieces) <= most_attempts:
        return np.arange(len(pieces))
    has_payload = np.zeros(len(pieces), np.bool_)
    has_payload[segments[segments[:, CAPTURED] + segments[:, MISSING] > 0, PIECE]] = True
    attempts = ~has_payload & ((pieces[:, PACKETS_AB] == 0) | (pieces[:, PACKETS_BA] == 0))
    left_out = np.flatnonzero(attempts)[most_attempts:]
    found.counts[ATTEMPTS] += len(left_out)
    return np.delete(np.arange(len(pieces)), left_out)


def _hosts(pieces: Int64s, first_word: int) -> pa.Array:
    words = pieces[:, first_word : first_word + 4].astype(">u4").tobytes()
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(pieces), [None, pa.py_buffer(words)])


def _counts_row(split: int, found: FlowTable) -> pa.RecordBatch:
    zeros: dict[str, object] = dict.fromkeys(PIECES.names, 0)
    row = zeros | {"bucket": -1, "split": split, "piece": -1}
    row |= {"a_host": bytes(16), "b_host": bytes(16), "segments": pack_counts(Counts(*found.counts.tolist()))}
    return pa.RecordBatch.from_pylist([row], schema=PIECES)
