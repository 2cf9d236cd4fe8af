"""Savings of each start-up shortcut: `python -m tests.bench.startup [--runs 5] [--capture FILE]`.

A small capture is analyzed by default, with each shortcut that is used by default off, with each other one
on, and with all off, in turns, so that all variants meet the same machine. The table has the median wall-
clock and processor time of each variant, and what it takes more than by default. Caches are warm: the class
archive exists and the kernels are compiled.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from kdissect.startup_switch import DEFAULT, PLAIN, STARTUP_VARIABLE, Shortcut
from tests.bench.archives import await_archives
from tests.bench.commands import compile_modules
from tests.helpers.command import COMMAND, environment

CAPTURE = Path(__file__).parents[2] / "captures" / "pause.pcapng"
VARIANTS = {
    "default": "",
    **{
        f"{'without' if name in DEFAULT else 'with'} {name}": f"{'-' if name in DEFAULT else '+'}{name}"
        for name in Shortcut
    },
    "all off": PLAIN,
}
Times = tuple[float, float]


def run_once(capture: Path, switch: str) -> Times:
    """Return seconds of wall-clock and of processor time of one analysis."""
    before, begun = os.times(), time.monotonic()
    subprocess.run(
        [*COMMAND, "analyze", str(capture), "--quiet"],
        env=environment(**{STARTUP_VARIABLE: switch}), check=True, stdout=subprocess.DEVNULL, timeout=600,
    )  # fmt: skip
    wall, after = time.monotonic() - begun, os.times()
    return wall, after.children_user + after.children_system - before.children_user - before.children_system


def measure(capture: Path, runs: int) -> dict[str, Times]:
    """Return the median times of every variant, each run once per turn, after one turn that warms the
    caches."""
    times: dict[str, list[Times]] = {name: [] for name in VARIANTS}
    for turn in range(runs + 1):
        for name, switch in VARIANTS.items():
            times[name].append(run_once(capture, switch))
            sys.stderr.write(f"turn {turn} of {runs}: {name} {times[name][-1][0]:.2f} s\n")
            if turn == 0:
                await_archives()
    return {
        name: (statistics.median(wall for wall, _ in some[1:]), statistics.median(cpu for _, cpu in some[1:]))
        for name, some in times.items()
    }


def table(medians: dict[str, Times]) -> str:
    """Return the medians as a Markdown table."""
    wall_on, cpu_on = medians["default"]
    rows = ["| start | wall clock | processor time | more than by default |", "| --- | --- | --- | --- |"]
    rows += [
        (
            f"| {name} | {wall:.2f} s | {cpu:.2f} s | "
            f"{f'{wall - wall_on:.2f} s, {cpu - cpu_on:.2f} s' if name != 'default' else ''} |"
        )
        for name, (wall, cpu) in medians.items()
    ]
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description="Measure what each start-up shortcut saves.")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--capture", type=Path, default=CAPTURE)
    chosen = parser.parse_args(arguments)
    compile_modules()
    print(table(measure(chosen.capture, chosen.runs)))


if __name__ == "__main__":
    main()
