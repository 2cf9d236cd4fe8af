"""The whole work on a capture of a few packets, so that everything it needs is loaded before the real work comes.

The compiled loops of both passes are read from their cache (or compiled, on the first run) when they are first called;
that takes as long as dissecting tens of thousands of exchanges. The worker daemon does it once, while Spark is still
starting, and every worker it forks has it. `rehearsal.pcap` holds a producer's and a group member's first packets.
"""

from pathlib import Path

import pyarrow as pa

from kdissect.capture.files import CaptureFile
from kdissect.capture.survey import survey
from kdissect.pipeline import steps
from kdissect.report.partials import Partial, from_arrow

CAPTURE = Path(__file__).with_name("rehearsal.pcap")


def rehearse() -> Partial:
    """Dissect the little capture; give its summary, which nobody needs."""
    splits = survey([CaptureFile(str(CAPTURE), CAPTURE.name)]).splits
    ordinals = [pa.record_batch({"split": [split.index for split in splits]})]
    pieces = list(steps.scan_step(ordinals, splits, ()))
    return from_arrow(steps.partials_in(steps.summary_step(pieces, splits)))
