"""Both passes over a capture of a few packets, which loads everything that the real work needs.

Compiled kernels are read from their cache, or compiled on the first run, when they are first called. That
takes as long as dissecting tens of thousands of exchanges. The worker daemon does it once, while Spark
starts, for all workers that it forks. `compile_kernels` compiles the kernels for later runs. `warmup.pcap`
holds the first packets of a producer, of a group member and of a consumer that fetches, `warmup.pcapng` the
same, since each format has its kernels.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from kdissect.capture import flow_pieces
from kdissect.capture.flow_table import FlowTable
from kdissect.capture.formats import head_reads
from kdissect.capture.index.index import index_captures, one_by_one
from kdissect.capture.index.splits import Split
from kdissect.capture.inputs import CaptureFile
from kdissect.jit import kernel_cache
from kdissect.protocol.columnar import register_loops
from kdissect.report.aggregate import call_loops, group_loops
from kdissect.report.partials import Partial, from_arrow
from kdissect.spark import tasks
from kdissect.spark.figures_step import summary_step
from kdissect.streams import own_bytes, payload_reader, split_segments, unread_payload
from kdissect.streams.tcp import step_fold
from kdissect.tables import (
    array_batch,
    arrow_columns,
    engine_facts,
    exchange_keys,
    header_columns,
    long_polls,
    message_list,
    partition_keys,
    partition_numbers,
    partitions,
)
from kdissect.tables.log_ends import FIRST_ENDS, LogEnds

CAPTURES = [Path(__file__).with_name(f"warmup.{format}") for format in ("pcap", "pcapng")]
RANGE_BYTES = (
    4096  # less than the captures have, so that the kernels that look for the start of a range run too
)


def _outgrow_first_tables() -> None:
    """Call the kernels that move tables to larger ones."""
    table = FlowTable()
    table.begin(1, 1)
    table.make_room()
    LogEnds().make_room(2 * FIRST_ENDS)


ENGINE_FOR_MANY: tuple[Callable[[], None], ...] = (
    payload_reader.call_all,
    split_segments.call_all,
    own_bytes.call_all,
    unread_payload.call_all,
    step_fold.call_all,
)
"""Calls of those kernels of reassembly, framing and pairing that only many connections or exchanges need."""

OTHERS_FOR_MANY: tuple[Callable[[], None], ...] = (
    _outgrow_first_tables,
    head_reads.call_all,
    flow_pieces.call_all,
    group_loops.call_all,
    call_loops.call_all,
    register_loops.call_all,
    arrow_columns.call_all,
    array_batch.call_all,
    header_columns.call_all,
    long_polls.call_all,
    message_list.call_all,
    partition_keys.call_all,
    partition_numbers.call_all,
    partitions.call_all,
    exchange_keys.call_all,
    engine_facts.call_all,
)
"""Calls of the other kernels that only these need."""


def warm_up() -> Partial:
    """Dissect the two captures. Return their merged figures."""
    splits = warmup_splits()
    summary = from_arrow(tasks.partials_only(summary_step(warmup_pieces(splits), splits)))
    kernel_cache.mark_complete()
    return summary


def warmup_splits() -> tuple[Split, ...]:
    """Return the splits of the two captures."""
    files = [CaptureFile(str(path), path.name) for path in CAPTURES]
    return index_captures(files, RANGE_BYTES, range_bytes=RANGE_BYTES, run=one_by_one).splits


def warmup_pieces(splits: Sequence[Split]) -> list[pa.RecordBatch]:
    """Return what pass one makes of the two captures."""
    return list(tasks.scan_step([pa.record_batch({"split": [split.index for split in splits]})], splits, ()))


def compile_for_many() -> None:
    """Call the kernels that only many connections or exchanges need.

    A worker that compiled them would keep 50 MB.
    """
    for call in (*ENGINE_FOR_MANY, *OTHERS_FOR_MANY):
        call()
