"""A TLS connection and the plaintext inside it as one: TCP's figures from the one, Kafka's from the other."""

from typing import TYPE_CHECKING

import numpy as np

from kdissect.streams.flow_state import (
    KAFKA,
    KAFKA_0_7,
    ORPHANS,
    OVERHELD,
    OVERSIZED,
    PROTOCOL,
    REQUESTS,
    RESPONSES,
    SKIPPED,
    TLS,
    TLS_PASSED,
    UNANSWERED,
    Int64s,
)
from kdissect.streams.tls.tls_columns import NOTHING_SAID
from kdissect.streams.tls.tls_session import TlsFacts

if TYPE_CHECKING:
    from kdissect.streams.processor import FlowProcessor

FROM_PLAINTEXT = (REQUESTS, RESPONSES, UNANSWERED, ORPHANS)


def with_tls(conversations: "FlowProcessor") -> tuple[Int64s, Int64s, dict[int, TlsFacts]]:
    """Give the connections, their ways, and the facts of those under TLS, all by row.

    A connection under TLS whose plaintext is Kafka counts as Kafka. Bytes that could not be decrypted count as skipped.
    """
    count = len(conversations.endpoints)
    connections = conversations.state.connections[:count].copy()
    ways = conversations.state.ways[: 2 * count].copy()
    seen = conversations.tls.facts()
    under_tls = np.flatnonzero(np.isin(connections[:, PROTOCOL], (TLS, TLS_PASSED))).tolist()
    facts = {}
    for row in under_tls:
        known = seen.get(row, NOTHING_SAID)
        later = int(ways[2 * row : 2 * row + 2, SKIPPED].sum())  # nobody looked at these any more
        facts[row] = known._replace(undecrypted=known.undecrypted + later)
        ways[2 * row, SKIPPED] += known.undecrypted
    inner, outer = conversations.tls.rows()
    if conversations.tls.inner is not None:
        state = conversations.tls.inner.state
        protocol = state.connections[inner, PROTOCOL]
        kafka = np.isin(protocol, (KAFKA, KAFKA_0_7))
        connections[outer[kafka], PROTOCOL] = protocol[kafka]
        for column in FROM_PLAINTEXT:
            connections[outer, column] = state.connections[inner, column]
        connections[outer, OVERHELD] += state.connections[inner, OVERHELD]
        for side in (0, 1):
            for column in (SKIPPED, OVERSIZED):
                ways[2 * outer + side, column] += state.ways[2 * inner + side, column]
    return connections, ways, facts
