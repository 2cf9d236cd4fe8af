"""The last minute of a watch, by API, client, broker, group, topic and connection, and its course.

In come the reports of batches. A batch is in the window if it ended within WINDOW_NS of the newest one, in
the time of the captures. Quantiles of rows are bounds of the histogram of `call_series`. Every table is
bounded in each batch, so the window is bounded too.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kdissect.live.call_series import LATENCY_BOUNDS_NS, CallLabels, CallSeries, CallSums
from kdissect.live.call_tables import CallTable, by_connection, by_topic
from kdissect.live.watch_events import interval_event
from kdissect.report.aggregate.quantiles import nearest_rank
from kdissect.spark.watch.batch_job import BatchReport

NS_PER_S = 1_000_000_000
WINDOW_NS = 60 * NS_PER_S
COURSE = 200  # batches of which a course is kept
DIMENSIONS = ("api", "client", "broker", "group", "topic", "connection")
BEYOND_NS = LATENCY_BOUNDS_NS[-1] + 1
"""A quantile that is longer than the highest bound: how long is not known."""

WITHOUT_UNANSWERED = ("topic",)
"""A request without a response names its topics, but is not counted for them."""


class CallRow(NamedTuple):
    """A line of a table."""

    name: str
    per_second: float
    p50_ns: int | None  # at most; None without any that was timed
    p99_ns: int | None
    errors: int
    unanswered: int | None  # None if it is not known
    bytes: int


class RowDetail(NamedTuple):
    """All that is known of one row of a table in the window."""

    total: CallRow
    by_api: list[CallRow]
    rates: list[float]  # one for each batch
    p99s_ns: list[float]


class WindowedBatch(NamedTuple):
    """Contribution of one batch to the window."""

    end_ns: int
    span_ns: int
    series: dict[CallLabels, CallSums]
    topics: CallTable
    connections: CallTable

    def sums(self, dimension: str) -> Iterator[tuple[str, str, CallSums]]:
        """Yield name, API and sums of the rows of a table, several for one name."""
        if dimension in ("topic", "connection"):
            table = self.topics if dimension == "topic" else self.connections
            for (name, api), sums in table.items():
                yield name, api, sums
        else:
            for labels, sums in self.series.items():
                yield getattr(labels, dimension), labels.api, sums


class RecentCalls:
    """See the module's text."""

    def __init__(self) -> None:
        self._batches: deque[WindowedBatch] = deque()
        self.rates: deque[float] = deque(maxlen=COURSE)
        self.p99s_ns: deque[float] = deque(maxlen=COURSE)

    def add(self, report: BatchReport) -> None:
        """Add a batch."""
        calls = CallSeries()
        calls.add(report.finished, report.unfinished)
        topics = by_topic(report.finished, report.commit.names)
        connections = by_connection(report.finished, report.unfinished)
        end_ns = report.commit.now_ns
        self._batches.append(WindowedBatch(end_ns, report.span_ns, calls.series, topics, connections))
        while self._batches[0].end_ns <= end_ns - WINDOW_NS:
            self._batches.popleft()
        figures = interval_event(report)
        self.rates.append(figures["per_second"] or 0)
        self.p99s_ns.append(figures["p99_ns"] or 0)

    def rows(self, dimension: str, sort: str) -> list[CallRow]:
        """Return the rows of a table, those with the highest value of the column `sort` first."""
        added: dict[str, CallSums] = {}
        for batch in self._batches:
            for name, _, sums in batch.sums(dimension):
                _add(added.setdefault(name, CallSums()), sums)
        return self._sorted(added, dimension, sort)

    def detail(self, dimension: str, name: str) -> RowDetail:
        """Return what is known of one row of a table."""
        total, by_api = CallSums(), dict[str, CallSums]()
        rates, p99s_ns = list[float](), list[float]()
        for batch in self._batches:
            own = CallSums()
            for found, api, sums in batch.sums(dimension):
                if found == name:
                    _add(own, sums)
                    _add(by_api.setdefault(api, CallSums()), sums)
            _add(total, own)
            rates.append(own.exchanges * NS_PER_S / max(batch.span_ns, 1))
            p99s_ns.append(_bound_at(own.by_bound, 990) or 0)
        rows = self._sorted(by_api, dimension, "per_second")
        return RowDetail(self._row(name, total, dimension), rows, rates, p99s_ns)

    def _sorted(self, added: dict[str, CallSums], dimension: str, sort: str) -> list[CallRow]:
        rows = [self._row(name, sums, dimension) for name, sums in added.items()]
        return sorted(rows, key=lambda row: (-(getattr(row, sort) or 0), row.name))

    def _row(self, name: str, sums: CallSums, dimension: str) -> CallRow:
        seconds = max(sum(batch.span_ns for batch in self._batches) / NS_PER_S, 1e-9)
        p50, p99 = (_bound_at(sums.by_bound, mille) for mille in (500, 990))
        unanswered = None if dimension in WITHOUT_UNANSWERED else sums.unanswered
        size = sums.request_bytes + sums.response_bytes
        return CallRow(name, sums.exchanges / seconds, p50, p99, sums.errors, unanswered, size)


def _add(total: CallSums, more: CallSums) -> None:
    for name in ("exchanges", "errors", "unanswered", "request_bytes", "response_bytes"):
        setattr(total, name, getattr(total, name) + getattr(more, name))
    total.by_bound = [one + other for one, other in zip(total.by_bound, more.by_bound, strict=True)]


def _bound_at(counts: Sequence[int], per_mille: int) -> int | None:
    """Return the bound below which a quantile lies; BEYOND_NS for what is longer than the highest one."""
    rank, total = nearest_rank(sum(counts), per_mille), 0
    bounds: tuple[int, ...] = (*LATENCY_BOUNDS_NS, BEYOND_NS)
    for bound, count in zip(bounds, counts, strict=True):
        total += count
        if count and total >= rank:
            return bound
    return None
