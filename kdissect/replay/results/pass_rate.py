"""How fast a pass was sent: what a run into a target in memory reports, since its answers mean nothing."""

from kdissect.replay.engine.pass_results import ResultTable


def requests_per_second(results: ResultTable) -> tuple[int, float]:
    """Return how many requests were sent, and how many that is for each second from the first to the last."""
    sent, first_ns, last_ns = 0, None, 0
    for result in results:
        if result.sent_ns is not None:
            sent += 1
            first_ns = result.sent_ns if first_ns is None else min(first_ns, result.sent_ns)
            last_ns = max(last_ns, result.received_ns or result.sent_ns)
    if first_ns is None or last_ns <= first_ns:
        return sent, 0.0
    return sent, sent * 1e9 / (last_ns - first_ns)


def rate_text(results: ResultTable) -> str:
    """Return the rate of a pass as a line of text."""
    sent, rate = requests_per_second(results)
    return f"{sent:,} requests sent to memory, {rate:,.0f} a second"
