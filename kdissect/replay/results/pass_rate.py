"""How fast a pass was sent: what a run into a target in memory reports, since its answers mean nothing."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kdissect.replay.engine.pass_results import ResultTable
from kdissect.text import escape


class SendingTime(NamedTuple):
    """How many requests were sent, and when the first and the last one were.

    The times of answers do not count: a pass that a limit ends skips its rest before it reads the last ones.
    """

    requests: int = 0
    first_ns: int = 0
    last_ns: int = 0

    @property
    def per_second(self) -> float:
        """Return how many requests were sent in each second of sending; 0 if there was no such second."""
        span_ns = self.last_ns - self.first_ns
        return (self.requests - 1) * 1e9 / span_ns if span_ns > 0 else 0.0

    def moved(self, by_ns: int) -> "SendingTime":
        """Return the same on a clock that is ahead by some time."""
        return SendingTime(self.requests, self.first_ns + by_ns, self.last_ns + by_ns)


def sending_time(results: ResultTable) -> SendingTime:
    """Return when the requests of a pass were sent."""
    sent_ns = results.sent_ns()
    if not len(sent_ns):
        return SendingTime()
    return SendingTime(len(sent_ns), int(sent_ns.min()), int(sent_ns.max()))


def together(times: Iterable[SendingTime]) -> SendingTime:
    """Return when several senders were sending, on one clock: from the first request to the last one."""
    sending = [each for each in times if each.requests]
    return SendingTime(
        sum(each.requests for each in sending),
        min((each.first_ns for each in sending), default=0),
        max((each.last_ns for each in sending), default=0),
    )


def rate_text(sent: SendingTime) -> str:
    """Return the rate of a pass as a line of text."""
    return f"{sent.requests:,} requests sent to memory, {sent.per_second:,.0f} a second"


class WorkerRate(NamedTuple):
    """How fast one of several workers sent."""

    name: str
    lost: str  # why it was lost; "" if it was not
    sent: SendingTime


def worker_rates_text(workers: Sequence[WorkerRate]) -> Iterable[str]:
    """Yield the rate of a pass by several workers, and that of each of them."""
    yield rate_text(together(each.sent for each in workers))
    for each in workers:
        fate = f"lost: {each.lost}" if each.lost else rate_text(each.sent)
        yield escape(f"  {each.name}: {fate}")
