"""How far readers and groups are behind the ends of logs, as series of time.

In come the positions of the grid of signals: offsets written, fetched and committed, each with its time. Out
go, for each client and topic, the records that it was behind at every moment at which it is known. A client
that stopped to fetch falls behind by what others write meanwhile, though no fetch of it shows that.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from kdissect.report.signals.client_names import BROKERS_OWN, ClientFacts
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.signal_tables import COMMITTED

SECOND = 10**9
PAUSED_NS = 3 * SECOND
"""A reader that waits for records fetches again at once, one that processes them does so sooner than this."""

Partition = tuple[str, int]
"""A topic and the number of a partition."""


class Position(NamedTuple):
    """One fetch or commit: its time, its offset, and the end of the log that the response names."""

    time_ns: int
    offset: int
    end: int


class Lag(NamedTuple):
    """The records that a reader was behind in all its partitions of a topic, at ascending times.

    `before` is the sum of what each partition lacked when it was first seen. `written` are the records that
    were written meanwhile.
    """

    times: list[int]
    records: list[int]
    before: int
    written: int

    def least_since(self, time_ns: int) -> int:
        """Return the smallest lag from a time on; between two commits, that of the later one counts."""
        at = min(bisect_left(self.times, time_ns), len(self.records) - 1)
        return min(self.records[at:])

    def since(self, time_ns: int) -> "Lag":
        """Return the part of a lag from a time on; `written` is at least what it grew by meanwhile."""
        at = min(bisect_left(self.times, time_ns), len(self.records) - 1)
        before = self.records[max(at - 1, 0)]
        return Lag(self.times[at:], self.records[at:], before, max(self.records[-1] - before, 0))


POSITION_COLUMNS = (
    *("client", "client_id", "name", "partition", "kind", "group_id", "order_ns", "offset", "end_offset"),
)


class LogPositions:
    """Positions of readers and writers by partition, and what follows from them."""

    def __init__(self, context: SignalContext) -> None:
        self._context, self._facts = context, context.shared(ClientFacts)
        self.fetched: dict[tuple[str, str], dict[int, list[Position]]] = defaultdict(
            lambda: defaultdict(list)
        )
        """By client and topic, then partition."""
        self.committed: dict[tuple[str, str, str], dict[int, list[Position]]] = defaultdict(
            lambda: defaultdict(list)
        )
        """By client, group and topic, then partition."""
        self.absent: dict[tuple[str, str, str], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        """When a client asked for the offset of its group, and there was none; the keys of `committed`."""
        self._ends: dict[Partition, list[tuple[int, int]]] = defaultdict(list)
        self._read()

    def _read(self) -> None:
        columns = self._context.table(COMMITTED)
        rows = list(self._context.values(COMMITTED, *POSITION_COLUMNS))
        for at in np.lexsort((columns.ints("offset"), -columns.ints("order_ns"))).tolist():
            client, client_id, topic, partition, kind, group, order_ns, offset, end = rows[at]
            if topic is None or partition is None or offset is None:
                continue
            position = Position(-order_ns, offset, end or 0)
            if kind == "absent":
                self.absent[client, group or "?", topic][partition].append(position.time_ns)
            elif kind == "committed":
                self.committed[client, group or "?", topic][partition].append(position)
            else:
                self._ends[topic, partition].append((position.time_ns, position.end))
                if kind == "fetched" and not BROKERS_OWN.fullmatch(client_id or ""):
                    self.fetched[client, topic][partition].append(position)

    @cached_property
    def ends(self) -> dict[Partition, tuple[list[int], list[int]]]:
        """Return the ends of logs that were seen: times, and the highest end until each."""
        found = {}
        for partition, seen in self._ends.items():
            seen.sort()
            found[partition] = [time for time, _ in seen], list(accumulate((end for _, end in seen), max))
        return found

    def end_at(self, partition: Partition, time_ns: int) -> int | None:
        """Return the end of a log at a time: the last that was seen before, or the first that was seen."""
        times, highest = self.ends.get(partition, ([], []))
        return highest[max(bisect_right(times, time_ns) - 1, 0)] if times else None

    def behind_fetching(self, client: str, topic: str) -> Lag | None:
        """Return how far the fetches of a client are behind, None if it has none."""
        partitions = self.fetched.get((client, topic), {})
        lags = {
            number: self._lags_of(client, topic, number, positions)
            for number, positions in partitions.items()
        }
        return self._added_up(topic, lags)

    def behind_committing(self, client: str, group: str, topic: str) -> Lag | None:
        """Return how far the commits of a client are behind, None if no end of a log is known."""
        lags = {}
        for number, positions in self.committed.get((client, group, topic), {}).items():
            ends = [(one, self.end_at((topic, number), one.time_ns)) for one in positions]
            known = [(one.time_ns, max(end - one.offset, 0)) for one, end in ends if end is not None]
            if known:
                lags[number] = known
        return self._added_up(topic, lags)

    def _lags_of(
        self, client: str, topic: str, number: int, positions: list[Position]
    ) -> list[tuple[int, int]]:
        """Return what a client lacks in a partition after each fetch, and at writes while it does not fetch.

        The offset of the next fetch tells how many records one brought. The last one brought as many as the
        one before it, and no more than there were.
        """
        alive = self._alive_until(client, topic, number, positions[-1].time_ns)
        times, highest = self.ends[topic, number]
        last = positions[-1]
        brought = last.offset - positions[-2].offset if len(positions) > 1 else last.end
        following = [(one.offset, one.time_ns) for one in positions[1:]]
        following.append((min(last.end, last.offset + max(brought, 0)), alive))
        lags = []
        for one, (reached, until) in zip(positions, following, strict=True):
            lags.append((one.time_ns, max(one.end - reached, 0)))
            begin, stop = bisect_right(times, one.time_ns + PAUSED_NS), bisect_right(times, until)
            lags += [(times[at], max(highest[at] - reached, 0)) for at in range(begin, stop)]
        return lags

    def _alive_until(self, client: str, topic: str, number: int, last_ns: int) -> int:
        """Return until when a client lacks what is written to a partition that it fetched from last then.

        A client is alive while it sends requests. One that keeps a connection is alive, too, if it has a
        group whose coordinator the capture does not show, and nobody else fetches from that partition: what
        it sends may all go there.
        """
        if self._taken_over(client, topic, number, last_ns):
            return 0
        active = self._facts.active_before(client, self._context.end_ns + 1) or 0
        unseen = client in self._facts.groups and client not in self._facts.members
        if not unseen or client not in self._connected:
            return active
        is_read = self._taken_over(client, topic, number, last_ns, by_anybody=True)
        return active if is_read else self._context.end_ns

    @cached_property
    def _connected(self) -> set[str]:
        """Return the clients that keep a connection to the end of the capture."""
        facts = self._context.connections
        return set(self._context.clients_of(np.flatnonzero(facts.talks & ~facts.ends)))

    def stood_still(self, client: str, topic: str) -> int:
        """Return when a client last got to another offset of a topic."""
        moved = []
        for positions in self.fetched.get((client, topic), {}).values():
            last = positions[-1]
            moved.append(next(one.time_ns for one in positions if one.offset == last.offset))
        return max(moved)

    def left_behind(self, client: str, topic: str, least_ns: int) -> dict[int, tuple[int, int]]:
        """Return partitions that a client stopped to fetch so long ago, while it goes on with others.

        The values are when it fetched from each last, and the records that it lacks there. A partition that
        another client of its group fetches now is none of them.
        """
        partitions = self.fetched.get((client, topic), {})
        newest = max((positions[-1].time_ns for positions in partitions.values()), default=0)
        found = {}
        for number, positions in partitions.items():
            last_ns = positions[-1].time_ns
            if newest - last_ns >= least_ns and not self._taken_over(client, topic, number, last_ns):
                end = self.end_at((topic, number), self._context.end_ns) or 0
                found[number] = last_ns, max(end - _got_to(positions), 0)
        return found

    def left_uncommitted(
        self, client: str, group: str, topic: str, least_ns: int
    ) -> dict[int, tuple[int, int]]:
        """Return partitions that a client stopped to commit so long ago, while it goes on with others.

        The values are as those of `left_behind`, which tells more about partitions whose fetches are seen.
        """
        partitions = self.committed.get((client, group, topic), {})
        newest = max((positions[-1].time_ns for positions in partitions.values()), default=0)
        found = {}
        for number in partitions.keys() - self.fetched.get((client, topic), {}).keys():
            last = partitions[number][-1]
            taken_over = any(
                (own_group, own_topic) == (group, topic) and others[number][-1].time_ns > last.time_ns
                for (_, own_group, own_topic), others in self.committed.items()
                if number in others
            )
            if newest - last.time_ns >= least_ns and not taken_over:
                end = self.end_at((topic, number), self._context.end_ns) or 0
                found[number] = last.time_ns, max(end - last.offset, 0)
        return found

    def longest_rest(self, client: str, topic: str) -> int:
        """Return the longest time that a client took between two fetches of a topic, in nanoseconds."""
        times = sorted(
            one.time_ns for found in self.fetched.get((client, topic), {}).values() for one in found
        )
        return max((later - time for time, later in pairwise(times)), default=0)

    def held_up(self, topic: str, begin_ns: int, end_ns: int) -> dict[str, int]:
        """Return the clients that fetch from a topic until the end of a span, and get nothing written.

        The value is when they got to the offset at which they stand, or when the span began.
        """
        found: dict[str, int] = {}
        for (client, read), partitions in self.fetched.items():
            if read != topic:
                continue
            since = max(self.stood_still(client, topic), begin_ns)
            waits = end_ns - since >= PAUSED_NS and self._facts.fetches_after(client, since + PAUSED_NS)
            if waits and any(
                (self.end_at((topic, number), end_ns) or 0) > _got_to(positions)
                for number, positions in partitions.items()
            ):
                found[client] = since
        return found

    def left_unread(self, client: str, group: str, since_ns: int) -> dict[Partition, int]:
        """Return the records written after a time to partitions that a client read and its group does not.

        They are counted by partition; partitions without any are left out.
        """
        others = {name for name, groups in self._facts.groups.items() if group in groups}
        read_on = {
            (topic, number)
            for (reader, topic), partitions in self.fetched.items()
            if reader in others
            for number, positions in partitions.items()
            if positions[-1].time_ns > since_ns + SECOND
        }
        own = {
            (topic, number)
            for (reader, topic), partitions in self.fetched.items()
            if reader == client
            for number in partitions
        }
        written = {
            one: (self.end_at(one, self._context.end_ns) or 0) - (self.end_at(one, since_ns) or 0)
            for one in own - read_on
        }
        return {one: records for one, records in written.items() if records > 0}

    def _taken_over(
        self, client: str, topic: str, number: int, time_ns: int, by_anybody: bool = False
    ) -> bool:
        """Return whether another client, of the same group or any, fetches a partition after a time."""
        groups = self._facts.groups.get(client, set())
        return any(
            other != client
            and read == topic
            and (by_anybody or not groups.isdisjoint(self._facts.groups.get(other, set())))
            and number in partitions
            and partitions[number][-1].time_ns > time_ns
            for (other, read), partitions in self.fetched.items()
        )

    def _added_up(self, topic: str, lags: dict[int, list[tuple[int, int]]]) -> Lag | None:
        if not lags:
            return None
        events = sorted((time, number, lag) for number, found in lags.items() for time, lag in found)
        latest = {number: found[0][1] for number, found in lags.items()}
        before = sum(latest.values())
        times: list[int] = []
        records: list[int] = []
        total = before
        for time, number, lag in events:
            total += lag - latest[number]
            latest[number] = lag
            if times and times[-1] == time:  # one request commits several partitions
                records[-1] = total
            else:
                times.append(time)
                records.append(total)
        written = sum(
            (self.end_at((topic, number), times[-1]) or 0) - (self.end_at((topic, number), times[0]) or 0)
            for number in lags
        )
        return Lag(times, records, before, written)


def _got_to(positions: list[Position]) -> int:
    """Return the offset up to which a client has read: a fetch that is sent again brought nothing."""
    again = len(positions) > 1 and positions[-1].offset == positions[-2].offset
    return positions[-1].offset if again else positions[-1].end
