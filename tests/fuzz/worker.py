"""A process that fuzzes one target: it damages cases of the corpus and reads them, until its time is over.

    python -m tests.fuzz.worker NAME SECONDS SEED DIR PROGRESS

SECONDS are of processor time. The process also ends when the one that started it is gone. The environment
decides whether kernels are compiled (`KDISSECT_JIT`). A case that fails in a new way is kept in DIR. The exit
code is the number of kinds of failures, at most 100.
"""

import hashlib
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.fuzz.case import Case, to_bytes
from tests.fuzz.corpus import corpus_of
from tests.fuzz.damage import damaged
from tests.fuzz.progress import Progress
from tests.fuzz.targets import STARTS_PROGRAMS, TARGETS

HANG_S = 20  # of processor time, for one case
MEMORY = 6 << 30  # bytes of address space
MOST_KINDS = 100  # what an exit code can tell


class Findings:
    """The kinds of failures of one target, with the file of the first case of each."""

    def __init__(self, name: str, out: Path) -> None:
        self.name, self.out = name, out
        self.kinds: dict[str, Path] = {}

    def read(self, case: Case) -> None:
        """Read a case; keep it if it fails in a new way."""
        error = run(TARGETS[self.name], case)
        if error is not None and kind_of(error) not in self.kinds:
            self.kinds[kind_of(error)] = path = keep(self.name, to_bytes(case), self.out)
            print(f"{path}: {kind_of(error)}: {str(error)[:300]}", flush=True)


def keep(name: str, raw: bytes, out: Path) -> Path:
    """Write a case into DIR and return its path."""
    path = out / f"{name}-{hashlib.sha256(raw).hexdigest()[:8]}.bin"
    out.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    return path


def run(target: Callable[[Case], None], case: Case) -> BaseException | None:
    """Run one case; return what it raised."""
    signal.setitimer(signal.ITIMER_PROF, HANG_S)  # of processor time: the machine may be busy
    try:
        target(case)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what is looked for
        return error
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return None


def kind_of(error: BaseException) -> str:
    """Name a failure by its type and the innermost places it came from."""
    places = traceback.extract_tb(error.__traceback__)[-2:]
    return f"{type(error).__name__} {' '.join(f'{Path(it.filename).stem}:{it.lineno}' for it in places)}"


def _hang(_signal: int, _frame: object) -> None:
    raise TimeoutError(f"not done after {HANG_S} s")


def bound(name: str) -> None:
    """Bound what a case may take of this process: time, and memory unless it starts programs."""
    signal.signal(signal.SIGPROF, _hang)
    if name not in STARTS_PROGRAMS:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def spent_s() -> float:
    """Return the processor time of this process and of the programs that it has started and that ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def fuzz(name: str, seconds: float, seed: int, out: Path, progress: Progress) -> int:
    """Damage and read until the time is over. Return how many kinds of failures there were."""
    rng, cases = Random(seed), corpus_of(name)
    TARGETS[name](cases[0])  # without a limit: it may be the one for which kernels are compiled
    findings = Findings(name, out)
    began_s, parent = spent_s(), os.getppid()
    while (done_s := spent_s() - began_s) < seconds and os.getppid() == parent:
        case = rng.choice(cases)
        case = case._replace(data=damaged(rng, case.data, rng.choice(cases).data))
        progress.begin(to_bytes(case))
        findings.read(case)
        progress.end(done_s)
    return len(findings.kinds)


def main(name: str, seconds: str, seed: str, out: str, progress: str) -> int:
    """Fuzz as the arguments say; return the exit code."""
    bound(name)
    with Progress(Path(progress)) as written:
        return min(fuzz(name, float(seconds), int(seed), Path(out), written), MOST_KINDS)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
