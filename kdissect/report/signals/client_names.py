"""The groups, topics and times of activity of each client, by the name that signals use."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from functools import cached_property

from kdissect.protocol.api_keys import ApiKey
from kdissect.report.aggregate.partial_tables import CALLS
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.signal_tables import LOAD, PACE
from kdissect.report.wording import client_text

BEGAN_NS = 5 * 10**9
"""A client that fails within this time after its first request fails since it began."""


class ClientFacts:
    """What the capture tells of clients by name."""

    def __init__(self, context: SignalContext) -> None:
        self._context = context

    @cached_property
    def groups(self) -> dict[str, set[str]]:
        """Return the groups that each client names in its requests."""
        calls = self._context.table(CALLS)
        hosts = self._context.facts.column_at("client_host", self._context.facts.rows(calls)).to_pylist()
        names, groups = (calls.arrow(name).to_pylist() for name in ("client_id", "group_id"))
        found: dict[str, set[str]] = defaultdict(set)
        for name, host, group in zip(names, hosts, groups, strict=True):
            if group is not None:
                found[client_text(name, host)].add(group)
        return found

    @cached_property
    def written(self) -> dict[str, set[str]]:
        """Return the topics that each client wrote to."""
        found: dict[str, set[str]] = defaultdict(set)
        for row in self._context.partial.table(LOAD).to_pylist():
            topic = self._context.topics.name(row["topic"], row["topic_id"])
            if row["api_key"] == ApiKey.PRODUCE and topic is not None:
                found[client_text(row["client_id"], row["client_host"])].add(topic)
        return found

    @cached_property
    def _activity(self) -> dict[str, list[int]]:
        times: dict[str, list[int]] = defaultdict(list)
        for row in self._context.partial.table(PACE).to_pylist():
            times[client_text(row["client_id"], row["client_host"])] += [row["first_ns"], row["last_ns"]]
        return {client: sorted(found) for client, found in times.items()}

    def began(self, client: str, time_ns: int) -> int:
        """Return when a client began, if that is seen and was just before `time_ns`, else `time_ns`."""
        times = self._activity.get(client, [])
        is_new = bool(times) and times[0] - self._context.begin_ns > BEGAN_NS
        return times[0] if is_new and 0 <= time_ns - times[0] <= BEGAN_NS else time_ns

    def active_before(self, client: str, time_ns: int) -> int | None:
        """Return the last time before `time_ns` at which a client sent a request, None if there is none."""
        times = self._activity.get(client, [])
        at = bisect_left(times, time_ns)
        return times[at - 1] if at else None

    def active_after(self, client: str, time_ns: int) -> int | None:
        """Return the first time after `time_ns` at which a client sent a request, None if there is none."""
        times = self._activity.get(client, [])
        at = bisect_right(times, time_ns)
        return times[at] if at < len(times) else None
