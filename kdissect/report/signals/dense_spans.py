"""Spans of time in which something happens many times a second, for signals about load."""

from collections.abc import Sequence

import numpy as np

from kdissect.array_types import Int64s
from kdissect.report.signals.signal_context import SignalContext
from kdissect.text import format_count

SECOND = 10**9
WINDOW_NS = 5 * SECOND


def until(context: SignalContext, last_ns: int) -> int | None:
    """Return the end of a signal, None if it goes on at the end of the capture."""
    return None if context.end_ns - last_ns < WINDOW_NS else last_ns


def a_second(count: int, begin_ns: int, end_ns: int) -> str:
    """Return the text of so many in a span as a rate."""
    return f"{format_count(round(count * SECOND / max(end_ns - begin_ns, SECOND)))} a second"


def dense_span(times: Int64s, counts: Int64s, rate: int) -> tuple[int, int, int] | None:
    """Return begin, end and count of the longest run of windows with at least `rate` a second; None without.

    `times` ascend. A window is `WINDOW_NS` long and begins at a time.
    """
    stops = np.searchsorted(times, times + WINDOW_NS)
    sums = np.concatenate([[0], np.cumsum(counts)])
    is_dense = sums[stops] - sums[:-1] >= rate * WINDOW_NS // SECOND
    is_dense &= stops - np.arange(len(times)) >= WINDOW_NS // SECOND
    is_dense &= times[stops - 1] - times >= WINDOW_NS // 2
    begins = np.flatnonzero(is_dense)
    if not len(begins):
        return None
    ends = stops[begins]
    breaks = begins[1:] > ends[:-1]  # windows that overlap or touch are one run
    firsts, lasts = begins[np.r_[True, breaks]], ends[np.r_[breaks, True]]
    best = int(np.argmax(sums[lasts] - sums[firsts]))
    begin, total = firsts[best], sums[lasts[best]]
    end = ends[np.searchsorted(sums[ends], total)]  # before windows that add nothing
    return int(times[begin]), int(times[end - 1]), int(total - sums[begin])


def dense_pairs(pairs: Sequence[tuple[int, int]], rate: int) -> tuple[int, int, int] | None:
    """Return the dense span of pairs of time and count, ascending."""
    times, counts = np.array(pairs, np.int64).reshape(-1, 2).T
    return dense_span(times, counts, rate)
