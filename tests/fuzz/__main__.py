"""The command: see the package."""

import argparse
import hashlib
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random

from tests.fuzz import captures, seeds, streams, tls
from tests.fuzz.case import Case, from_bytes, to_bytes
from tests.fuzz.damage import damaged
from tests.fuzz.guided import GUIDED, guide
from tests.fuzz.targets import TARGETS

HANG_S = 20
MEMORY = 6 << 30  # bytes of address space
TURN_S = 1.0  # of processor time that a target has before it is the next one's turn


@cache
def frames() -> list[Case]:
    """Return frames of every API, captured ones and random ones."""
    return [*seeds.captured(), *seeds.invented(Random(0))]


CORPORA: dict[str, Callable[[], list[Case]]] = {
    "records": seeds.record_fields,
    "compression": seeds.compressed,
    "old": seeds.old,
    "embedded": lambda: seeds.embedded(Random(0)),
    "reader": captures.seeds,
    "tcp": streams.tcp_seeds,
    "framing": streams.framing_seeds,
    "capture": captures.seeds,
    "tls": tls.seeds,
}  # the seeds of a target; others begin with frames


def corpus_of(name: str) -> list[Case]:
    """Return the cases that a target begins with."""
    return CORPORA.get(name, frames)()


def run(target: Callable[[Case], None], case: Case) -> BaseException | None:
    """Run one case; give what it raised."""
    signal.setitimer(signal.ITIMER_PROF, HANG_S)  # of processor time: the machine may be busy
    try:
        target(case)
    except Exception as wrong:  # noqa: BLE001 - whatever it is, it is what is looked for
        return wrong
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return None


def kind_of(wrong: BaseException) -> str:
    """Name a failure by its type and the innermost places it came from."""
    places = traceback.extract_tb(wrong.__traceback__)[-2:]
    return f"{type(wrong).__name__} {' '.join(f'{Path(it.filename).stem}:{it.lineno}' for it in places)}"


def fuzz(seconds: float, seed: int, names: list[str], out: Path) -> int:
    """Damage and read until the time is over; say what was done, and give how many kinds of failures were
    found."""
    rng = Random(seed)
    found: dict[tuple[str, str], Path] = {}
    done: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    of_target = {name: corpus_of(name) for name in names}
    for name, cases in of_target.items():
        TARGETS[name](cases[0])  # without a clock: it may be the one for which kernels are compiled
    end = time.monotonic() + seconds
    with suppress(KeyboardInterrupt):
        while time.monotonic() < end:
            for name in names:
                began = time.process_time()
                while time.process_time() - began < TURN_S and time.monotonic() < end:
                    once(name, rng, of_target[name], found, out)
                    done[name] += 1
                spent[name] += time.process_time() - began
    for name in names:
        print(f"{name:12} {done[name]:>12,} executions {spent[name]:>8,.0f} s of processor time")
    print(f"{sum(done.values()):,} executions; {len(found)} kinds of failures", flush=True)
    return len(found)


def once(name: str, rng: Random, cases: list[Case], found: dict[tuple[str, str], Path], out: Path) -> None:
    """Damage a case and read it."""
    case = rng.choice(cases)
    read(name, case._replace(data=damaged(rng, case.data, rng.choice(cases).data)), found, out)


def read(name: str, case: Case, found: dict[tuple[str, str], Path], out: Path) -> None:
    """Read a case; keep it if it fails in a new way."""
    wrong = run(TARGETS[name], case)
    if wrong is not None and (name, kind_of(wrong)) not in found:
        raw = to_bytes(case)
        path = out / f"{name}-{hashlib.sha256(raw).hexdigest()[:8]}.bin"
        out.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
        found[name, kind_of(wrong)] = path
        print(f"{path}: {kind_of(wrong)}: {str(wrong)[:300]}", flush=True)


def _hang(_signal: int, _frame: object) -> None:
    raise TimeoutError(f"not done after {HANG_S} s")


def watch() -> None:
    """Bound what a case may take of this process: time, and memory."""
    signal.signal(signal.SIGPROF, _hang)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", action="append", choices=sorted(TARGETS))
    parser.add_argument("--out", type=Path, default=Path("fuzz-failures"))
    parser.add_argument("--replay", type=Path)
    parser.add_argument("--guided", action="store_true", help="by coverage, with atheris")
    chosen = parser.parse_args()
    watch()
    if chosen.replay:
        TARGETS[chosen.replay.name.partition("-")[0]](from_bytes(chosen.replay.read_bytes()))
        return
    if chosen.guided:
        sys.exit(bool(guide(chosen.target or list(GUIDED), chosen.seconds, chosen.seed, chosen.out)))
    sys.exit(bool(fuzz(chosen.seconds, chosen.seed, chosen.target or list(TARGETS), chosen.out)))


if __name__ == "__main__":
    main()
