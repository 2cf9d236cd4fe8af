"""The command: see the package."""

import argparse
import importlib.util
import os
import signal
import sys
from pathlib import Path

from tests.fuzz.case import from_bytes
from tests.fuzz.distil import distil
from tests.fuzz.rounds import MODULES, Job, Length, Setup, play_rounds
from tests.fuzz.targets import STARTS_PROGRAMS, TARGETS
from tests.fuzz.totals import REPORTS, add_turn, spent_by_job
from tests.fuzz.worker import bound

COMPILER = {"on": (True,), "off": (False,), "both": (True, False)}


def jobs_of(names: list[str], engine: str, compiler: str) -> list[Job]:
    """Return the jobs of a run.

    Atheris cannot watch compiled kernels, nor the programs that a command starts.
    """
    if engine == "atheris":
        return [Job(name, engine, False) for name in names if name not in STARTS_PROGRAMS]
    return [Job(name, engine, compiled) for name in names for compiled in COMPILER[compiler]]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="of the clock")
    parser.add_argument("--turn", type=float, default=60, help="seconds of processor time of one process")
    parser.add_argument("--jobs", type=int, default=1, help="processes at the same time")
    parser.add_argument("--seed", type=int, default=None, help="default: another one in each run")
    parser.add_argument("--target", action="append", choices=sorted(TARGETS))
    parser.add_argument("--compiler", choices=COMPILER, default="both")
    parser.add_argument("--engine", choices=MODULES, default="mutator")
    parser.add_argument("--python", default=sys.executable, help="of an environment that has atheris")
    parser.add_argument("--out", type=Path, default=Path("fuzz-failures"))
    parser.add_argument("--report", type=Path, default=REPORTS, help="folder of fuzz.json and fuzz.md")
    parser.add_argument("--no-report", action="store_true", help="leave the report as it is")
    parser.add_argument("--replay", type=Path, metavar="CASE")
    parser.add_argument("--distil", type=Path, metavar="FOLDER")
    return parser.parse_args()


def main() -> int:
    """Run the command; return the exit code: 1 if there was a failure."""
    chosen = _arguments()
    if chosen.replay:
        name = chosen.replay.name.partition("-")[0]
        bound(name)
        TARGETS[name](from_bytes(chosen.replay.read_bytes()))
        return 0
    if chosen.distil:
        distil(chosen.distil, chosen.target or sorted(TARGETS))
        return 0
    if (
        chosen.engine == "atheris"
        and chosen.python == sys.executable
        and not importlib.util.find_spec("atheris")
    ):
        sys.exit(
            "atheris is not installed here: `pip install atheris`, or --python of an environment that has it"
        )
    return run(chosen)


def run(chosen: argparse.Namespace) -> int:
    """Fuzz in turns and count each; return the exit code: 143 after SIGTERM, 130 after SIGINT."""
    setup = Setup(chosen.out, chosen.python)
    numbers: list[int] = []

    def stop(number: int, _frame: object) -> None:
        numbers.append(number)
        setup.processes.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    seed = int.from_bytes(os.urandom(4)) if chosen.seed is None else chosen.seed
    failures = 0
    length = Length(chosen.seconds, chosen.turn, chosen.jobs)
    jobs = jobs_of(chosen.target or list(TARGETS), chosen.engine, chosen.compiler)
    for turn in play_rounds(jobs, length, setup, seed, spent_by_job(chosen.report)):
        failures += turn.failures
        name = f"{turn.job.target} {'compiled' if turn.job.compiled else 'uncompiled'}"
        done = turn.done
        print(f"{name:24} {done.executions:>10,} executions {done.processor_s:>7.1f} s", flush=True)
        if not chosen.no_report:
            add_turn(turn, chosen.report)
    print(f"{failures} kinds of failures", flush=True)
    return 128 + numbers[0] if numbers else int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
