"""Connections on which clients send heartbeats for a group: its members, while they last.

A group may have 100,000 of them, and signals are about few. So they are columns, and only those that a signal
looks at are made objects.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.protocol.api_keys import EPOCH_HEARTBEATS, ApiKey
from kdissect.protocol.api_mask import in_apis
from kdissect.report.aggregate.group_sums import highest_values, lowest_values
from kdissect.report.aggregate.grouping import RowGroups, TableColumns, encode, group_rows
from kdissect.report.query.connection_facts import ConnectionFacts
from kdissect.report.signals.named_rows import NamedRows

HEARTBEATS = (ApiKey.HEARTBEAT, *EPOCH_HEARTBEATS)


class MemberLine(NamedTuple):
    """A connection on which a client sends heartbeats for a group: a member of it, while it lasts.

    `row` is that of the connection among the facts.
    """

    client: str
    group: str
    connection: int
    row: int
    first_ns: int
    last_ns: int
    shares: bool
    """True: others of its group read the same partitions (KIP-932)."""


@dataclass(frozen=True, slots=True)
class MemberLines:
    """The connections with heartbeats for one group, in the order of their first heartbeats.

    Columns are those of `MemberLine`; `api` is the key of the heartbeats.
    """

    group: str
    clients: NamedRows
    connection: Int64s
    row: Int64s
    first_ns: Int64s
    last_ns: Int64s
    api: Int64s

    def only(self, chosen: Bools | Int64s) -> "MemberLines":
        """Return chosen ones."""
        columns = (self.connection, self.row, self.first_ns, self.last_ns, self.api)
        return MemberLines(self.group, self.clients.only(chosen), *(column[chosen] for column in columns))

    @property
    def leave_by_heartbeat(self) -> Bools:
        """Return which of them leave by a heartbeat with an epoch below zero (KIP-848), not by LeaveGroup."""
        return in_apis(self.api, EPOCH_HEARTBEATS)

    @property
    def latest_begins(self) -> Int64s:
        """Return for each of them when the latest connection of its client begins."""
        latest = np.full(len(self.clients.names), np.iinfo(np.int64).min)
        np.maximum.at(latest, self.clients.of, self.first_ns)
        return latest[self.clients.of]

    def overlap(self) -> bool:
        """Return whether one begins before another one, which began before it, has ended."""
        following = np.searchsorted(self.first_ns, self.first_ns, side="right")
        has_next = following < len(self.first_ns)
        return bool((self.first_ns[following[has_next]] < self.last_ns[has_next]).any())

    def lines(self) -> Iterator[MemberLine]:
        """Yield each of them."""
        columns = (self.clients.of, self.connection, self.row, self.first_ns, self.last_ns, self.api)
        for client, connection, row, first_ns, last_ns, api in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            name, shares = self.clients.names[client], api == ApiKey.SHARE_GROUP_HEARTBEAT
            yield MemberLine(name, self.group, connection, row, first_ns, last_ns, shares)


def find_member_lines(
    calls: TableColumns, facts: ConnectionFacts, callers: Callable[[TableColumns], NamedRows]
) -> dict[str, MemberLines]:
    """Return the connections with heartbeats by group, of the calls of each connection.

    `callers` tells the client of calls.
    """
    beats = calls.filter(in_apis(calls.ints("api_key"), HEARTBEATS) & calls.present("group_id"))
    members = group_rows(*(encode(beats.column(name)) for name in ("group_id", "connection")))
    begins = lowest_values(members, beats.ints("first_ns"))
    ends = highest_values(members, beats.ints("last_ns"))
    last = beats.take(_last_calls(beats, members))
    rows, groups, clients = facts.rows(last), last.text("group_id"), callers(last)
    every = MemberLines("", clients, last.ints("connection"), rows, begins, ends, last.ints("api_key"))
    order = np.lexsort((every.connection, begins, groups.numbers))
    order = order[rows[order] >= 0]
    if not len(order):
        return {}
    bounds = np.flatnonzero(np.diff(groups.numbers[order])) + 1
    names = map(str, groups.take(order[np.append(0, bounds)]).tolist())
    return {
        group: replace(every.only(own), group=group)
        for group, own in zip(names, np.split(order, bounds), strict=True)
    }


def _last_calls(calls: TableColumns, groups: RowGroups) -> Int64s:
    """Return the call of each group that is the last by client and API."""
    order = np.lexsort((calls.ints("api_key"), calls.text("client_id").ranks(), groups.of))
    is_last = np.diff(groups.of[order], append=groups.count) > 0
    return order[is_last]
