"""Writes the benchmark's page and plots from `bench.json`, and nothing that is not in it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench import goals, other_commands
from tests.bench.goals import (
    AIM_BESIDE_ANCHOR,
    AIM_OF_RATE,
    AIMS,
    BOUND_MIB,
    MANY_AIM,
    SINGLE_AIM,
    START_AIMS,
)
from tests.bench.plot import chart
from tests.bench.sizing import sizing

SHAPE_AIMS = {"single": f"{SINGLE_AIM:.0f} s per GB after the start", "many": f"{MANY_AIM:.0f} s"}


def write(folder: Path) -> None:
    """Write `bench.md` and the plots beside `bench.json`."""
    found = json.loads((folder / "bench.json").read_text())
    (folder / "bench.md").write_text("\n".join(lines(found)) + "\n")
    if found.get("sizes"):
        rows = [
            (row["bytes"] / 1e9, row["seconds"]["kdissect"], row["peak_mib"]["kdissect"])
            for row in found["sizes"]
        ]
        (folder / "bench-size.svg").write_text(
            chart(
                "Time against size",
                "capture, GB",
                "seconds",
                {"kdissect": [(size, time) for size, time, _ in rows]},
            )
        )
        memory = {"kdissect, all processes": [(size, peak) for size, _, peak in rows]}
        (folder / "bench-memory.svg").write_text(
            chart("Peak memory against size", "capture, GB", "MiB", memory)
        )
    if found.get("cores"):
        work = {"kdissect": [(float(cores), seconds) for cores, seconds in found["cores"]["seconds"].items()]}
        (folder / "bench-cores.svg").write_text(chart("Time against cores", "cores", "seconds", work))


def lines(found: dict[str, Any]) -> Iterator[str]:
    """Yield the page line by line."""
    yield "# Speed and memory, measured"
    yield ""
    yield (
        f"{found['tshark']} Python {found['python']}. {found['processor']}. kdissect at "
        f"{found['commit']}. The times are medians "
        "of whole processes, which ran in turns, including the start of Spark. Compare the ratios: "
        "seconds depend on the machine."
    )
    yield (
        f"The load average was {found['load_before']:.1f} before and {found['load_after']:.1f} after; "
        "if it was above 0.5 before, other processes used the machine, and all figures are too high."
    )
    yield ""
    yield (
        f"`python -m tests.bench.bench {found.get('words', '--folder DIR')}` makes the captures, this page "
        "and the plots. tshark runs once on captures above 1 GB; all else is the median of "
        f"{found.get('runs', 'several')} runs, if nothing else is said. Memory of kdissect is that of a run "
        "of its own, which is not timed: a look at the memory of processes slows them."
    )
    yield ""
    if took := found.get("took"):
        yield (
            f"The measurement took {sum(took.values()) / 60:.0f} minutes: "
            f"{', '.join(f'{name} {seconds:.0f} s' for name, seconds in took.items())}."
        )
    yield from failures(found.get("failed"))
    yield from goals.table(found)
    start = found.get("start")
    yield from starts(start, found.get("first_run"))
    yield from timeline(found.get("timeline"))
    if start:
        yield from against(found["captures"], start["warm_seconds"])
        yield from beside_anchor(found["captures"], start.get("processor_seconds", 0.0))
    yield from other_commands.page(found.get("commands"))
    yield from stages(found["stages"])
    if start:
        yield from growth(found)
        yield from sizing(found)
    yield from small(found.get("light"))


def failures(failed: dict[str, str] | None) -> Iterator[str]:
    """Yield why a part has no figures."""
    for part, reason in (failed or {}).items():
        yield ""
        yield f"**Not measured: {part}.** {reason}"


def starts(start: dict[str, Any] | None, first: dict[str, Any] | None) -> Iterator[str]:
    """Yield how long a small capture takes, and what a first run on a large one does."""
    if start:
        yield ""
        yield (
            f"A small capture takes {start['warm_seconds']:.1f} s. Its first line appears after "
            f"{start['first_line_seconds']:.2f} s. "
            f"With an empty cache it takes {start['first_run_seconds']:.1f} s. The goals are "
            f"{START_AIMS['warm_seconds']:.1f}, {START_AIMS['first_line_seconds']:.2f} and "
            f"{START_AIMS['first_run_seconds']:.1f} s."
        )
    if first:
        yield ""
        yield (
            f"With an empty cache, {first['told']} ({first['bytes'] / 1e9:.1f} GB) took "
            f"{first['seconds']:.1f} s in one run, with a peak of {first['peak_mib']:,.0f} MiB."
        )


def timeline(row: dict[str, Any] | None) -> Iterator[str]:
    """Yield the steps of a start: what bounds every capture."""
    if row:
        yield ""
        yield "## Where the time of a start goes"
        yield ""
        yield (
            f"`python -m tests.bench.timeline CAPTURE`: {row['capture']}, the fastest of several runs, "
            "in seconds since the process began. "
            "Java loads Spark from an archive of its classes and runs it mostly uncompiled, and the "
            "job waits for that."
        )
        yield ""
        yield "| begin | end | takes | main thread | meanwhile, in Java |"
        yield "| --- | --- | --- | --- | --- |"
        for step in row["steps"]:
            cells = f"{step['step']} | " if step["lane"] == "main" else f" | {step['step']}"
            begin, end = step["begin"], step["end"]
            yield f"| {begin:.2f} | {end:.2f} | {end - begin:.2f} | {cells} |"


def small(row: dict[str, Any] | None) -> Iterator[str]:
    """Yield what every run of the tests compares itself with."""
    if row:
        yield ""
        yield "## In every run of the tests"
        yield ""
        yield (
            f"`python -m tests.bench.light`, a part of `.ci/run`: {row['capture']}, "
            f"{row['bytes'] / 1e6:.0f} MB: kdissect "
            f"{row['seconds']['kdissect']:.1f} s, tshark {row['seconds']['tshark']:.1f} s, "
            f"{row['times_as_fast']:.1f} times as fast. Most of "
            "the time is the start of Spark. The test fails below half of that ratio."
        )


def against(rows: list[dict[str, Any]], start: float) -> Iterator[str]:
    """Yield the table of comparisons, and what bounds those that are not as fast as they should be."""
    yield ""
    yield "## Against tshark"
    yield ""
    yield (
        "| capture | size | kdissect | tshark | times as fast | goal | `cat` | peak of kdissect, all "
        "processes | of tshark |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for row in rows:
        seconds, peak = row["seconds"], row["peak_mib"]
        yield (
            f"| {row['capture']}: {row['told']} | {row['bytes'] / 1e6:,.0f} MB | {seconds['kdissect']:.1f} s "
            f"| {seconds['tshark']:.1f} s | {row['times_as_fast']:.1f} | {AIMS[row['capture']]:.0f} | "
            f"{seconds['cat']:.1f} s "
            f"| {peak['kdissect']:,.0f} MiB | {peak['tshark']:,.0f} MiB |"
        )
    for row in rows:
        if row["times_as_fast"] < AIMS[row["capture"]]:
            yield ""
            yield bound(row, start)
    for row in rows:
        if "dpkt loop" in row["seconds"]:
            yield ""
            yield (
                f"A loop of dpkt that only finds the TCP payload of each packet of {row['capture']} takes "
                f"{row['seconds']['dpkt loop']:.1f} s. pyshark reads the output of tshark, so it "
                "cannot be faster than tshark."
            )


def bound(row: dict[str, Any], start: float) -> str:
    """Return where the time of a capture goes that takes longer than it should."""
    took, tshark, size = row["seconds"]["kdissect"], row["seconds"]["tshark"], row["bytes"] / 1e9
    aim = tshark / AIMS[row["capture"]]
    after = max(took - start, 0.001)
    rate = AIM_OF_RATE.get(row["capture"])
    rate_told = f" (the goal is {rate:.0f} GB/s)" if rate else ""
    return (
        f"The goal for {row['capture']} is {aim:.1f} s. The start of Spark takes {start:.1f} s of its "
        f"{took:.1f} s, as for a small "
        f"capture. After the start it reads {size / after:.1f} GB/s{rate_told}; `cat` reads "
        f"{size / row['seconds']['cat']:.1f} GB/s. "
        + (
            f"If it took only the start, it would be {tshark / start:.1f} times as fast as tshark."
            if start > aim
            else f"The goal leaves {aim - start:.1f} s after the start."
        )
    )


def beside_anchor(rows: list[dict[str, Any]], start: float) -> Iterator[str]:
    """Yield the processor time after a start of `start` seconds, beside that of a native program."""
    compared = [row for row in rows if "anchor" in row.get("processor_seconds", {})]
    if compared:
        yield ""
        yield "## Against a native program"
        yield ""
        yield (
            "A program of one purpose, compiled to machine code, counts the same requests and responses. All "
            f"figures are processor time. The start, {start:.1f} s, is left out. The goal is at most "
            f"{AIM_BESIDE_ANCHOR} times as much."
        )
        yield ""
        yield "| capture | native | kdissect, after the start | times as much | tshark |"
        yield "| --- | --- | --- | --- | --- |"
        for row in compared:
            used = row["processor_seconds"]
            after = max(used["kdissect"] - start, 0.0)
            yield (
                f"| {row['capture']} | {used['anchor']:.2f} s | {after:.1f} s | "
                f"{after / max(used['anchor'], 0.01):.0f} | {used['tshark']:.1f} s |"
            )


def stages(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the table of stages."""
    if not rows:
        return
    yield ""
    yield "## The stages alone: one process, one core, no Spark"
    yield ""
    yield "| capture | stage | seconds | exchanges per second | GB/s |"
    yield "| --- | --- | --- | --- | --- |"
    for row in rows:
        for stage, seconds in row["seconds"].items():
            exchanges = (
                f"{row['exchanges'] / seconds:,.0f}" if "the same" in stage or "pairing" in stage else ""
            )
            yield (
                f"| {row['capture']} | {stage} | {seconds:.2f} | {exchanges} | "
                f"{row['bytes'] / 1e9 / seconds:.2f} |"
            )


def growth(found: dict[str, Any]) -> Iterator[str]:
    """Yield what size, shape and cores change."""
    if found["sizes"] or found["shapes"]:
        yield ""
        yield "## Size and shape"
        yield ""
        yield "| capture | size | kdissect | seconds per GB | after the start | peak, all processes |"
        yield "| --- | --- | --- | --- | --- | --- |"
        start = found["start"]["warm_seconds"]
        for row in (*found["sizes"], *found["shapes"]):
            seconds, peak = row["seconds"]["kdissect"], row["peak_mib"]["kdissect"]
            goal = SHAPE_AIMS.get(row["capture"])
            above = "" if peak <= BOUND_MIB else ", above 1.0 GB"
            size = row["bytes"] / 1e9
            yield (
                f"| {row['told']}{f' (goal: {goal})' if goal else ''} | {size:.1f} GB | {seconds:.1f} s "
                f"| {seconds / size:.1f} | "
                f"{(seconds - start) / size:.2f} | {peak:,.0f} MiB{above} |"
            )
    if found["sizes"]:
        yield ""
        yield "![time against size](bench-size.svg) ![memory against size](bench-memory.svg)"
    if cores := found.get("cores"):
        one, most = min(cores["seconds"], key=int), max(cores["seconds"], key=int)
        work = {number: cores["seconds"][number] - cores["start_seconds"][number] for number in (one, most)}
        yield ""
        yield (
            f"{cores['capture']} takes {cores['seconds'][one]:.1f} s on one core and "
            f"{cores['seconds'][most]:.1f} s on {most}. "
            f"Without the start (the time of a small capture), {most} cores are "
            f"{work[one] / max(work[most], 0.01):.2f} times as fast as one. "
            "The same number of processes that share nothing, each with the stages alone, do "
            f"{cores['machine']:.2f} times as much "
            "as one, so the machine does not offer more."
        )
        yield ""
        yield "![time against cores](bench-cores.svg)"
