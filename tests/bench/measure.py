"""One command to its end: how long it took, how much processor, and how much memory all of its processes had
at once.

Memory is the peak of the proportional set size (PSS: shared pages counted once) of a command's processes
together, looked at ten times a second.
"""

import os
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Run:
    """One finished command."""

    seconds: float
    peak_mib: float
    first_line_seconds: float | None = None
    """When the command said something on standard error for the first time."""


def family(root: int) -> list[int]:
    """Return a process and all that descend from it."""
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
    """Return the proportional set size of a process, 0 if it is gone."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def run(command: list[str], **environment: str) -> Run:
    """Run a command to its end, its output thrown away."""
    peak = 0
    began = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=os.environ | environment
    )
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(POLL_SECONDS):
            peak = max(peak, sum(pss_kib(one) for one in family(process.pid)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert process.stderr is not None
    first = process.stderr.readline()
    told = time.perf_counter() - began
    rest = process.stderr.read()
    process.wait()
    seconds = time.perf_counter() - began
    done.set()
    watcher.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed: {(first + rest).decode(errors='replace')}")
    return Run(round(seconds, 2), round(peak / 1024), round(told, 2) if first else None)
