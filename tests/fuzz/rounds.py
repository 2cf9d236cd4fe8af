"""Processes that fuzz in turns, each with one target, one engine and the compiler on or off.

In: which targets, for how long. Out: `Turn` by turn, what was done. The next turn belongs to the job that has
had the least processor time in this run. A process that ends by a signal, or is not done long after its turn,
leaves the case that it was reading: that case is kept as a failure.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.progress import Done, read_progress
from tests.fuzz.worker import MOST_KINDS, keep

PATIENCE = 20  # times the length of a turn that its process may take: the machine may be busy
START_S = 600  # that it may take besides: kernels are compiled, and seeds are read
MODULES = {"mutator": "tests.fuzz.worker", "atheris": "tests.fuzz.guided"}


class Job(NamedTuple):
    """What a process does in its turns."""

    target: str
    engine: str  # of MODULES
    compiled: bool


class Turn(NamedTuple):
    """One turn of a job."""

    job: Job
    done: Done
    failures: int


@dataclass(frozen=True, slots=True)
class Length:
    """How long a run takes, and its turns."""

    seconds: float  # of the run, by the clock
    turn_s: float  # of processor time; atheris counts by the clock
    jobs: int  # processes at the same time


def play_rounds(
    jobs: list[Job], length: Length, out: Path, seed: int, python: str = sys.executable
) -> Iterator[Turn]:
    """Yield the turns of jobs until the time is over; the turns that have begun are finished."""
    spent = dict.fromkeys(jobs, 0.0)
    end = time.monotonic() + length.seconds
    running: dict[Future[Turn], Job] = {}
    with ThreadPoolExecutor(length.jobs) as threads:
        while True:
            while len(running) < length.jobs and time.monotonic() < end:
                free = [job for job in jobs if job not in running.values()]
                if not free:
                    break
                job = min(free, key=spent.__getitem__)
                turn_s = min(length.turn_s, max(end - time.monotonic(), 1))
                seed += 1
                running[threads.submit(_take_turn, job, turn_s, seed, out, python)] = job
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job, turn = running.pop(future), future.result()
                spent[job] += max(turn.done.processor_s, 1.0)
                yield turn


def _take_turn(job: Job, turn_s: float, seed: int, out: Path, python: str) -> Turn:
    """Run the process of a turn."""
    with tempfile.TemporaryDirectory(prefix="kdissect-fuzz-") as folder:
        progress = Path(folder, "progress")
        command = [
            python,
            "-m",
            MODULES[job.engine],
            job.target,
            str(turn_s),
            str(seed),
            str(out),
            str(progress),
        ]
        environment = os.environ | {"TMPDIR": folder}
        environment.pop("KDISSECT_JIT", None)
        if not job.compiled:
            environment["KDISSECT_JIT"] = "0"
        process = subprocess.Popen(command, env=environment, start_new_session=True)
        timer = threading.Timer(START_S + PATIENCE * turn_s, process.kill)
        timer.start()
        code = process.wait()
        timer.cancel()
        done = read_progress(progress)
    failures = code if 0 < code <= MOST_KINDS else int(code != 0)
    if code < 0 and done.case:
        print(f"{keep(job.target, done.case, out)}: the process ended by signal {-code}", flush=True)
    return Turn(job, done, failures)
