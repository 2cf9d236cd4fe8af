"""The goals of speed and memory: the first table of the benchmark's page, which says what is reached."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tests.bench import other_commands

AIMS = {"chatty": 12.0, "chatty-5m": 40.0, "mixed": 10.0, "bulk": 4.0}  # times as fast as tshark
AIM_OF_RATE = {"mixed": 2.0, "bulk": 3.0}  # GB/s after the start
AIM_BESIDE_ANCHOR = 8.0  # times the processor time
START_AIMS = {"warm_seconds": 1.6, "first_line_seconds": 0.13, "first_run_seconds": 6.0}
SINGLE_AIM = 3.0  # s per GB after the start
MANY_AIM = 8.0  # s
BOUND_MIB, FIRST_RUN_BOUND_MIB, EXPORT_BOUND_MIB = 954, 1_430, 954  # 1.0, 1.5 and 1.0 GB

Found = dict[str, Any]


class Goal(NamedTuple):
    """The goal of one figure. It is reached if the figure, as shown, is no more (or no less)."""

    told: str
    value: Callable[[Found], float]
    """The figure. Raise `LookupError` if it was not measured."""
    aim: float | Callable[[Found], float]
    shown: str = "{:.1f} s"
    at_least: bool = False


def row_of(found: Found, section: str, name: str) -> dict[str, Any]:
    """Return what was measured on one capture. Raise `LookupError` if nothing was."""
    for row in found[section]:
        if row["capture"] == name:
            return dict(row)
    raise LookupError(name)


def after_start(found: Found, section: str, name: str) -> float:
    """Return the seconds of `analyze` that a small capture does not take."""
    took = row_of(found, section, name)["seconds"]["kdissect"] - found["start"]["warm_seconds"]
    return max(float(took), 0.001)


def gigabytes(found: Found, section: str, name: str) -> float:
    """Return the size of a capture."""
    return float(row_of(found, section, name)["bytes"]) / 1e9


def beside_anchor(found: Found) -> float:
    """Return how many times the native program's processor time kdissect takes after its start."""
    used = row_of(found, "captures", "chatty")["processor_seconds"]
    return float((used["kdissect"] - found["start"]["processor_seconds"]) / max(used["anchor"], 0.01))


def peaks(found: Found) -> Iterator[tuple[float, str]]:
    """Yield the peak memory of every command of kdissect that was measured, with its name."""
    for section in ("captures", "sizes", "shapes"):
        for row in found.get(section, []):
            yield row["peak_mib"]["kdissect"], row["capture"]
    for name, peak in found.get("commands", {}).get("peak_mib", {}).items():
        yield peak, name


def highest(found: Found) -> float:
    """Return the highest peak. Raise `LookupError` if no command was measured."""
    if measured := list(peaks(found)):
        return max(measured)[0]
    raise LookupError


def times_goal(name: str) -> Goal:
    """Return the goal of a capture against tshark."""
    return Goal(
        f"{name}: whole process, times as fast as tshark",
        lambda found: (
            row_of(found, "captures", name)["seconds"]["tshark"]
            / row_of(found, "captures", name)["seconds"]["kdissect"]
        ),
        AIMS[name],
        "{:.1f}",
        at_least=True,
    )


def rate_goal(name: str) -> Goal:
    """Return the goal of what is read a second after the start."""
    return Goal(
        f"{name}: read after the start",
        lambda found: gigabytes(found, "captures", name) / after_start(found, "captures", name),
        AIM_OF_RATE[name],
        "{:.2f} GB/s",
        at_least=True,
    )


def command_goal(name: str, aim: float | None) -> Goal:
    """Return the goal of another command; without `aim`, as long as `analyze` takes."""

    def seconds(found: Found, command: str = name) -> float:
        return float(found["commands"]["seconds"][command])

    return Goal(
        f"`{name}` of 1,000,000 exchanges, whole process"
        + ("" if aim else ": as long as `analyze` without a filter"),
        seconds,
        aim or (lambda found: seconds(found, other_commands.PLAIN)),
    )


def start_goal(name: str, told: str) -> Goal:
    """Return a goal of a small capture."""
    return Goal(told, lambda found: found["start"][name], START_AIMS[name], "{:.2f} s")


ANCHOR_GOAL = Goal(
    "chatty: processor time after the start, times a native program's",
    beside_anchor,
    AIM_BESIDE_ANCHOR,
    "{:.1f}",
)
"""Left out if no native program was measured."""

GOALS = (
    *map(times_goal, AIMS),
    ANCHOR_GOAL,
    *map(rate_goal, AIM_OF_RATE),
    Goal(
        "one connection that carries everything: each GB after the start",
        lambda found: after_start(found, "shapes", "single") / gigabytes(found, "shapes", "single"),
        SINGLE_AIM,
    ),
    Goal(
        "100,000 connections, all open at once",
        lambda found: row_of(found, "shapes", "many")["seconds"]["kdissect"],
        MANY_AIM,
    ),
    *(
        command_goal(name, command.goal_seconds)
        for name, command in other_commands.COMMANDS.items()
        if name != other_commands.PLAIN
    ),
    Goal(
        "`export --table all`: peak memory of all processes",
        lambda found: found["commands"]["peak_mib"]["export --table all"],
        EXPORT_BOUND_MIB,
        "{:,.0f} MiB",
    ),
    start_goal("warm_seconds", "small capture"),
    start_goal("first_line_seconds", "small capture: first line"),
    start_goal("first_run_seconds", "small capture: first run of a fresh install"),
    Goal(
        "peak memory of all processes, the highest of all captures and commands",
        highest,
        BOUND_MIB,
        "{:,.0f} MiB",
    ),
    Goal(
        "peak memory of a first run, which compiles: 100,000 connections",
        lambda found: found["first_run"]["peak_mib"],
        FIRST_RUN_BOUND_MIB,
        "{:,.0f} MiB",
    ),
)


def table(found: Found) -> Iterator[str]:
    """Yield the table of all goals."""
    yield ""
    yield "## The goals"
    yield ""
    yield "| | measured | goal | |"
    yield "| --- | --- | --- | --- |"
    native = any("anchor" in row.get("processor_seconds", {}) for row in found.get("captures", []))
    for goal in GOALS:
        if goal is ANCHOR_GOAL and not native:
            continue
        measured, aim, verdict = cells(goal, found)
        yield f"| {goal.told} | {measured} | {aim} | {verdict} |"
    yield ""
    yield (
        "A GB is 10^9 bytes, so 1.0 GB are 954 MiB and 1.5 GB are 1,430. After the start means: without the "
        "time of a small capture."
    )


def cells(goal: Goal, found: Found) -> tuple[str, str, str]:
    """Return the figure, the goal and whether it is reached, as text."""
    try:
        aim = goal.aim if isinstance(goal.aim, int | float) else goal.aim(found)
    except LookupError:
        return "not measured", "", ""
    bound = "at least" if goal.at_least else "at most"
    aim_told = f"{bound} {goal.shown.format(aim)}"
    try:
        measured = goal.shown.format(goal.value(found))
    except LookupError:
        return "not measured", aim_told, ""
    figure, least_or_most = number(measured), number(goal.shown.format(aim))
    reached = figure >= least_or_most if goal.at_least else figure <= least_or_most
    return measured, aim_told, "reached" if reached else "**not reached**"


def number(shown: str) -> float:
    """Return the number that a text begins with."""
    return float(shown.split(maxsplit=1)[0].replace(",", ""))
