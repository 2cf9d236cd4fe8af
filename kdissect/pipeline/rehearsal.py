"""The whole work on a capture of a few packets, so that everything it needs is loaded before the real work comes.

The compiled loops of both passes are read from their cache (or compiled, on the first run) when they are first called;
that takes as long as dissecting tens of thousands of exchanges. The worker daemon does it once, while Spark is still
starting, and every worker it forks has it. As a program of its own it has the kernels compiled for later runs (see
`kdissect.compiled`). `rehearsal.pcap` holds a producer's and a group member's first packets, `rehearsal.pcapng` the same ones:
each format has its kernels.
"""

import os
from pathlib import Path

import pyarrow as pa

from kdissect import compiled
from kdissect.capture.files import CaptureFile
from kdissect.capture.survey import one_by_one, survey
from kdissect.pipeline import steps
from kdissect.report.partials import Partial, from_arrow

CAPTURES = [Path(__file__).with_name(f"rehearsal.{format}") for format in ("pcap", "pcapng")]
RANGE_BYTES = 4096  # less than the captures have: where ranges begin must be guessed
LOWEST_PRIORITY = 19


def rehearse() -> Partial:
    """Dissect the little captures; give their summary, which nobody needs."""
    files = [CaptureFile(str(path), path.name) for path in CAPTURES]
    splits = survey(files, RANGE_BYTES, range_bytes=RANGE_BYTES, run=one_by_one).splits
    ordinals = [pa.record_batch({"split": [split.index for split in splits]})]
    pieces = list(steps.scan_step(ordinals, splits, ()))
    summary = from_arrow(steps.partials_in(steps.summary_step(pieces, splits)))
    compiled.keep_all()
    return summary


if __name__ == "__main__":
    os.nice(LOWEST_PRIORITY)
    rehearse()
