"""The tables of a comparison, once for the text and the page: columns, and rows of numbers, text or None.

Counts are exact, since the sums are to be checked. Durations are written as everywhere, see `kdissect.text`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kdissect.replay.results.glossary import CAUSES, change_of, first_place
from kdissect.report.render.table import TableColumn
from kdissect.text import format_duration

Report = Mapping[str, Any]
Value = int | str | None

LATENCIES = (  # key of the report, how the columns begin, percentiles
    ("captured_ms", "captured ", ("p50", "p99")),
    ("service_ms", "service ", ("p50", "p99", "max")),
    ("response_ms", "response ", ("p50", "p99", "max")),
)
LAGS = ("p50", "p99", "max")


class RunTable(NamedTuple):
    """A table without its looks."""

    columns: tuple[TableColumn, ...]
    rows: list[tuple[Value, ...]]


def words(*titles: str) -> tuple[TableColumn, ...]:
    """Return columns of text, which stand left."""
    return tuple(TableColumn(title, right=False) for title in titles)


def figures(*titles: str) -> tuple[TableColumn, ...]:
    """Return columns of numbers, which stand right."""
    return tuple(TableColumn(title) for title in titles)


def sum_of_requests(accounting: Mapping[str, int]) -> str:
    """Return the identity that holds for every run."""
    sent, skipped = accounting["sent"], accounting["skipped"]
    return f"{accounting['captured']:,} captured = {sent:,} sent + {skipped:,} skipped"


def skipped_table(report: Report) -> RunTable:
    """Return why requests were skipped."""
    return RunTable(
        (*figures("requests"), *words("skipped as", "reason")),
        [(each["requests"], each["bucket"], each["reason"]) for each in report["skipped"]],
    )


def error_table(report: Report, errors: Iterable[Mapping[str, Any]]) -> RunTable:
    """Return errors of the capture against those of the run."""
    start_ns = report["capture"]["start_ns"]
    return RunTable(
        (
            *figures("requests"),
            *words("API", "captured", "replayed", "what became of it", "first at"),
        ),
        [
            (
                error["requests"],
                error["api"],
                error["captured"],
                error["replayed"],
                change_of(error),
                first_place(error, start_ns),
            )
            for error in errors
        ],
    )


def record_table(report: Report) -> RunTable:
    """Return the records that were acknowledged, by topic."""
    return RunTable(
        (*words("topic", "on the target"), *figures("captured", "replayed")),
        [
            (topic["topic"], topic["target"], topic["captured"], topic["replayed"])
            for topic in report["records"]["topics"]
        ],
    )


def latency_table(report: Report) -> RunTable:
    """Return percentiles by API and version, without idle waits."""
    titles = [f"{start if name == names[0] else ''}{name}" for _, start, names in LATENCIES for name in names]
    columns = figures("requests", *titles, "ratio of p99", "idle waits", "throttled")
    rows: list[tuple[Value, ...]] = [
        (name, *_latency(latency)) for name, latency in report["latency"].items()
    ]
    return _without_empty_columns(RunTable((*words("API"), *columns), rows))


def _without_empty_columns(table: RunTable) -> RunTable:
    kept = [
        number for number in range(len(table.columns)) if any(row[number] is not None for row in table.rows)
    ]
    return RunTable(
        tuple(table.columns[number] for number in kept),
        [tuple(row[number] for number in kept) for row in table.rows],
    )


def _latency(latency: Mapping[str, Any]) -> Iterable[Value]:
    yield latency["requests"]
    for key, _, names in LATENCIES:
        yield from _durations(latency[key], names)
    ratio = latency["p99_ratio"]
    yield None if ratio is None else f"{ratio:.2f}{' (few)' if latency['few'] else ''}"
    yield latency["idle_polls"] or None
    yield format_duration(latency["throttle_ms"] * 1_000_000) if latency["throttle_ms"] else None


def lag_table(report: Report) -> RunTable:
    """Return how late requests were sent, by cause."""
    return RunTable(
        (*words("cause", "what it is"), *figures("requests", *LAGS)),
        [
            (cause, CAUSES.get(cause, ""), lag["requests"], *_durations(lag["ms"], LAGS))
            for cause, lag in report["lag"]["causes"].items()
        ],
    )


def worker_table(report: Report) -> RunTable:
    """Return the workers of a run by several machines, with their shares of the load."""
    return RunTable(
        (
            *words("worker", "host"),
            *figures("requests", "bytes", "connections", "ended", "started", "clock differs"),
            *words("lost"),
        ),
        [
            (
                f"worker {worker['number']}",
                worker["host"],
                worker["requests"],
                worker["bytes"],
                worker["connections"],
                worker["ended"],
                None if worker["start_ms"] is None else f"+{_duration(worker['start_ms'])}",
                _duration(abs(worker["clock_offset_ms"])),
                worker["lost"] or None,
            )
            for worker in report["run"].get("workers") or ()
        ],
    )


def start_spread(workers: Sequence[Mapping[str, Any]]) -> str:
    """Return how far apart workers have started, and how far their clocks are from the driver's."""
    starts = [worker["start_ms"] for worker in workers if worker["start_ms"] is not None]
    known = len(starts) == len(workers)  # nobody knows when a worker started that was lost
    spread = _duration(max(starts) - min(starts)) if known else "unknown"
    apart = _duration(max(abs(worker["clock_offset_ms"]) for worker in workers))
    return f"start spread {spread}; clocks differ from the driver's by {apart} at most"


def offset_table(report: Report) -> RunTable:
    """Return by which rules the offsets of each partition were translated."""
    return RunTable(
        words("partition", "offsets translated by"),
        [
            (partition, ", ".join(f"{rule} × {count:,}" for rule, count in rules.items()))
            for partition, rules in report["run"]["offsets"]["rules"].items()
        ],
    )


def rewrite_table(report: Report) -> RunTable:
    """Return how many requests were changed in each way, beside names and ids."""
    return RunTable(
        (*figures("requests"), *words("rewrite")),
        [(count, rewrite) for rewrite, count in report["rewrites"].items()],
    )


def _duration(value_ms: float) -> str:
    return format_duration(round(value_ms * 1_000_000))


def _durations(values_ms: Mapping[str, float] | None, names: Iterable[str]) -> Iterable[Value]:
    """Return durations as text; None where nothing was measured."""
    return [None if values_ms is None else _duration(values_ms[name]) for name in names]
