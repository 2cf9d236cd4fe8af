"""Figures of calls by API, broker, client and group, as time series want them: added up, and bounded.

In come the partials of batches, in which tasks have added up calls and latencies anyway. Out come sums by
labels that only grow. There are at most MOST_SERIES combinations of labels, and MOST_VALUES values of each.
Later ones are counted under "other", so that captured names cannot fill the memory of whoever
scrapes. The slowest call of each API in a batch is kept as the example of its latency, with file and packet.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kdissect.report.aggregate.histogram import bucket_bounds
from kdissect.report.aggregate.partial_tables import CALLS, CONNECTION_FACTS, FIRST_SEEN, LATENCIES
from kdissect.report.partials import Partial
from kdissect.text import format_address

OTHER = "other"
UNKNOWN = ""
MOST_SERIES = 500
MOST_VALUES = 100
LATENCY_BOUNDS_NS = tuple(base * 10**power for power in range(5, 10) for base in (1, 2, 5))  # 100 µs to 5 s
SUMS = ("exchanges", "errors", "request_bytes", "response_bytes")


class CallLabels(NamedTuple):
    """The subject of the calls."""

    api: str
    broker: str
    client: str
    group: str


class CallExample(NamedTuple):
    """One call of a series."""

    latency_ns: int
    time_ns: int  # of the request
    capture_file: str
    packet: int


@dataclass(slots=True)
class CallSums:
    """Sums of calls."""

    exchanges: int = 0
    errors: int = 0
    unanswered: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    latency_ns: int = 0  # of all that were timed and no wait by design
    by_bound: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BOUNDS_NS) + 1))
    examples: dict[int, CallExample] = field(default_factory=dict)  # the latest, by index of its bound


class CallSeries:
    """See the module's text."""

    def __init__(self) -> None:
        self.series: dict[CallLabels, CallSums] = {}
        self._values: list[set[str]] = [set() for _ in CallLabels._fields]
        self._apis: dict[int, str] = {}  # names by key

    def add(self, finished: Partial, unfinished: Partial) -> None:
        """Add what a batch has finished; connections that are open are named in `unfinished`."""
        brokers = dict(_brokers(unfinished)) | dict(_brokers(finished))
        for row in _rows(finished.table(CALLS)):
            self._apis[row["api_key"]] = row["api_name"] or f"api {row['api_key']}"
            sums = self._sums(self._labels(row, brokers))
            for name in SUMS:
                setattr(sums, name, getattr(sums, name) + row[name])
            sums.unanswered += row["exchanges"] if row["status"] == "unanswered" else 0
            sums.latency_ns += 0 if row["idle_wait"] else row["latency_ns"]
        for row in _latency_rows(finished.table(LATENCIES)):
            self._sums(self._labels(row, brokers)).by_bound[row["bound"]] += row["count_sum"]
        for row in _slowest(finished.table(FIRST_SEEN)):
            self._keep_example(row, brokers)

    def _keep_example(self, row: dict[str, Any], brokers: dict[int, str]) -> None:
        """Keep a call as an example of one of its client's series; which group it was about is not known."""
        bound = int(np.searchsorted(np.array(LATENCY_BOUNDS_NS), -row["order_ns"]))
        wanted = self._labels({**row, "group_id": None}, brokers)[:-1]
        example = CallExample(-row["order_ns"], row["time_ns"], row["capture_file"], row["request_packet"])
        for labels, sums in self.series.items():
            if labels[:-1] == wanted and sums.by_bound[bound]:
                sums.examples[bound] = example
                return

    def _labels(self, row: dict[str, Any], brokers: dict[int, str]) -> CallLabels:
        names = (
            self._apis.get(row["api_key"], f"api {row['api_key']}"),
            brokers.get(row["connection"], UNKNOWN),
            row["client_id"] or UNKNOWN,
            row["group_id"] or UNKNOWN,
        )
        return CallLabels(*(_within(known, name) for known, name in zip(self._values, names, strict=True)))

    def _sums(self, labels: CallLabels) -> CallSums:
        if labels not in self.series and len(self.series) >= MOST_SERIES:
            labels = CallLabels(*[OTHER] * len(labels))
        return self.series.setdefault(labels, CallSums())


def bound_indices(buckets: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return for buckets of the histogram of reports which of LATENCY_BOUNDS_NS is the first above them."""
    upper = bucket_bounds(buckets.to_numpy().astype(np.int64))[1]
    return np.searchsorted(np.array(LATENCY_BOUNDS_NS), upper)


def _within(known: set[str], name: str) -> str:
    if name not in known:
        if len(known) >= MOST_VALUES:
            return OTHER
        known.add(name)
    return name


def _brokers(partial: Partial) -> Iterator[tuple[int, str]]:
    rows = partial.table(CONNECTION_FACTS).select(["connection", "server_host", "server_port"])
    for row in _rows(rows):
        yield row["connection"], format_address(row["server_host"], row["server_port"])


def _slowest(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield where the slowest call of each API is; `order_ns` is minus its latency."""
    yield from _rows(table.filter(pa.compute.equal(table["kind"], "slowest")))


def _latency_rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield counts of latencies by the index of their bound; waits by design are left out."""
    busy = table.filter(pa.compute.invert(table["idle_wait"]))
    bound = bound_indices(busy["bucket"])
    keys = ["connection", "client_id", "api_key", "group_id"]
    counted = busy.select([*keys, "count"]).append_column("bound", pa.array(bound))
    yield from _rows(counted.group_by([*keys, "bound"]).aggregate([("count", "sum")]))


def _rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    for batch in table.to_batches():
        yield from batch.to_pylist()
