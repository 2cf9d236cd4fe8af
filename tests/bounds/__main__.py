"""Analyse and dump hazards, one after another, and print for each what was found and what it took: a line of
JSON.

python -m tests.bounds [NAME ...]
"""

import io
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import CaptureFile
from kdissect.capture.scan import scan_split
from kdissect.cli import main
from kdissect.tables.build import dissect_batches
from tests.bounds.hazards import CROWDS, GOOD_HOST, HAZARDS, make


class Sink(io.RawIOBase):
    """Counts lines of JSON by client and by whether they have a fault."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        for line in memoryview(data).tobytes().splitlines():
            good = b'"client_id":"good"' in line or b'"client_id": "good"' in line
            self.counts["good" if good else "faults" if b'"fault"' in line else "others"] += 1
        return len(data)


def fresh_peak() -> None:
    """Reset the peak of resident memory (proc(5))."""
    Path("/proc/self/clear_refs").write_text("5")


def memory(name: str) -> int:
    """Return a figure of the process in MiB: VmHWM is the peak of what is resident, VmRSS what is now."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{name}:")[1].split()[0]) >> 10


def analysed(path: Path) -> dict:
    """Run both passes; give the exchanges by kind, connections, and faults."""
    splits = index_captures([CaptureFile(str(path), path.name)]).splits
    counts: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    hosts: dict[int, str] = {}
    of: Counter[int] = Counter()
    for tables in dissect_batches((scan_split(split) for split in splits), splits):
        if "exchanges" in tables:
            rows = tables["exchanges"]
            of.update(rows["connection"].to_pylist())
            faults.update(fault for fault in rows["fault"].to_pylist() if fault)
        if "connections" in tables:
            rows = tables["connections"]
            hosts = dict(zip(rows["connection"].to_pylist(), rows["client_host"].to_pylist(), strict=True))
            counts["connections"] = len(rows)
            for name in ("lost_bytes", "skipped_bytes", "oversized_frames", "overfull_holes"):
                counts[name] = sum(rows[name].to_pylist())
    for connection, count in of.items():
        counts["good" if hosts[connection] == GOOD_HOST else "others"] += count
    return {**counts, "faults": [f"{count} x {text}" for text, count in faults.most_common(8)]}


def dumped(path: Path) -> dict:
    """Dump everything, records too."""
    sink, out, err = Sink(), sys.stdout, sys.stderr
    sys.stdout, sys.stderr = io.TextIOWrapper(io.BufferedWriter(sink, 1 << 16)), io.StringIO()
    try:
        code = main(["dump", "--records", "--format", "jsonl", str(path)])
        sys.stdout.flush()
    finally:
        sys.stdout, sys.stderr = out, err
    return {**sink.counts, "exit": code}


def run(names: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="kdissect-bounds-") as folder:
        path = Path(folder, "hazard.pcap")
        make("nothing", path)
        analysed(path), dumped(path)  # so that nothing has to be compiled any more
        for name in names:
            make(name, path)
            said: dict = {"name": name, "bytes": path.stat().st_size}
            for step, work in (("analysed", analysed), ("dumped", dumped)):
                fresh_peak()
                before, began = memory("VmRSS"), time.process_time()
                said[step] = work(path)
                said[step] |= {
                    "seconds": round(time.process_time() - began, 2),
                    "MiB": memory("VmHWM") - before,
                }
            print(json.dumps(said), flush=True)


if __name__ == "__main__":
    run(sys.argv[1:] or [*HAZARDS, *CROWDS])
