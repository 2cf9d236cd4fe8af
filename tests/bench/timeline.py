"""Timeline of one run: `python -m tests.bench.timeline CAPTURE [--json]`.

Runs `kdissect analyze` in this process with a clock around the steps that wait for each other, in two lanes:
this process, and the thread that brings Spark up meanwhile. Times count from the start of the process. The
last lines are the critical path of a start: nothing can be reported before the last step of both lanes.
"""

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

FIRST = {
    "kdissect.spark.session:Engine.start": "start the JVM",
    "kdissect.spark.startup.jvm:JvmGateway.address": "wait for the JVM",
    "kdissect.spark.session:Engine._build_context": "make the SparkContext",
    "kdissect.spark.session:Engine.context": "wait for Spark",
    "kdissect.spark.session:Engine.rest": "end Spark",
    "kdissect.spark.session:Engine.close": "clean up",
    "kdissect.cli.report_build:ReportInput.summary": "compose the report",
}
"""Clocked functions and their names."""

THEN = {
    "kdissect.capture.index.index:index_captures": "survey",
    "kdissect.capture.index.sampling:rough_sample": "sample",
    "kdissect.spark.jobs:figures": "run the job",
    "kdissect.spark.jobs:merge_figures": "add up",
}
"""The same, in modules that are loaded once the JVM is starting."""

START, LOADING = "kdissect.spark.session:Engine.start", "load modules"

TICKS = os.sysconf("SC_CLK_TCK")


def process_began() -> float:
    """Return when this process began, on the clock of `time.monotonic`, to a hundredth of a second."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return int(fields[19]) / TICKS - time.clock_gettime(time.CLOCK_BOOTTIME) + time.monotonic()


BEGAN = process_began()


def clocked(path: str) -> list[dict[str, Any]]:
    """Analyze a capture; give the steps with their begin and end."""
    seen: list[dict[str, Any]] = []

    def note(name: str, begin: float) -> None:
        lane = "main" if threading.current_thread() is threading.main_thread() else "Spark"
        end = time.monotonic() - BEGAN
        seen.append({"step": name, "lane": lane, "begin": round(begin, 3), "end": round(end, 3)})

    def around(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def clock(*arguments: Any, **named: Any) -> Any:
            begin = time.monotonic() - BEGAN
            try:
                return work(*arguments, **named)
            finally:
                note(name, begin)
                if name == FIRST[START]:
                    begin = time.monotonic() - BEGAN
                    patch(THEN)
                    note(LOADING, begin)

        return clock

    def patch(steps: Mapping[str, str]) -> None:
        for place, name in steps.items():
            module, _, within = place.partition(":")
            owner: Any = import_module(module)
            *outer, last = within.split(".")
            for part in outer:
                owner = getattr(owner, part)
            work = vars(owner)[last]
            wrapped = around(name, work.__func__ if isinstance(work, classmethod) else work)
            setattr(owner, last, classmethod(wrapped) if isinstance(work, classmethod) else wrapped)

    patch(FIRST)
    main = import_module("kdissect.cli").main
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        main(["analyze", path, "--quiet"])
    return sorted(seen, key=lambda step: float(step["begin"]))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("capture")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    steps = clocked(chosen.capture)
    if chosen.json:
        sys.stdout.write(json.dumps(steps) + "\n")
        return
    for step in steps:
        print(
            f"{step['begin']:7.2f} {step['end']:7.2f} {step['end'] - step['begin']:7.2f}  "
            f"{step['lane']:6} {step['step']}"
        )


if __name__ == "__main__":
    main()
