"""A TLS connection and the plaintext inside it as one: TCP's figures from the one, Kafka's from the other."""

import numpy as np

from kdissect.jit.rows import Records, array_of
from kdissect.streams.flow_state import (
    KAFKA,
    KAFKA_0_7,
    TLS,
    TLS_PASSED,
)
from kdissect.streams.processor import FlowProcessor
from kdissect.streams.tls.tls_columns import NOTHING_SAID
from kdissect.streams.tls.tls_session import TlsFacts

FROM_PLAINTEXT = ("requests", "responses", "unanswered", "orphans")


def with_tls(processor: FlowProcessor) -> tuple[Records, Records, dict[int, TlsFacts]]:
    """Return the connections, their directions, and the facts of those under TLS, all by row.

    A connection under TLS whose plaintext is Kafka counts as Kafka. Bytes that could not be decrypted count
    as skipped.
    """
    count = len(processor.endpoints)
    connections = array_of(processor.state.connections)[:count].copy()
    directions = array_of(processor.state.directions)[: 2 * count].copy()
    seen = processor.tls.facts()
    under_tls = np.flatnonzero(np.isin(connections["protocol"], (TLS, TLS_PASSED))).tolist()
    facts = {}
    for row in under_tls:
        known = seen.get(row, NOTHING_SAID)
        later = int(directions["skipped_bytes"][2 * row : 2 * row + 2].sum())  # passed without a look
        facts[row] = known._replace(undecrypted=known.undecrypted + later)
        directions["skipped_bytes"][2 * row] += known.undecrypted
    inner, outer = processor.tls.rows()
    if processor.tls.inner is not None:
        state = processor.tls.inner.state
        decrypted, plain = array_of(state.connections), array_of(state.directions)
        protocol = decrypted["protocol"][inner]
        kafka = np.isin(protocol, (KAFKA, KAFKA_0_7))
        connections["protocol"][outer[kafka]] = protocol[kafka]
        for column in FROM_PLAINTEXT:
            connections[column][outer] = decrypted[column][inner]
        connections["overheld"][outer] += decrypted["overheld"][inner]
        for side in (0, 1):
            for column in ("skipped_bytes", "oversized_frames"):
                directions[column][2 * outer + side] += plain[column][2 * inner + side]
    return connections, directions, facts
