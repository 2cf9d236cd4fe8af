"""Check whether one broker is slower than the others all the time, not only for a moment.

In come rows of PACE, out goes the share of the capture in which a broker was slower. The capture is divided
into equal spans. Within a span the same clients are compared with themselves at other brokers where they talk
to both: some wait for all replicas, others for the leader only.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.report.aggregate.grouping import TableColumns, encode, group_rows
from kdissect.report.aggregate.histogram import middle
from kdissect.report.query.topic_names import Address
from kdissect.report.timeline.signal_tables import PACE_CELL_BITS

SPANS = 10
FEWEST_SPANS = 4
SPAN_CALLS = 5
"""A broker is compared in a span in which it, and the others, answered so many calls."""


class TimedCalls(NamedTuple):
    """Calls of one API: the span, number and client of each row, and log2 of its latency in ns."""

    span: Int64s
    calls: Int64s
    client: Int64s
    latency: np.ndarray


class SteadyPace:
    """The paces of all brokers of a capture."""

    def __init__(self, pace: TableColumns) -> None:
        """Keep the rows of PACE that have a latency."""
        self._pace = pace.filter((pace.ints("cell") >= 0) & pace.present("cell"))

    def slower_share(self, api_key: int, address: Address, times: float) -> float | None:
        """Return in which share of the capture's spans calls took `times` as long as elsewhere.

        None if too few spans can be compared.
        """
        rows = self._pace.filter(self._pace.ints("api_key") == api_key)
        if not rows.rows:
            return None
        hosts, ports = (rows.values(name) for name in ("server_host", "server_port"))
        own = np.array([pair == address for pair in zip(hosts, ports, strict=True)], bool)
        ratios = list(_ratios(_read(rows), own))
        if len(ratios) < FEWEST_SPANS:
            return None
        return float(np.mean(np.array(ratios) >= np.log2(times)))


def _read(rows: TableColumns) -> TimedCalls:
    step = rows.ints("step")
    width = max(int(step.max() - step.min() + 1) / SPANS, 1.0)
    clients = group_rows(*(encode(rows.column(name)) for name in ("client_id", "client_host")))
    return TimedCalls(
        span=((step - step.min()) / width).astype(np.int64),
        calls=rows.ints("exchanges"),
        client=clients.of,
        latency=np.log2(np.maximum(middle(rows.ints("cell") << PACE_CELL_BITS), 1)),
    )


def _ratios(pace: TimedCalls, own: Bools) -> Iterator[float]:
    """Yield log2 of the latency at the broker over that elsewhere, for each span that can be compared."""
    for span in np.unique(pace.span).tolist():
        now = pace.span == span
        both = np.intersect1d(pace.client[now & own], pace.client[now & ~own])
        common = np.isin(pace.client, both)
        pairs = [now & own & common, now & ~own & common]
        if _fewest(pace, pairs) < SPAN_CALLS:
            pairs = [now & own, now & ~own]
        if _fewest(pace, pairs) >= SPAN_CALLS:
            levels = [
                float((pace.calls[mask] * pace.latency[mask]).sum() / pace.calls[mask].sum())
                for mask in pairs
            ]
            yield levels[0] - levels[1]


def _fewest(pace: TimedCalls, masks: Iterable[Bools]) -> int:
    return min(int(pace.calls[mask].sum()) for mask in masks)
