"""The choice of `kdissect.tables.filters` at work on single exchanges, and the two filters that only a dump has.

What the headers tell (API, broker, connection, time, latency) is decided for many exchanges at once, before any of them waits
for its turn; what only the messages tell (client, topic, group, error), for each one when its turn has come.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.field_search import Mention
from kdissect.exchanges.reader import Follower
from kdissect.protocol.kafka07.message_codec import KEYS_NOW, OldType
from kdissect.streams.flow_state import (
    API_KEY,
    API_VERSION,
    BEFORE_VERSIONS,
    CONNECTION,
    FIRST_BYTE_NS,
    LAST_BYTE_NS,
    ORPHAN_RESPONSE,
    REQUEST_SIDE,
    RESPONSE_SIDE,
    START,
    STATUS,
    Int64s,
)
from kdissect.tables import filters
from kdissect.tables.filters import (
    ANY_ERROR,
    Known,
    is_server,
    matches,
)

TOPIC_ROLES = frozenset({"topic", "topic_id", "resource"})
GROUP_ROLES = frozenset({"group", "coordinator_key", "resource"})
ERROR_ROLES = frozenset({"error"})
TOPIC_RESOURCE = 2  # of ACLs and of configs
GROUP_RESOURCES = (3, 32)  # of ACLs, of configs
KEY_OF_TYPE = np.array([KEYS_NOW[kind] for kind in OldType])


@dataclass(frozen=True, slots=True)
class MessageFilter(filters.TableFilter):
    """What was asked for; empty means everything."""

    connections: frozenset[str] = frozenset()  # a connection's number, or host:port of either end
    slower_than_ns: int | None = None

    def rows(
        self, exchanges: Int64s, follower: Follower, known: Known = filters.NOTHING_KNOWN
    ) -> NDArray[np.bool_]:
        """Decide by headers: which rows of EXCHANGE columns may be wanted."""
        orphan = exchanges[:, STATUS] == ORPHAN_RESPONSE
        began = np.where(
            orphan, exchanges[:, RESPONSE_SIDE + FIRST_BYTE_NS], exchanges[:, REQUEST_SIDE + FIRST_BYTE_NS]
        )
        wanted = np.ones(len(exchanges), bool)
        if self.apis:
            old = exchanges[:, API_VERSION] == BEFORE_VERSIONS
            keys = np.where(old, KEY_OF_TYPE[exchanges[:, API_KEY] % len(KEY_OF_TYPE)], exchanges[:, API_KEY])
            wanted &= np.isin(keys, list(self.apis)) & ~orphan
        if self.since_ns is not None:
            wanted &= began >= self.since_ns
        if self.until_ns is not None:
            wanted &= began < self.until_ns
        if self.slower_than_ns is not None:
            sent = exchanges[:, REQUEST_SIDE + LAST_BYTE_NS]
            latency = exchanges[:, RESPONSE_SIDE + FIRST_BYTE_NS] - sent
            measured = ~orphan & (exchanges[:, RESPONSE_SIDE + START] > 0) & (sent >= 0)
            wanted &= measured & (latency > self.slower_than_ns)
        if self.connections:
            wanted &= self._on_connections(exchanges[:, CONNECTION], follower)
        if self.brokers:
            wanted &= self._at_brokers(exchanges[:, CONNECTION], follower, known)
        return wanted

    def _on_connections(self, connection: Int64s, follower: Follower) -> NDArray[np.bool_]:
        rows, at = np.unique(connection, return_inverse=True)
        known = [
            not self.connections.isdisjoint((str(follower.identity(row)), *follower.addresses(row)))
            for row in rows.tolist()
        ]
        return np.array(known, bool)[at]

    def _at_brokers(self, connection: Int64s, follower: Follower, known: Known) -> NDArray[np.bool_]:
        rows, at = np.unique(connection, return_inverse=True)
        ends = (follower.addresses(row)[1].rpartition(":") for row in rows.tolist())
        asked = [is_server(host.strip("[]"), int(port), self.brokers, known) for host, _, port in ends]
        return np.array(asked, bool)[at]

    def message(self, spoken: DecodedExchange, names: dict[bytes, str]) -> bool:
        """Decide by what the messages say."""
        return (
            (not self.clients or matches(spoken.client_id, self.clients))
            and (not self.topics or any(matches(it, self.topics) for it in mentioned_topics(spoken, names)))
            and (not self.groups or any(matches(it, self.groups) for it in mentioned_groups(spoken)))
            and (not self.errors or self._failed(spoken))
        )

    def _failed(self, spoken: DecodedExchange) -> bool:
        codes = (code for _, code, _ in spoken.mentions(ERROR_ROLES, responses_only=True))
        return any(code in self.errors or (code != 0 and ANY_ERROR in self.errors) for code in codes)


def mentioned_topics(spoken: DecodedExchange, names: dict[bytes, str]) -> Iterator[str]:
    """Give the names of the topics that an exchange is about, by name or by id, as they stand there."""
    return (name for name in (_topic(it, names) for it in spoken.mentions(TOPIC_ROLES)) if name is not None)


def mentioned_groups(spoken: DecodedExchange) -> Iterator[str]:
    """Give the names of the groups that an exchange is about, as they stand there."""
    return (name for name in map(_group, spoken.mentions(GROUP_ROLES)) if name is not None)


def _topic(mention: Mention, names: dict[bytes, str]) -> str | None:
    role, value, holder = mention
    if role == "topic_id":
        return names.get(value)
    if role == "resource" and _resource_type(holder) != TOPIC_RESOURCE:
        return None
    return str(value)


def _group(mention: Mention) -> str | None:
    role, value, holder = mention
    if role == "coordinator_key" and holder.get("key_type", 0) != 0:
        return None
    if role == "resource" and _resource_type(holder) not in GROUP_RESOURCES:
        return None
    return str(value)


def _resource_type(holder: dict[str, object]) -> object:
    return holder.get("resource_type", holder.get("resource_type_filter"))
