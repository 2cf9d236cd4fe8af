"""Processes that fuzz in turns, each with one target, one engine and the compiler on or off.

In: which targets, for how long, and the processor time that each job had in earlier runs. Out: `Turn` by
turn, what was done. The next turn belongs to the subject that has had the least processor time, and in it to
the job that has had the least. A process that ends by a signal, or is not done long after its turn, leaves
the case that it was reading: that case is kept as a failure. `Processes.stop` ends a run early; its turns
count as far as they came.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.progress import Done, read_progress
from tests.fuzz.subjects import SUBJECT_OF
from tests.fuzz.worker import MOST_KINDS, keep

PATIENCE = 20  # times the length of a turn that its process may take: the machine may be busy
START_S = 600  # that it may take besides: kernels are compiled, and seeds are read
MODULES = {"mutator": "tests.fuzz.worker", "atheris": "tests.fuzz.guided"}


class Job(NamedTuple):
    """Work of a process in its turns."""

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


class Processes:
    """The processes of a run, which `stop` ends: it may be called by a signal handler."""

    def __init__(self) -> None:
        self.stopped = False
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()

    def run(self, command: list[str], environment: dict[str, str], most_s: float) -> int | None:
        """Run a process; return its exit code, or None if `stop` ended it or was called before."""
        with self._lock:
            if self.stopped:
                return None
            process = subprocess.Popen(command, env=environment, start_new_session=True)
            self._running.add(process)
        timer = threading.Timer(most_s, end_session, [process, signal.SIGKILL])
        timer.start()
        code = process.wait()
        timer.cancel()
        with self._lock:
            self._running.discard(process)
            return None if self.stopped and not 0 <= code <= MOST_KINDS else code

    def stop(self) -> None:
        """End all processes, and start no more."""
        with self._lock:
            self.stopped = True
            for process in self._running:
                end_session(process, signal.SIGTERM)


def end_session(process: subprocess.Popen[bytes], number: int) -> None:
    """Send a signal to a process and to the programs that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def next_job(free: list[Job], spent: Mapping[Job, float]) -> Job:
    """Return the job whose subject has had the least processor time, and in that subject the least itself."""
    by_subject: defaultdict[str, float] = defaultdict(float)
    for job, seconds in spent.items():
        by_subject[SUBJECT_OF[job.target]] += seconds
    return min(free, key=lambda job: (by_subject[SUBJECT_OF[job.target]], spent.get(job, 0.0)))


@dataclass(frozen=True, slots=True)
class Setup:
    """Settings for the processes of a run."""

    out: Path  # where cases that fail are kept
    python: str = sys.executable
    processes: Processes = field(default_factory=Processes)


def play_rounds(
    jobs: list[Job], length: Length, setup: Setup, seed: int, spent_before: Mapping[Job, float] | None = None
) -> Iterator[Turn]:
    """Yield the turns of jobs until the time is over or `stop` is called.

    Turns that have begun are finished when the time is over. `spent_before` has the processor time of earlier
    runs in seconds.
    """
    spent = defaultdict(float, spent_before or {})
    end = time.monotonic() + length.seconds
    running: dict[Future[Turn], Job] = {}
    with ThreadPoolExecutor(length.jobs) as threads:
        while True:
            while len(running) < length.jobs and time.monotonic() < end and not setup.processes.stopped:
                free = [job for job in jobs if job not in running.values()]
                if not free:
                    break
                job = next_job(free, spent)
                turn_s = min(length.turn_s, max(end - time.monotonic(), 1))
                seed += 1
                running[threads.submit(_take_turn, job, turn_s, seed, setup)] = job
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job, turn = running.pop(future), future.result()
                spent[job] += max(turn.done.processor_s, 1.0)
                yield turn


def _take_turn(job: Job, turn_s: float, seed: int, setup: Setup) -> Turn:
    """Run the process of a turn."""
    with tempfile.TemporaryDirectory(prefix="kdissect-fuzz-", ignore_cleanup_errors=True) as folder:
        progress = Path(folder, "progress")
        arguments = [job.target, str(turn_s), str(seed), str(setup.out), str(progress)]
        environment = os.environ | {"TMPDIR": folder}
        environment.pop("KDISSECT_JIT", None)
        if not job.compiled:
            environment["KDISSECT_JIT"] = "0"
        command = [setup.python, "-m", MODULES[job.engine], *arguments]
        code = setup.processes.run(command, environment, START_S + PATIENCE * turn_s)
        done = read_progress(progress)
    if code is None:
        return Turn(job, done, 0)
    failures = code if 0 < code <= MOST_KINDS else int(code != 0)
    if code < 0 and done.case:
        kept = keep(job.target, done.case, setup.out)
        print(f"{kept}: the process ended by signal {-code}", flush=True)
    return Turn(job, done, failures)
