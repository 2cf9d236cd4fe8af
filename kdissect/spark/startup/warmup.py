"""The whole work on a capture of a few packets, so that everything it needs is loaded before the real work comes.

The compiled loops of both passes are read from their cache (or compiled, on the first run) when they are first called;
that takes as long as dissecting tens of thousands of exchanges. The worker daemon does it once, while Spark is still
starting, and every worker it forks has it. As a program of its own it has the kernels compiled for later runs (see
`kdissect.jit.kernel_cache`). `rehearsal.pcap` holds a producer's and a group member's first packets, `rehearsal.pcapng` the same ones:
each format has its kernels.
"""

import os
from pathlib import Path

import pyarrow as pa

from kdissect.capture.index.index import index_captures, one_by_one
from kdissect.capture.inputs import CaptureFile
from kdissect.jit import kernel_cache
from kdissect.report.partials import Partial, from_arrow
from kdissect.spark import tasks

CAPTURES = [Path(__file__).with_name(f"warmup.{format}") for format in ("pcap", "pcapng")]
RANGE_BYTES = 4096  # less than the captures have: where ranges begin must be guessed
LOWEST_PRIORITY = 19


def warm_up() -> Partial:
    """Dissect the little captures; give their summary, which nobody needs."""
    files = [CaptureFile(str(path), path.name) for path in CAPTURES]
    splits = index_captures(files, RANGE_BYTES, range_bytes=RANGE_BYTES, run=one_by_one).splits
    ordinals = [pa.record_batch({"split": [split.index for split in splits]})]
    pieces = list(tasks.scan_step(ordinals, splits, ()))
    summary = from_arrow(tasks.partials_only(tasks.summary_step(pieces, splits)))
    kernel_cache.mark_complete()
    return summary


if __name__ == "__main__":
    os.nice(LOWEST_PRIORITY)
    warm_up()
