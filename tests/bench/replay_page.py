"""Time and memory of replaying a large capture, from reading to the first request: reports/bench-replay.md.

    python -m tests.bench.replay_page CAPTURE [--log LOG] [--report FILE]

In: a capture, such as the chatty one of `tests.bench.bench`. Out: a page with each command that was run, and
its figures. Memory is that of all processes of a command together (see `measure`). The steps are loading a
log, a plan of it, sending for ten seconds to a target in memory, and the processor time of one request.
`--log` takes a log that `kdissect replay load` has written, and leaves that step out.
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


def page(capture: str, log: Path, folder: Path, loads: bool) -> Iterator[str]:
    """Yield the lines of the page."""
    rows = []
    if loads:
        found = run([*PROGRAM, "load", capture, "--out", str(log), "--quiet"])
        rows.append(row(["load", "CAPTURE", "--out", "LOG"], found))
    facts = open_log(log)
    plan = ["plan", "LOG", *DRY]
    rows.append(row(plan, run(_with_log(plan, log))))
    send = ["run", "LOG", *DRY, "--execute", "--max-duration", SECONDS]
    found = run([*_with_log(send, log), "--out", str(folder / "run")])
    rows.append(row(send, found))
    rate = output([*_with_log(send, log), "--out", str(folder / "again"), "--quiet"])
    cpu = output([sys.executable, "-m", "tests.bench.replay_cpu", "mixed"])
    yield "# Replay of a large capture\n"
    yield (
        f"{facts.requests:,} requests of {len(facts.connections):,} connections, "
        f"{os.path.getsize(capture) / 1e6:,.0f} MB, on {os.cpu_count()} processors. Memory is the most "
        "that all processes of a command have together.\n"
    )
    yield f"    python -m tests.bench.replay_page {os.path.basename(capture)}\n"
    yield "| command | time | processor time | peak memory |"
    yield "| --- | --- | --- | --- |"
    yield from rows
    yield "\nSent to a target in memory:\n"
    yield from (f"    {line}" for line in rate)
    yield "\n`python -m tests.bench.replay_cpu mixed`:\n"
    yield from (f"    {line}" for line in cpu)


def _with_log(words: Sequence[str], log: Path) -> list[str]:
    return [*PROGRAM, *(str(log) if word == "LOG" else word for word in words)]


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("capture")
    parser.add_argument("--log", type=Path)
    parser.add_argument("--report", type=Path, default=REPOSITORY / "reports" / "bench-replay.md")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = chosen.log or Path(folder) / "log"
        lines = page(chosen.capture, log, Path(folder), chosen.log is None)
        text = "\n".join(lines) + "\n"
    chosen.report.write_text(text)


if __name__ == "__main__":
    main()
