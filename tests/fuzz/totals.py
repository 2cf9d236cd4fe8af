"""Totals of fuzzing in all runs: figures in `reports/fuzz.json`, and the page `reports/fuzz.md` made of them.

A row is a target, an engine and the compiler on or off. The figures of a turn are added to those of all turns
before, under a lock and by a new file in the place of the old one: runs that are interrupted, or go on at the
same time, add up.
"""

import fcntl
import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.fuzz.rounds import Job, Turn
from tests.fuzz.subjects import SUBJECT_OF, SUBJECTS, WHAT_IT_READS

ROOT = Path(__file__).parents[2]
REPORTS = ROOT / "reports"
DATA, PAGE = "fuzz.json", "fuzz.md"
FIGURES = ("turns", "executions", "processor_s", "new_coverage", "failures")
PAGE_HEAD = """# Fuzzing, in figures

`python -m tests.fuzz` writes this page and adds to its figures. [docs/fuzzing.md](../docs/fuzzing.md)
explains the targets, and lists what was found.

{executions:,} executions in {hours:.1f} hours of processor time, {since} to {until}, at {commits} commits
({span}).

## By subject

The aim is an hour of processor time each ({aim:,.0f} s).

| subject | executions | processor time, compiler on | compiler off | both | of the hour |
| --- | ---: | ---: | ---: | ---: | ---: |
"""
BY_TARGET = """
## By target

New coverage is the number of inputs that reached new code. A failure is a kind of failure in one turn of a
process, so one defect counts in each turn until it is mended.

| target | what it reads | engine | compiler | executions | processor time | new coverage | failures |
| --- | --- | --- | --- | ---: | ---: | ---: | ---: |
"""
SPENT_S = 3600.0  # of processor time that each subject should have had


def add_turn(turn: Turn, folder: Path = REPORTS) -> None:
    """Add a turn to the figures in a folder, and write their page anew."""
    with _locked(folder):
        kept = _read(folder)
        _add(turn, kept)
        _replace(folder / DATA, json.dumps(kept, indent=1) + "\n")
        _replace(folder / PAGE, "\n".join(_lines(kept)) + "\n")


def spent_by_job(folder: Path = REPORTS) -> dict[Job, float]:
    """Return the processor time of each job in all runs, in seconds."""
    spent = {}
    for name, row in _read(folder)["rows"].items():
        target, engine, compiler = name.split()
        spent[Job(target, engine, compiler == "on")] = float(row["processor_s"])
    return spent


def _add(turn: Turn, kept: dict[str, Any]) -> None:
    job = turn.job
    row = kept["rows"].setdefault(
        f"{job.target} {job.engine} {'on' if job.compiled else 'off'}", dict.fromkeys(FIGURES, 0)
    )
    row["turns"] += 1
    row["executions"] += turn.done.executions
    row["processor_s"] = round(row["processor_s"] + turn.done.processor_s, 1)
    row["new_coverage"] = max(row["new_coverage"], turn.done.new_coverage)
    row["failures"] += turn.failures
    kept["until"] = datetime.now(UTC).strftime("%Y-%m-%d")
    kept.setdefault("since", kept["until"])
    if (commit := _commit()) not in kept["commits"]:
        kept["commits"].append(commit)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other runs from the figures: the lock is on their folder, since the files are replaced."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(path: Path, text: str) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(text, "utf-8")
    part.replace(path)


def _read(folder: Path) -> dict[str, Any]:
    if (folder / DATA).exists():
        kept: dict[str, Any] = json.loads((folder / DATA).read_text("utf-8"))
        return kept
    return {"commits": [], "rows": {}}


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "rev-parse", "--short=9", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def _lines(kept: dict[str, Any]) -> list[str]:
    rows = kept["rows"]
    executions = sum(row["executions"] for row in rows.values())
    hours = sum(row["processor_s"] for row in rows.values()) / 3600
    commits = kept["commits"]
    span = ", ".join(commits[:1] + commits[-1:]) if len(commits) > 1 else "".join(commits)
    lines = PAGE_HEAD.format(
        executions=executions,
        hours=hours,
        since=kept.get("since", ""),
        until=kept.get("until", ""),
        commits=len(commits),
        span=span,
        aim=SPENT_S,
    ).splitlines()
    lines += [*_subject_rows(rows), *BY_TARGET.splitlines()]
    for name, row in sorted(rows.items()):
        target, engine, compiler = name.split()
        coverage = f"{row['new_coverage']:,}" if engine == "atheris" else ""
        lines.append(
            f"| {target} | {WHAT_IT_READS[target]} | {engine} | {compiler} | {row['executions']:,} "
            f"| {row['processor_s']:,.0f} s | {coverage} | {row['failures']:,} |"
        )
    return lines


def _subject_rows(rows: dict[str, dict[str, Any]]) -> list[str]:
    spent: defaultdict[tuple[str, str], float] = defaultdict(float)
    executions: defaultdict[str, int] = defaultdict(int)
    for name, row in rows.items():
        target, _engine, compiler = name.split()
        subject = SUBJECT_OF[target]
        spent[subject, compiler] += row["processor_s"]
        executions[subject] += row["executions"]
    lines = []
    for subject in SUBJECTS:
        on, off = spent[subject, "on"], spent[subject, "off"]
        lines.append(
            f"| {subject} | {executions[subject]:,} | {on:,.0f} s | {off:,.0f} s | {on + off:,.0f} s "
            f"| {(on + off) / SPENT_S:.0%} |"
        )
    return lines
