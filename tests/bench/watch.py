"""A watch that lasts: traffic of 50,000 exchanges a second, for an hour of the capture's time.

    python -m tests.bench.watch SOURCE.pcap [--seconds 3600] [--per-second 50000] [--out] [--write]

SOURCE.pcap is what `python -m tests.bench.record_chatty SOURCE.pcap --exchanges 250000` records, with its
counts in SOURCE.json. Each file repeats all of it, in as much time as the rate says (`synthesis.endless`):
connections stay open from file to file. No more than FILES_AHEAD files wait at a time, so the watch is
never idle, and the disk never full: the watch removes what it has read. `--out` has it write its tables,
too. Figures come from the lines of the watch, its processes and its directory. `--write` writes
reports/bench-watch.md, with plots beside it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kdissect.capture.formats import pcap
from tests.bench.commands import REPOSITORY
from tests.bench.measure import family, pss_kib
from tests.bench.plot import chart
from tests.bench.synthesis import endless, read_packets
from tests.helpers.command import COMMAND, environment

PAGE = REPOSITORY / "reports" / "bench-watch.md"
FILES_AHEAD, FILES_AT_A_TIME = 6, 2
LOOK_SECONDS = 1.0
MIB = 1 << 20
CLOCK_NS = 10**9


@dataclass(frozen=True)
class Moment:
    """Figures after one batch."""

    wall_s: float
    traffic_s: float
    lag_s: float
    """Time of the capture that was written and not read yet."""
    peak_mib: float
    """Memory of all processes since the batch before."""
    state_mib: float
    exchanges: int


@dataclass
class Watched:
    """A watch that is fed, and its figures so far."""

    file_s: float
    """Time of the traffic in each file."""
    began: float = field(default_factory=time.monotonic)
    written: int = 0
    read: int = 0
    peak_mib: float = 0.0
    exchanges: int = 0
    moments: list[Moment] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)

    def feed(self, source: Path, ring: Path, files: int) -> None:
        """Write files into the ring, as far ahead as is allowed."""
        header = source.read_bytes()[: pcap.HEADER_BYTES]
        kind = pcap.read_header(header)
        assert kind is not None
        nano = kind.interface.resolution == 9
        for number, data in enumerate(endless(read_packets(source), nano, round(self.file_s * CLOCK_NS))):
            while self.written - self.read >= FILES_AHEAD and not self.done.is_set():
                time.sleep(0.02)
            if number == files or self.done.is_set():
                return
            part = ring.parent / "part"
            with part.open("wb") as file:
                file.write(header)
                file.write(data.data)
            part.rename(ring / f"kafka-{number:06d}.pcap")
            self.written += 1

    def measure(self, process: int) -> None:
        """Look at the memory of the watch until it has ended."""
        while not self.done.wait(LOOK_SECONDS):
            used = sum(pss_kib(one) for one in family(process)) / 1024
            self.peak_mib = max(self.peak_mib, used)

    def note(self, event: dict[str, Any]) -> None:
        """Add what the watch printed about a batch."""
        # The last file is offered once more when it counts as closed.
        self.read = min(self.read + event["files"], self.written)
        self.exchanges += event["exchanges"]
        peak, self.peak_mib = self.peak_mib, 0.0
        self.moments.append(
            Moment(
                time.monotonic() - self.began,
                self.read * self.file_s,
                (self.written - self.read) * self.file_s,
                peak or (self.moments[-1].peak_mib if self.moments else 0.0),
                event["state_bytes"] / MIB,
                event["exchanges"],
            )
        )
        last = self.moments[-1]
        print(
            f"{last.traffic_s:,.0f} s of traffic in {last.wall_s:,.0f} s, {last.lag_s:.0f} s behind, "
            f"{last.peak_mib:,.0f} MiB, state {last.state_mib:.2f} MiB; batch of {event['files']} files in "
            f"{event['seconds']} s",
            flush=True,
        )


def watch(source: Path, scratch: Path, seconds: int, file_s: float, tables: bool) -> Watched:
    """Watch what is written; return the figures."""
    ring = scratch / "ring"
    ring.mkdir()
    found = Watched(file_s)
    options = ["--keep", "0s", "--settle", "0s", "--until-idle", "20s", "--every", "1s"]
    options += ["--max-files", str(FILES_AT_A_TIME), "--format", "jsonl", "--quiet"]
    options += ["--out", str(scratch / "out")] if tables else ["--checkpoint", str(scratch / "checkpoint")]
    process = subprocess.Popen(
        [*COMMAND, "watch", str(ring), *options], stdout=subprocess.PIPE, text=True, env=environment()
    )
    helpers = [
        threading.Thread(target=found.feed, args=(source, ring, round(seconds / file_s))),
        threading.Thread(target=found.measure, args=(process.pid,)),
    ]
    for helper in helpers:
        helper.start()
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == "interval":
            found.note(event)
    process.wait()
    found.done.set()
    for helper in helpers:
        helper.join()
    if process.returncode:
        raise SystemExit(f"the watch ended with {process.returncode}")
    return found


def page(found: Watched, rate: int, command: str) -> str:
    """Return the report as Markdown."""
    busy = [one for one in found.moments if one.exchanges]
    first, last = busy[0], busy[-1]
    traffic = last.traffic_s - first.traffic_s
    took = last.wall_s - first.wall_s
    rows = {
        "time of the traffic": f"{last.traffic_s:,.0f} s",
        "exchanges": f"{found.exchanges:,} ({found.exchanges / last.traffic_s:,.0f} a second of traffic)",
        "exchanges read a second of the clock, after the first batch": (
            f"{sum(one.exchanges for one in busy[1:]) / took:,.0f}"
        ),
        "seconds of traffic read a second of the clock": f"{traffic / took:.2f}",
        "memory of all processes, highest": f"{max(one.peak_mib for one in found.moments):,.0f} MiB",
        "state on disk, first and highest": (
            f"{first.state_mib:.2f} and {max(one.state_mib for one in found.moments):.2f} MiB"
        ),
        "batches": f"{len(busy)}",
    }
    return "\n".join(
        [
            "# A watch that lasts",
            "",
            f"Made by `{command} --write` on {os.cpu_count()} cores.",
            f"The traffic is a real recording, repeated so that {rate:,} exchanges fall on each second;",
            f"connections stay open. At most {FILES_AHEAD} files of {found.file_s:.1f} s wait,",
            "so the lag below is bounded by how the traffic is fed. The watch keeps up if it reads more than",
            "one second of traffic in each second.",
            "",
            "| | |",
            "| --- | --- |",
            *(f"| {name} | {value} |" for name, value in rows.items()),
            "",
            "![Memory](bench-watch-memory.svg)",
            "![State](bench-watch-state.svg)",
            "![Lag](bench-watch-lag.svg)",
            "",
        ]
    )


def plots(moments: Sequence[Moment]) -> dict[str, str]:
    """Return the plots by file name: a point for each hundredth of the run at most."""
    step = -(-len(moments) // 100)
    shown = moments[::step]
    across = "traffic, minutes"
    lines = {
        "memory": ("Memory of all processes", "MiB", [one.peak_mib for one in shown]),
        "state": ("State of open connections", "MiB", [one.state_mib for one in shown]),
        "lag": ("Traffic written and not read yet", "s", [one.lag_s for one in shown]),
    }
    return {
        f"bench-watch-{name}.svg": chart(
            title, across, unit, {"": [(one.traffic_s / 60, y) for one, y in zip(shown, ys, strict=True)]}
        )
        for name, (title, unit, ys) in lines.items()
    }


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path)
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--per-second", type=int, default=50_000)
    parser.add_argument("--folder", default=None, help="for scratch files")
    parser.add_argument("--out", action="store_true")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    recorded = sum(json.loads(asked.source.with_suffix(".json").read_text())["requests"].values())
    file_s = recorded / asked.per_second
    with tempfile.TemporaryDirectory(prefix="kdissect-bench-watch-", dir=asked.folder) as scratch:
        found = watch(asked.source, Path(scratch), asked.seconds, file_s, asked.out)
    command = (
        f"python -m tests.bench.watch {asked.source.name} --seconds {asked.seconds}{' --out' * asked.out}"
    )
    text = page(found, asked.per_second, command)
    print(text)
    if asked.write:
        PAGE.write_text(text)
        for name, drawing in plots(found.moments).items():
            (PAGE.parent / name).write_text(drawing)
    return 0


if __name__ == "__main__":
    sys.exit(main())
