"""The filters of `kdissect.tables.filters` applied to single exchanges, and two filters that only a dump has.

In come exchanges as pass two makes them, out goes which of them are selected. The part that headers tell
(API, broker, connection, time, latency) is decided for many exchanges at once, before any of them waits for
its turn. The part that only messages tell (client, topic, group, error) is decided for each exchange when
its turn has come.

`topics_of`, `groups_of` and `errors_of` apply the same rules to the body of a request or a response alone.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.exchanges.decoded import NO_KEY, DecodedExchange
from kdissect.exchanges.exchange import Exchange
from kdissect.exchanges.field_search import Mention, finder
from kdissect.jit.rows import Records, dtype_of
from kdissect.protocol.schema.registry import APIS, is_known
from kdissect.protocol.visitor import (
    GROUP_COORDINATOR,
    GROUP_RESOURCES,
    TOPIC_RESOURCE,
    Tree,
    coordinator_type,
    resource_type,
)
from kdissect.streams.flow_state import BEFORE_VERSIONS, ORPHAN_RESPONSE, STATUS_NAMES, ExchangeRow
from kdissect.tables.filters import (
    Filter,
    current_api_keys,
    in_window,
    matches,
    matches_broker,
    matches_error,
)
from kdissect.text import parse_address

TOPIC_ROLES = frozenset({"topic", "topic_id", "resource"})
GROUP_ROLES = frozenset({"group", "coordinator_key", "resource"})
ERROR_ROLES = frozenset({"error"})


class ConnectionLookup(Protocol):
    """Questions of a filter about connections: an `ExchangeReader` knows it, for example."""

    @property
    def nodes(self) -> Mapping[int, frozenset[tuple[str, int]]]:
        """Addresses (host, port) of the brokers, by node id."""

    def identity(self, connection: int) -> int:
        """Return the public number of a connection."""

    def addresses(self, connection: int) -> tuple[str, str]:
        """Return the addresses of client and server of a connection."""


@dataclass(frozen=True, slots=True)
class ExchangeFilter(Filter):
    """The filters of every command and those of a dump; an empty one selects everything."""

    connections: frozenset[str] = frozenset()  # a connection's number, or host:port of either end
    slower_than_ns: int | None = None

    def header_mask(self, exchanges: Records, reader: ConnectionLookup) -> Bools:
        """Return which exchanges, rows of `flow_state.ExchangeRow`, are selected as far as headers tell."""
        orphan = exchanges["status"] == ORPHAN_RESPONSE
        began = np.where(
            orphan, exchanges["response"]["first_byte_ns"], exchanges["request"]["first_byte_ns"]
        )
        wanted = np.ones(len(exchanges), bool)
        if self.apis:
            old = exchanges["api_version"] == BEFORE_VERSIONS
            keys = current_api_keys(exchanges["api_key"], old)
            wanted &= np.isin(keys, list(self.apis)) & ~orphan
        wanted &= in_window(began, began, self)
        if self.slower_than_ns is not None:
            sent = exchanges["request"]["last_byte_ns"]
            latency = exchanges["response"]["first_byte_ns"] - sent
            measured = ~orphan & (exchanges["response"]["start"] > 0) & (sent >= 0)
            wanted &= measured & (latency > self.slower_than_ns)
        if self.connections:
            wanted &= self._on_connections(exchanges["connection"], reader)
        if self.brokers:
            wanted &= self._at_brokers(exchanges["connection"], reader)
        return wanted

    def header_selects(self, exchange: Exchange, reader: ConnectionLookup) -> bool:
        """Return whether one exchange is selected as far as headers tell; `header_mask` decides for many."""
        row = np.zeros(1, dtype_of(ExchangeRow))
        row["status"] = STATUS_NAMES.index(exchange.status)
        row["connection"] = exchange.connection
        row["api_key"] = NO_KEY if exchange.api_key is None else exchange.api_key
        version = NO_KEY if exchange.api_version is None else exchange.api_version
        row["api_version"] = BEFORE_VERSIONS if exchange.is_kafka07 else version
        for name, frame in (("request", exchange.request), ("response", exchange.response)):
            if frame:
                row[name]["start"] = 1
                row[name]["first_byte_ns"] = frame.first_ns
                row[name]["last_byte_ns"] = -1 if frame.last_ns is None else frame.last_ns
        return bool(self.header_mask(row, reader)[0])

    def _on_connections(self, connection: Int64s, reader: ConnectionLookup) -> Bools:
        rows, index = np.unique(connection, return_inverse=True)
        wanted = [
            not self.connections.isdisjoint((str(reader.identity(row)), *reader.addresses(row)))
            for row in rows.tolist()
        ]
        return np.array(wanted, bool)[index]

    def _at_brokers(self, connection: Int64s, reader: ConnectionLookup) -> Bools:
        rows, index = np.unique(connection, return_inverse=True)
        servers = (parse_address(reader.addresses(row)[1]) for row in rows.tolist())
        wanted = [matches_broker(host, port, self.brokers, reader.nodes) for host, port in servers]
        return np.array(wanted, bool)[index]

    def selects(self, decoded: DecodedExchange, topic_names: Mapping[bytes, str]) -> bool:
        """Return whether an exchange is selected as far as its messages tell.

        `topic_names` has topics by id.
        """
        if self.clients and not matches(decoded.client_id, self.clients):
            return False
        if self.topics and not _any_matches(mentioned_topics(decoded, topic_names), self.topics):
            return False
        if self.groups and not _any_matches(mentioned_groups(decoded), self.groups):
            return False
        return not self.errors or any(matches_error(code, self.errors) for code in error_codes(decoded))


def mentioned_topics(decoded: DecodedExchange, topic_names: Mapping[bytes, str]) -> Iterator[str]:
    """Return the topics that an exchange names, also those that it names by id, in their order."""
    found = (topic_in(mention, topic_names) for mention in decoded.mentions(TOPIC_ROLES))
    return (name for name in found if name is not None)


def mentioned_groups(decoded: DecodedExchange) -> Iterator[str]:
    """Return the groups that an exchange names, in their order."""
    return (name for name in map(group_in, decoded.mentions(GROUP_ROLES)) if name is not None)


def error_codes(decoded: DecodedExchange) -> Iterator[int]:
    """Return the error codes of a response, 0 for each success, in their order."""
    return (code for _, code, _ in decoded.mentions(ERROR_ROLES, responses_only=True))


def _any_matches(names: Iterable[str], patterns: tuple[str, ...]) -> bool:
    return any(matches(name, patterns) for name in names)


def topic_in(mention: Mention, topic_names: Mapping[bytes, str]) -> str | None:
    """Return the topic that a mention names, by name or by id; None if it names none."""
    role, value, holder = mention
    if role == "topic_id":
        return topic_names.get(value)
    if role == "resource" and resource_type(holder) != TOPIC_RESOURCE:
        return None
    return str(value)


def group_in(mention: Mention) -> str | None:
    """Return the group that a mention names; None for a resource or a coordinator of another kind."""
    role, value, holder = mention
    if role == "coordinator_key" and coordinator_type(holder) != GROUP_COORDINATOR:
        return None
    if role == "resource" and resource_type(holder) not in GROUP_RESOURCES:
        return None
    return str(value)


def topics_of(key: int, version: int, body: Tree, names: Mapping[bytes, str]) -> list[str]:
    """Return the topics of a request as captured; `names` are those of topic ids."""
    find = finder(APIS[key].request, version, TOPIC_ROLES)
    found = (topic_in(mention, names) for mention in (find(body) if find else ()))
    return [topic for topic in found if topic is not None]


def groups_of(key: int, version: int, body: Tree) -> list[str]:
    """Return the groups of a request as captured."""
    find = finder(APIS[key].request, version, GROUP_ROLES)
    found = (group_in(mention) for mention in (find(body) if find else ()))
    return [group for group in found if group is not None]


def errors_of(key: int, version: int, body: Tree) -> Iterator[int]:
    """Return the error codes of a response that are not 0, in wire order."""
    if not is_known(key, version):
        return
    find = finder(APIS[key].response, version, ERROR_ROLES)
    for _, value, _ in find(body) if find else ():
        if value:
            yield value
