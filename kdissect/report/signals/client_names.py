"""The groups, topics and times of activity of each client, by the name that signals use."""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.protocol.api_keys import (
    GROUP_COMMITS,
    GROUP_MEMBERSHIP,
    INTER_BROKER,
    SUBSCRIPTIONS,
    ApiKey,
)
from kdissect.protocol.api_mask import in_apis
from kdissect.report.aggregate.grouping import Codes, TableColumns, encode, group_rows
from kdissect.report.aggregate.partial_tables import CALLS, TOPIC_FLOWS, PartialTable
from kdissect.report.signals.member_lines import HEARTBEATS, MemberLines, find_member_lines
from kdissect.report.signals.named_rows import NamedRows, client_rows, rows_by_name, topic_rows
from kdissect.report.signals.server_names import FETCHER
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.signal_tables import COMMITTED, LOAD, PACE
from kdissect.report.wording import client_text

BROKERS_OWN = re.compile(
    rf"{FETCHER.pattern}|broker-\d+-txn-marker-sender|(?:AddPartitionsManager|Persister|raft)-client-\d+"
)
"""Client ids that brokers have when they talk to each other."""

READERS = [ApiKey.FETCH, ApiKey.TXN_OFFSET_COMMIT, *HEARTBEATS]
TO_COORDINATORS = [*GROUP_MEMBERSHIP, *GROUP_COMMITS]

BEGAN_NS = 5 * 10**9
"""A client that fails within this time after its first packet fails since it began."""


UUID = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
PART = re.compile(r"[^-_.@/:#]+")
NUMBERED = re.compile(r"([a-z]{3,})\d{1,3}", re.IGNORECASE)


def stem_of(client_id: str) -> str:
    """Return a client id without the parts that differ from process to process: numbers, UUIDs, suffixes."""
    kept = []
    for part in PART.findall(UUID.sub("", client_id)):
        numbered = NUMBERED.fullmatch(part)
        if numbered:
            kept.append(numbered[1])
        elif not re.search(r"\d", part) and (len(part) < 5 or re.search("[aeiouy]", part.lower())):
            kept.append(part)
    return "-".join(kept)


class Openings(NamedTuple):
    """When connections were first seen: client after client, in the order of time."""

    numbers: Mapping[str, int]  # of each client, by name
    bounds: Int64s  # the first row of each client, and the end of those of the last one
    first_ns: Int64s
    is_new: Bools  # the first that was seen of the connection is a handshake

    def rows(self, client: str) -> range:
        """Return the rows of the connections of a client, none if it is not known."""
        number = self.numbers.get(client)
        return range(0) if number is None else range(*self.bounds[number : number + 2].tolist())


class ClientFacts:
    """Facts of the capture about clients by name."""

    def __init__(self, context: SignalContext) -> None:
        self._context = context

    @cached_property
    def members(self) -> set[str]:
        """Return the clients that sent a request to the coordinator of their group."""
        return self._callers_of(TO_COORDINATORS)

    @cached_property
    def readers(self) -> set[str]:
        """Return the clients that read, belong to a group, or commit with what they write.

        Tools and mirrors set offsets of groups, and do nothing of this.
        """
        return self._callers_of(READERS)

    @cached_property
    def nodes(self) -> set[str]:
        """Return the clients that call what only brokers and controllers call.

        The channel from a broker to a controller of KRaft has the id of its node as its client id.
        """
        return self._callers_of(INTER_BROKER)

    def _callers_of(self, apis: Collection[int]) -> set[str]:
        calls = self._context.table(CALLS)
        callers = self._callers(calls.filter(in_apis(calls.ints("api_key"), apis)))
        return set(callers.present())

    @cached_property
    def groups(self) -> dict[str, set[str]]:
        """Return the groups that each client names in its requests."""
        calls = self._context.table(CALLS)
        calls = calls.filter(calls.present("group_id"))
        callers, groups = self._callers(calls), calls.text("group_id")
        first = group_rows(Codes(callers.of, len(callers.names)), encode(groups)).first
        found: dict[str, set[str]] = defaultdict(set)
        for client, group in zip(callers.of[first].tolist(), groups.take(first).tolist(), strict=True):
            found[callers.names[client]].add(str(group))
        return found

    def _callers(self, calls: TableColumns) -> NamedRows:
        """Return the client of each call."""
        facts = self._context.facts
        hosts = facts.columns.text("client_host").take(facts.rows(calls))
        return rows_by_name(client_text, calls.text("client_id"), hosts)

    @cached_property
    def member_lines(self) -> dict[str, MemberLines]:
        """Return the connections with heartbeats by group."""
        return find_member_lines(self._context.table(CALLS), self._context.facts, self._callers)

    @cached_property
    def written(self) -> dict[str, set[str]]:
        """Return the topics that each client wrote to."""
        found: dict[str, set[str]] = defaultdict(set)
        for api, client, topic in self._context.values(LOAD, "api_key", "client", "name"):
            if api == ApiKey.PRODUCE and topic is not None:
                found[client].add(topic)
        return found

    @cached_property
    def _first_records(self) -> dict[str, int]:
        """Return when records of each topic were first written or fetched."""
        first: dict[str, int] = {}
        for topic, kind, offset, order_ns in self._context.values(
            COMMITTED, "name", "kind", "offset", "order_ns"
        ):
            if topic is not None and kind in ("written", "fetched") and offset is not None:
                first[topic] = min(-order_ns, first.get(topic, -order_ns))
        return first

    def had_records(self, topics: Iterable[str], time_ns: int) -> bool:
        """Return whether records of all these topics were written, or fetched, before a time."""
        return all(self._first_records.get(topic, time_ns) < time_ns for topic in topics)

    def are_there(self, client: str, topics: Iterable[str], time_ns: int) -> bool:
        """Return whether brokers serve all these topics to a client after a time."""
        return all(self._served_until.get((client, topic), 0) > time_ns for topic in topics)

    @cached_property
    def _served_until(self) -> dict[tuple[str, str], int]:
        """Return until when each client was served each topic, on connections without an error about it."""
        flows = self._context.table(TOPIC_FLOWS)
        well = (flows.ints("errors") == 0) & ~in_apis(flows.ints("api_key"), SUBSCRIPTIONS)
        flows = flows.filter(well)
        callers, names = self._callers(flows), topic_rows(flows, self._context.topics)
        until: dict[tuple[str, str], int] = {}
        for client, name, last_ns in zip(
            callers.of.tolist(), names.of.tolist(), flows.ints("last_ns").tolist(), strict=True
        ):
            key = callers.names[client], names.names[name]
            until[key] = max(last_ns, until.get(key, 0))
        return until

    @cached_property
    def _writes(self) -> dict[str, list[int]]:
        times: dict[str, list[int]] = defaultdict(list)
        for row in self._rows(LOAD, ApiKey.PRODUCE, "first_ns"):
            times[client_text(row["client_id"], row["client_host"])].append(row["first_ns"])
        return times

    def _rows(self, part: PartialTable, api: ApiKey, time: str) -> list[dict[str, Any]]:
        """Return the client and a time of the rows of a table with an API."""
        columns = self._context.table(part)
        chosen = columns.present("api_key") & (columns.ints("api_key") == api)
        return columns.filter(chosen).dicts("client_id", "client_host", time)

    def produced(self, client: str) -> list[int]:
        """Return when a client wrote, once for each step of time."""
        return self._writes.get(client, [])

    @cached_property
    def _last_fetch(self) -> dict[str, int]:
        last: dict[str, int] = defaultdict(int)
        for row in self._rows(PACE, ApiKey.FETCH, "last_ns"):
            client = client_text(row["client_id"], row["client_host"])
            last[client] = max(last[client], row["last_ns"])
        return last

    def fetches_after(self, client: str, time_ns: int) -> bool:
        """Return whether a client sends a Fetch after a time."""
        return self._last_fetch.get(client, 0) > time_ns

    @cached_property
    def _activity(self) -> dict[str, Int64s]:
        pace = self._context.table(PACE)
        clients, times = client_rows(pace), [pace.ints("first_ns"), pace.ints("last_ns")]
        order = np.argsort(clients.of, kind="stable")
        bounds = np.searchsorted(clients.of[order], np.arange(1, len(clients.names)))
        parts = np.split(np.stack(times)[:, order], bounds, axis=1)
        return {name: np.sort(part, axis=None) for name, part in zip(clients.names, parts, strict=False)}

    @cached_property
    def _openings(self) -> Openings:
        connections = self._context.connections
        is_new = self._context.facts.columns.equals("opened", "handshake")
        order = np.lexsort((is_new, connections.first_ns, connections.client))
        names = self._context.client_names
        return Openings(
            {name: number for number, name in enumerate(names)},
            np.searchsorted(connections.client[order], np.arange(len(names) + 1)),
            connections.first_ns[order],
            is_new[order],
        )

    def began(self, client: str, time_ns: int, within_ns: int = BEGAN_NS) -> int:
        """Return when a client began, if that is seen and was just before `time_ns`, else `time_ns`."""
        rows = self._openings.rows(client)
        if not rows or not self._openings.is_new[rows.start]:
            return time_ns
        first = int(self._openings.first_ns[rows.start])
        return first if 0 <= time_ns - first <= within_ns else time_ns

    def connected(self, client: str, time_ns: int) -> int:
        """Return when a client opened the first of the connections just before a time, else that time.

        Several processes may share the name of a client: this dates the one that did something at that time.
        """
        rows = self._openings.rows(client)
        first_ns = self._openings.first_ns[rows.start : rows.stop]
        before_ns = time_ns - first_ns
        near = self._openings.is_new[rows.start : rows.stop] & (before_ns >= 0) & (before_ns <= BEGAN_NS)
        return int(first_ns[near].min(initial=time_ns))

    def active_before(self, client: str, time_ns: int) -> int | None:
        """Return the last time before `time_ns` at which a client sent a request, None if there is none."""
        times = self._activity.get(client, ())
        at = bisect_left(times, time_ns)
        return int(times[at - 1]) if at else None

    def active_after(self, client: str, time_ns: int) -> int | None:
        """Return the first time after `time_ns` at which a client sent a request, None if there is none."""
        times = self._activity.get(client, ())
        at = bisect_right(times, time_ns)
        return int(times[at]) if at < len(times) else None
