"""Time `kdissect analyze` against tshark on the same captures, in turn, as whole processes on the same machine.

    python -m tests.bench.record_chatty chatty.pcap
    python -m tests.bench.record_bulk bulk.pcap
    python tests/bench/against_tshark.py chatty.pcap bulk.pcap --runs 3 --out reports

tshark dissects Kafka on every server port and prints one line of seven fields per message; kdissect prints its report, Spark's
start included. What counts is the ratio of medians in one run; seconds change with the machine. Memory is the peak of
the proportional set size (PSS: shared pages counted once) of all processes of a command together, looked at ten
times a second. Written are `bench.json` and `bench.md`.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from kdissect.capture.files import open_inputs
from kdissect.capture.scan import scan
from kdissect.capture.survey import survey

FIELDS = (
    "frame.number",
    "frame.time_epoch",
    "tcp.stream",
    "kafka.api_key",
    "kafka.api_version",
    "kafka.correlation_id",
    "kafka.len",
)
POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Run:
    """One finished command."""

    seconds: float
    peak_mib: float


def server_ports(path: Path) -> list[int]:
    """Tell the ports that servers use in a capture: the lower one of each connection of its first part."""
    split = survey(open_inputs([str(path)], ".").files).splits[0]
    pieces = scan(split).to_pylist()
    return sorted({min(row["a_port"], row["b_port"]) for row in pieces if row["piece"] >= 0})


def tshark_command(path: Path, ports: list[int]) -> list[str]:
    """Give the command that dissects every Kafka message of a capture."""
    decode = [word for port in ports for word in ("-d", f"tcp.port=={port},kafka")]
    fields = [word for name in FIELDS for word in ("-e", name)]
    return ["tshark", "-r", str(path), *decode, "-Y", "kafka", "-T", "fields", *fields]


def family(root: int) -> list[int]:
    """Give a process and all that descend from it."""
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path(f"/proc/{entry}/stat").read_text()
            except OSError:
                continue
            parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry))
    found, waiting = [], [root]
    while waiting:
        process = waiting.pop()
        found.append(process)
        waiting += parents.get(process, [])
    return found


def pss_kib(process: int) -> int:
    """Give the proportional set size of a process, 0 if it is gone."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def run(command: list[str]) -> Run:
    """Run a command to its end, its output thrown away."""
    peak = 0
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(POLL_SECONDS):
            peak = max(peak, sum(pss_kib(one) for one in family(process.pid)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, errors = process.communicate()
    seconds = time.perf_counter() - began
    done.set()
    watcher.join()
    if process.returncode:
        raise SystemExit(f"{command[0]} failed: {errors}")
    return Run(round(seconds, 2), round(peak / 1024))


def versions() -> dict[str, str]:
    """Tell what was measured, and on what."""
    tshark = subprocess.run(["tshark", "--version"], capture_output=True, text=True, check=True).stdout
    processor = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    return {
        "tshark": tshark.splitlines()[0],
        "python": platform.python_version(),
        "processor": f"{processor}, {os.cpu_count()} cores",
    }


def measured(path: Path, runs: int) -> dict[str, object]:
    """Measure one capture: both commands in turn, after one run of each that does not count."""
    commands = {
        "kdissect": [sys.executable, "-m", "kdissect", "analyze", str(path), "--quiet"],
        "tshark": tshark_command(path, server_ports(path)),
    }
    found: dict[str, list[Run]] = {name: [] for name in commands}
    for turn in range(runs + 1):
        for name, command in commands.items():
            if turn == 0 and name == "tshark":
                continue  # its warm-up is the page cache, which the first run of the other one fills
            one = run(command)
            if turn:
                found[name].append(one)
                print(f"{path.name}  {name:9}{one.seconds:8.2f} s {one.peak_mib:6.0f} MiB", flush=True)
    seconds = {name: statistics.median(one.seconds for one in done) for name, done in found.items()}
    return {
        "capture": path.name,
        "bytes": path.stat().st_size,
        "runs": {name: [asdict(one) for one in done] for name, done in found.items()},
        "seconds": seconds,
        "peak_mib": {name: max(one.peak_mib for one in done) for name, done in found.items()},
        "times_as_fast": round(seconds["tshark"] / seconds["kdissect"], 2),
    }


def page(facts: dict[str, str], rows: list[dict[str, object]]) -> str:
    """Write the table for people."""
    lines = [
        "# kdissect against tshark", "",
        f"Whole processes, medians of runs in turn; {facts['tshark']}, Python {facts['python']}; {facts['processor']}.", "",
        "| capture | size | kdissect | tshark | times as fast | peak memory of kdissect, all processes | of tshark |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]  # fmt: skip
    for row in rows:
        seconds, peak = row["seconds"], row["peak_mib"]
        lines.append(
            f"| {row['capture']} | {row['bytes'] / 1e6:,.0f} MB | {seconds['kdissect']:.1f} s | {seconds['tshark']:.1f} s "  # type: ignore[index,operator]
            f"| {row['times_as_fast']} | {peak['kdissect']:,.0f} MiB | {peak['tshark']:,.0f} MiB |"  # type: ignore[index]
        )
    return "\n".join(
        [
            *lines,
            "",
            "Made by `python tests/bench/against_tshark.py chatty.pcap bulk.pcap` (see its first lines).",
            "",
        ]
    )


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("captures", nargs="+", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("reports"))
    chosen = parser.parse_args()
    if not shutil.which("tshark"):
        raise SystemExit("tshark is not installed")
    facts, rows = versions(), [measured(path, chosen.runs) for path in chosen.captures]
    for row in rows:
        print(f"{row['capture']}: {row['times_as_fast']} times as fast as tshark")
    chosen.out.mkdir(exist_ok=True)
    (chosen.out / "bench.json").write_text(json.dumps({**facts, "captures": rows}, indent=2) + "\n")
    (chosen.out / "bench.md").write_text(page(facts, rows))


if __name__ == "__main__":
    main()
