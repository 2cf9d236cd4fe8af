"""Time pass one alone, in this process: every split of a capture is scanned, once for each run, and nothing
else is done.

    python tests/bench/bench_pass_one.py CAPTURE [RUNS]

prints seconds of processor time per run and the median; a busy machine disturbs that less than the clock on
the wall. To compare two checkouts run it in turn with PYTHONPATH set to each.
"""

import statistics
import sys
import time

from kdissect.capture.flow_table import FlowTable
from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import CaptureFile
from kdissect.capture.scan import scan_split


def main(path: str, runs: int) -> None:
    splits = index_captures([CaptureFile(path, path)]).splits
    gathering = FlowTable()
    scan_split(splits[0], gathering=gathering)  # compiles, or loads what was compiled
    seconds = []
    for _ in range(runs):
        began = time.process_time()
        for split in splits:
            scan_split(split, gathering=gathering)
        seconds.append(time.process_time() - began)
    packets = sum(split.packets for split in splits)
    print(
        f"{packets} packets;",
        *(f"{one:.3f}" for one in seconds),
        f"median {statistics.median(seconds):.3f} s",
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5)
