"""Signals that a gap of the captures makes, and that are none: a watch that was behind has skipped packets.

In a gap nobody sends anything, so servers look silent, followers look stuck, and rates fall and rise again.
Packets that are there speak for themselves: errors, refused and reset connections, latencies.
"""

from collections.abc import Iterable, Iterator

from kdissect.report.model.incidents import Signal
from kdissect.report.model.summary import CaptureGap

MARGIN_NS = 1_500_000_000
"""So near its edges a gap may still be the reason, since rates are counted in steps."""

SILENT_NS = 3_000_000_000
"""A silence counts if it lasted for so long beside the gaps."""

SILENCES = ("server_silent", "follower_silent", "path_silent")
LEVELS = ("rate_rose", "rate_fell", "errors_rose", "requests_open")
"""Changes of a level, and requests whose response may lie in a gap: at a gap nobody knows."""


def without_gaps(signals: Iterable[Signal], gaps: Iterable[CaptureGap], last_ns: int) -> Iterator[Signal]:
    """Yield the signals that do not come from gaps. `last_ns` is the end of the captures."""
    edges = [(gap.begin_ns - MARGIN_NS, gap.end_ns + MARGIN_NS) for gap in gaps]
    for signal in signals:
        begin_ns, end_ns = signal.begin_ns, last_ns if signal.end_ns is None else signal.end_ns
        if signal.kind in LEVELS and any(begin <= begin_ns <= end for begin, end in edges):
            continue
        if signal.kind in SILENCES:
            unseen = sum(max(0, min(end, end_ns) - max(begin, begin_ns)) for begin, end in edges)
            if unseen and end_ns - begin_ns - unseen < SILENT_NS:
                continue
        yield signal
