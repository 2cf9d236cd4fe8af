"""The columns of the table `connections` that are about TLS; null for connections without it.

`tls_alert` is the first alert that says something is wrong, `encrypted` where it was not readable.
`tls_undecrypted_bytes` are captured bytes of records that could not be opened, for whatever reason;
`tls_decryption` says for which.

A TLS connection and the plaintext inside it become one row: it has TCP's figures from the one, Kafka's from
the other.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from kdissect.jit.rows import Records, array_of
from kdissect.streams.flow_state import (
    KAFKA,
    KAFKA_0_7,
    TLS,
    TLS_PASSED,
)
from kdissect.streams.processor import FlowProcessor
from kdissect.streams.tls.keylog import NO_KEYS
from kdissect.streams.tls.tls_session import Session
from kdissect.streams.tls.tls_state import TlsFacts

NOTHING_SAID = Session(NO_KEYS).facts()
SENDERS = {True: "client", False: "server", None: None}
COLUMNS: Mapping[str, tuple[pa.DataType, Callable[[TlsFacts], Any]]] = {
    "tls_version": (pa.string(), lambda facts: facts.version),
    "tls_sni": (pa.string(), lambda facts: facts.server_name),
    "tls_alpn": (pa.string(), lambda facts: facts.protocol),
    "tls_cipher": (pa.string(), lambda facts: facts.cipher),
    "tls_outcome": (pa.string(), lambda facts: facts.outcome.value),
    "tls_alert": (pa.string(), lambda facts: facts.alert),
    "tls_alert_by": (pa.string(), lambda facts: SENDERS[facts.alert_by_client]),
    "tls_client_certificate": (pa.bool_(), lambda facts: facts.asked_certificate),
    "tls_resumed": (pa.bool_(), lambda facts: facts.resumed),
    "tls_renegotiations": (pa.int64(), lambda facts: facts.renegotiations),
    "tls_decryption": (pa.string(), lambda facts: facts.decryption.value),
    "tls_undecrypted_bytes": (pa.int64(), lambda facts: facts.undecrypted),
}


def tls_columns(facts: Mapping[int, TlsFacts], count: int) -> dict[str, pa.Array]:
    """Return the columns for the first `count` connections."""
    if not facts:
        return {name: pa.nulls(count, kind) for name, (kind, _) in COLUMNS.items()}
    return {
        name: pa.array([read(facts[row]) if row in facts else None for row in range(count)], kind)
        for name, (kind, read) in COLUMNS.items()
    }


FROM_PLAINTEXT = ("requests", "responses", "unanswered", "orphans")


def with_tls(processor: FlowProcessor) -> tuple[Records, Records, dict[int, TlsFacts]]:
    """Return the connections, their directions, and the facts of those under TLS, all by row.

    A connection under TLS whose plaintext is Kafka counts as Kafka. Bytes that could not be decrypted count
    as skipped.
    """
    count = len(processor.endpoints)
    connections = array_of(processor.state.connections)[:count]
    directions = array_of(processor.state.directions)[: 2 * count]
    under_tls = np.flatnonzero(np.isin(connections["protocol"], (TLS, TLS_PASSED))).tolist()
    facts: dict[int, TlsFacts] = {}
    if not under_tls and processor.tls.inner is None:
        return connections, directions, facts
    connections, directions = connections.copy(), directions.copy()
    seen = processor.tls.facts()
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
