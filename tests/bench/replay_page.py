"""Time and memory of replaying a large capture, from reading to the first request: reports/bench-replay.md.

    python -m tests.bench.replay_page CAPTURE [--log LOG] [--larger LOG] [--machines LOG] [--report FILE]

In: a capture, such as the chatty one of `tests.bench.bench`. Out: a page with each command that was run, and
its figures. Memory is that of all processes of a command together (see `measure`). The steps are loading a
log, a plan of it, sending for ten seconds to a target in memory, the same of its Produce requests alone by
one process and by two (the ceiling of the replayer: their connections depend on nothing), the processor time
of one request, and how long the report of a million requests takes after a stop. `--log` takes a log that
`kdissect replay load` has written, and leaves that step out. `--larger` adds rows for a larger log, and
`--machines` those of `tests.bench.replay_machines` for a small one.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from kdissect.replay.load.log_files import open_log
from tests.bench.measure import Run, run

REPOSITORY = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-P", "-m", "kdissect", "replay"]
DRY = ["--dry-target", "--groups", "off", "--pace", "asap"]
SECONDS = "10s"


def shown(words: Sequence[str]) -> str:
    """Return a command as a user types it."""
    return " ".join(["kdissect", "replay", *words])


def row(words: Sequence[str], found: Run) -> str:
    """Return a row of the table for a command."""
    return (
        f"| `{shown(words)}` | {found.seconds:.1f} s | {found.processor_seconds:.1f} s "
        f"| {found.peak_mib:,.0f} MiB |"
    )


def output(command: list[str]) -> list[str]:
    """Return the lines that a command prints."""
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=REPOSITORY)
    return done.stdout.splitlines()


PLAN = ["plan", "LOG", *DRY]
SEND = ["run", "LOG", *DRY, "--execute", "--max-duration", SECONDS]
STOPPED = "1000000"  # requests of a run that is stopped
PRODUCES, PROCESSES = ["--api", "Produce"], ("1", "2")


def page(chosen: argparse.Namespace, log: Path, folder: Path) -> Iterator[str]:
    """Yield the lines of the page."""
    capture, rows = chosen.capture, []
    if chosen.log is None:
        found = run([*PROGRAM, "load", capture, "--out", str(log), "--quiet"], all_memory=True)
        rows.append(row(["load", "CAPTURE", "--out", "LOG"], found))
    facts = open_log(log)
    rows += _rows(log, folder / "run")
    rate = output([*_with_log(SEND, log), "--out", str(folder / "again"), "--quiet"])
    cpu = output([sys.executable, "-m", "tests.bench.replay_cpu", "mixed"])
    stop = output([sys.executable, "-m", "tests.bench.replay_stop", STOPPED])
    yield "# Replay of a large capture\n"
    yield (
        f"{facts.requests:,} requests of {len(facts.connections):,} connections, "
        f"{os.path.getsize(capture) / 1e6:,.0f} MB, on {os.cpu_count()} processors. Memory is the most "
        "that all processes of a command have together.\n"
    )
    more = "".join(f" --{name} LOG" for name in ("larger", "machines") if getattr(chosen, name))
    yield f"    python -m tests.bench.replay_page {os.path.basename(capture)}{more}\n"
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    yield f"The load of the machine was {load} (1, 5 and 15 minutes).\n"
    yield "| command | time | processor time | peak memory |"
    yield "| --- | --- | --- | --- |"
    yield from rows
    yield "\nSent to a target in memory:\n"
    yield from (f"    {line}" for line in rate)
    yield from _ceiling(log, folder)
    yield "\n`python -m tests.bench.replay_cpu mixed`:\n"
    yield from (f"    {line}" for line in cpu)
    yield f"\n`python -m tests.bench.replay_stop {STOPPED}`:\n"
    yield from (f"    {line}" for line in stop)
    if chosen.larger:
        yield f"\nOf a log with {open_log(chosen.larger).requests:,} requests:\n"
        yield "| command | time | processor time | peak memory |"
        yield "| --- | --- | --- | --- |"
        yield from _rows(chosen.larger, folder / "larger")
    if chosen.machines:
        requests = open_log(chosen.machines).requests
        yield (
            f"\n`python -m tests.bench.replay_machines LOG`, with a log of {requests:,} requests, two "
            "workers of a standalone cluster and a broker, all on this machine:\n"
        )
        yield from output([sys.executable, "-m", "tests.bench.replay_machines", str(chosen.machines)])


def _ceiling(log: Path, folder: Path) -> Iterator[str]:
    """Yield how fast the Produce requests of a log are sent to a target in memory, and what one takes."""
    for count in PROCESSES:
        words = [*SEND, *PRODUCES, "--processes", count]
        rate = output([*_with_log(words, log), "--out", str(folder / f"produces-{count}"), "--quiet"])
        yield f"\n`{shown(words)}`:\n"
        yield from (f"    {line}" for line in rate)
    for chosen in ([*PRODUCES, "--processes", PROCESSES[-1]], []):
        words = ["-m", "tests.bench.replay_ceiling", "LOG", *chosen]
        found = output([sys.executable, *(str(log) if word == "LOG" else word for word in words)])
        yield f"\n`python {' '.join(words)}`:\n"
        yield from (f"    {line}" for line in found)


def _rows(log: Path, out: Path) -> Iterator[str]:
    """Yield the rows of a plan, and of sending to a target in memory."""
    yield row(PLAN, run(_with_log(PLAN, log), all_memory=True))
    yield row(SEND, run([*_with_log(SEND, log), "--out", str(out)], all_memory=True))


def _with_log(words: Sequence[str], log: Path) -> list[str]:
    return [*PROGRAM, *(str(log) if word == "LOG" else word for word in words)]


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("capture")
    for name in ("--log", "--larger", "--machines"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--report", type=Path, default=REPOSITORY / "reports" / "bench-replay.md")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = chosen.log or Path(folder) / "log"
        lines = page(chosen, log, Path(folder))
        text = "\n".join(lines) + "\n"
    chosen.report.write_text(text)


if __name__ == "__main__":
    main()
