"""Profile of the time of an exchange: `python -m tests.bench.profile CAPTURE [--out FILE] [--runs N]`.

The work of `analyze` on a capture is done in this process, without Spark: index and pass one in one walk, and
the step that Spark's tasks run (`summary_step`). A timer of processor time interrupts it some hundred times
a second (`sampling`), and the time since the last interruption counts for what runs then: a stage, a
function, a call. The whole command is then run on the capture and on a small one. The time beyond the stages
is that of the start, of Spark, the shuffle and the driver.

A sample is noticed when a call into compiled code returns, so the time of a call is right, and that of plain
operators (`a + b` of arrays) counts for the call behind them.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from kdissect.report.partials import from_arrow
from kdissect.report.timeline.grid import SIGNAL_STEPS, grid_over
from kdissect.spark import tasks
from kdissect.spark.figures_step import summary_step
from tests.bench.commands import REPOSITORY, compile_modules, kdissect
from tests.bench.measure import run
from tests.bench.one_walk import index_and_pieces
from tests.bench.sampling import KINDS, Sampled, Seconds, sampled

SMALL = REPOSITORY / "captures" / "steady.pcapng"
FUNCTIONS, CALLS = 30, 40
"""Lines of the tables of functions and of calls."""


class Profile(NamedTuple):
    """Measurements: processor seconds by what runs, exchanges, and the runs that are added up here."""

    samples: Seconds
    exchanges: int
    runs: int

    def ns(self, seconds: float) -> float:
        """Return nanoseconds for each exchange."""
        return seconds * 1e9 / max(1, self.exchanges * self.runs)


def analyze(path: Path) -> int:
    """Do all that tasks and driver do for a report on a capture; return the number of exchanges."""
    found, pieces = index_and_pieces(path)
    grid = grid_over(found.earliest_time_ns, found.latest_time_ns, SIGNAL_STEPS)
    batches = list(summary_step(pieces, found.splits, steps=grid))
    partial = from_arrow(tasks.partials_only(batches))
    calls = partial.tables.get("calls")
    return sum(calls["exchanges"].to_pylist()) if calls is not None else 0


def profile(path: Path, runs: int) -> Profile:
    """Return the profile of some runs over a capture. A run before them loads the compiled loops."""
    analyze(SMALL)
    samples: Seconds = defaultdict(float)
    exchanges = 0
    for _ in range(runs):
        seconds, exchanges = sampled(lambda: analyze(path))
        for one, taken in seconds.items():
            samples[one] += taken
    return Profile(samples, exchanges, runs)


def processor_seconds(command: Sequence[str]) -> float:
    """Return the processor time of a command and of all processes that it starts."""
    return run([*command]).processor_seconds


def page(found: Profile, name: str, whole: tuple[float, float] | None) -> Iterator[str]:
    """Return the lines of the page.

    `whole` has the seconds of the command on the capture and on a small one.
    """
    yield f"# Where the time of {name} goes"
    yield ""
    yield f"{found.exchanges:,} exchanges. All figures are nanoseconds of processor time for each exchange."
    yield "Made by `python -m tests.bench.profile CAPTURE`, which says how it measures."
    yield ""
    yield from _matrix(found)
    if whole:
        yield from _whole(found, *whole)
    yield from _ranking(found, "function", lambda one: one.function, FUNCTIONS)
    yield from _ranking(found, "call", lambda one: f"{one.function}: `{one.call}`", CALLS)


def _matrix(found: Profile) -> Iterator[str]:
    cells: defaultdict[tuple[str, str], float] = defaultdict(float)
    for one, seconds in found.samples.items():
        for key in ((one.stage, one.kind), (one.stage, "all"), ("all", one.kind), ("all", "all")):
            cells[key] += seconds
    stages = sorted({one.stage for one in found.samples}, key=lambda stage: -cells[stage, "all"])
    yield f"| stage | {' | '.join(KINDS)} | all |"
    yield "| --- |" + " ---: |" * (len(KINDS) + 1)
    for stage in (*stages, "all"):
        row = (f"{found.ns(cells[stage, kind]):,.0f}" for kind in (*KINDS, "all"))
        yield f"| {stage} | {' | '.join(row)} |"
    yield ""


def _whole(found: Profile, large: float, small: float) -> Iterator[str]:
    stages = sum(found.samples.values()) / found.runs
    one_run = found._replace(runs=1)
    yield f"The whole command takes {one_run.ns(large):,.0f}. Of these, {one_run.ns(small):,.0f} are the"
    yield f"start (all of a small capture), {one_run.ns(stages):,.0f} the stages above, and"
    yield f"{one_run.ns(large - small - stages):,.0f} Spark, the shuffle, and the driver."
    yield ""


def _ranking(found: Profile, title: str, key: Callable[[Sampled], str], lines: int) -> Iterator[str]:
    totals: defaultdict[tuple[str, str, str], float] = defaultdict(float)
    for one, seconds in found.samples.items():
        totals[key(one), one.stage, one.kind if title == "call" else ""] += seconds
    yield f"| {title} | stage |{' kind |' if title == 'call' else ''} ns |"
    yield "| --- | --- |" + (" --- |" if title == "call" else "") + " ---: |"
    for (text, stage, kind), seconds in sorted(totals.items(), key=lambda item: -item[1])[:lines]:
        middle = f" {kind} |" if kind else ""
        yield f"| {text.replace('|', chr(92) + '|')} | {stage} |{middle} {found.ns(seconds):,.0f} |"
    yield ""


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("capture", type=Path)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--alone", action="store_true", help="leave out the whole command")
    chosen = parser.parse_args()
    compile_modules()
    found = profile(chosen.capture, chosen.runs)
    whole = None
    if not chosen.alone:
        large, small = (processor_seconds(kdissect(path, "--quiet")) for path in (chosen.capture, SMALL))
        whole = large, small
    text = "\n".join(page(found, chosen.capture.name, whole))
    if chosen.out:
        chosen.out.write_text(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
