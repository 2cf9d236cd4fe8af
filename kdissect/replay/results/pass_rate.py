"""How fast a pass was sent: what a run into a target in memory reports, since its answers mean nothing."""

import sys

from kdissect.replay.engine.pass_results import ResultTable


def requests_per_second(results: ResultTable) -> tuple[int, float]:
    """Return how many requests were sent, and how many that is for each second of sending.

    The times of answers do not count: a pass that a limit ends skips its rest before it reads the last ones.
    """
    sent, first_ns, last_ns = 0, sys.maxsize, 0
    for result in results:
        if result.sent_ns is not None:
            sent, first_ns, last_ns = sent + 1, min(first_ns, result.sent_ns), max(last_ns, result.sent_ns)
    return sent, (sent - 1) * 1e9 / (last_ns - first_ns) if last_ns > first_ns else 0.0


def rate_text(results: ResultTable) -> str:
    """Return the rate of a pass as a line of text."""
    sent, rate = requests_per_second(results)
    return f"{sent:,} requests sent to memory, {rate:,.0f} a second"
