"""Rows of the table `connections`: what was seen of each TCP connection from its first packet to its last."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from kdissect.streams.flow_state import (
    ACK_NS,
    CLIENT_WAY,
    CONFLICTS,
    CONNECTION,
    CUT,
    DUPLICATES,
    ENDED,
    ENDED_NAMES,
    FIRST_NS,
    HANDSHAKE,
    LAST_NS,
    LOST,
    OPEN,
    ORPHANS,
    OVERFULL,
    OVERHELD,
    OVERSIZED,
    PACKETS,
    PAYLOAD,
    PROTOCOL,
    PROTOCOL_NAMES,
    REORDERED,
    REQUESTS,
    RESPONSES,
    RETRANSMITTED,
    SERVER_PORT_WAY,
    SKIPPED,
    SYN_ACK_NS,
    SYN_NS,
    UNANSWERED,
    ZERO_WINDOWS,
    Int64s,
)
from kdissect.streams.processor import (
    Endpoints,
    ExchangeBatch,
    FlowProcessor,
)
from kdissect.streams.sasl import Authentications
from kdissect.streams.tls.connection_merge import with_tls
from kdissect.streams.tls.tls_columns import tls_columns
from kdissect.tables.arrow_columns import (
    int_column,
    name_column,
    text_column,
)
from kdissect.tables.message_columns import Bools, Side
from kdissect.tables.schemas import CONNECTIONS, ENDS
from kdissect.text import format_ip

LEARNT = {
    "client_id": "client_id",
    "client_software_name": "client_software_name",
    "client_software_version": "client_software_version",
    "sasl_mechanism": "sasl_mechanism",
}


class Learnt:
    """What exchanges say of the connection they are on: for each connection the first value seen of each column."""

    def __init__(self) -> None:
        self._values: dict[str, dict[int, str]] = {name: {} for name in LEARNT}
        self._faults: dict[int, int] = {}
        self.authentications = Authentications()

    def add(self, harvest: ExchangeBatch, request: Side, faulty: Bools) -> None:
        """Learn from a batch of exchanges."""
        connection = harvest.exchanges[:, CONNECTION]
        for name, column in LEARNT.items():
            known = self._values[name]
            start, length = request.spans(column)
            there = np.flatnonzero(start >= 0)
            where, first = np.unique(connection[there], return_index=True)
            texts = text_column(harvest.arena, start[there[first]], length[there[first]]).to_pylist()
            for row, text in zip(where.tolist(), texts, strict=True):
                known.setdefault(row, text)
        self.add_faults(harvest, faulty)

    def add_faults(self, harvest: ExchangeBatch, faulty: Bools) -> None:
        """Count the exchanges that have a fault."""
        where, counts = np.unique(harvest.exchanges[faulty, CONNECTION], return_counts=True)
        for row, count in zip(where.tolist(), counts.tolist(), strict=True):
            self._faults[row] = self._faults.get(row, 0) + count

    def known(self, name: str) -> dict[int, str]:
        """Give what was learnt for a column, by row of the connection."""
        return self._values[name]

    def texts(self, name: str, count: int) -> pa.Array:
        """Give a column for the first `count` connections."""
        known = self._values[name]
        return pa.array([known.get(row) for row in range(count)], pa.string())

    def faults(self, count: int) -> pa.Array:
        """Give how many exchanges of each connection have a fault."""
        return pa.array([self._faults.get(row, 0) for row in range(count)], pa.int64())


def connection_rows(conversations: FlowProcessor, learnt: Learnt) -> pa.RecordBatch:
    """Give one row per connection, in the order in which they were first seen."""
    count = len(conversations.endpoints)
    facts, ways, tls = with_tls(conversations)
    client = _client_ways(facts)
    to_server = ways[2 * np.arange(count) + client]
    to_client = ways[2 * np.arange(count) + 1 - client]
    both = to_server + to_client
    server_rtt = facts[:, SYN_ACK_NS] - facts[:, SYN_NS]
    client_rtt = facts[:, ACK_NS] - facts[:, SYN_ACK_NS]
    columns = {
        "connection": pa.array(conversations.identities, pa.int64()),
        **_endpoints(conversations.endpoints, client),
        "first_time_ns": pa.array(facts[:, FIRST_NS]),
        "last_time_ns": pa.array(facts[:, LAST_NS]),
        "opened": name_column({0: "midstream", 1: "handshake"}, facts[:, HANDSHAKE]),
        "closed": name_column(dict(enumerate(ENDED_NAMES)), facts[:, ENDED]),
        "protocol": name_column(dict(enumerate(PROTOCOL_NAMES)), facts[:, PROTOCOL]),
        "packets": pa.array(facts[:, PACKETS]),
        "bytes_to_server": pa.array(to_server[:, PAYLOAD]),
        "bytes_to_client": pa.array(to_client[:, PAYLOAD]),
        "cut_bytes": pa.array(both[:, CUT]),
        "retransmitted_segments": pa.array(both[:, RETRANSMITTED]),
        "conflicting_segments": pa.array(both[:, CONFLICTS]),
        "out_of_order_segments": pa.array(both[:, REORDERED]),
        "lost_bytes": pa.array(both[:, LOST]),
        "skipped_bytes": pa.array(both[:, SKIPPED]),
        "oversized_frames": pa.array(both[:, OVERSIZED]),
        "overfull_holes": pa.array(both[:, OVERFULL]),
        "overheld_waits": pa.array(facts[:, OVERHELD]),
        "zero_windows": pa.array(facts[:, ZERO_WINDOWS]),
        "duplicate_packets": pa.array(facts[:, DUPLICATES]),
        "server_rtt_ns": int_column(
            server_rtt, (facts[:, SYN_NS] > 0) & (facts[:, SYN_ACK_NS] > 0), pa.int64()
        ),
        "client_rtt_ns": int_column(client_rtt, facts[:, ACK_NS] > 0, pa.int64()),
        **{name: learnt.texts(name, count) for name in LEARNT},
        "requests": pa.array(facts[:, REQUESTS]),
        "responses": pa.array(facts[:, RESPONSES]),
        "unanswered": pa.array(facts[:, UNANSWERED]),
        "orphan_responses": pa.array(facts[:, ORPHANS]),
        "faults": learnt.faults(count),
        **learnt.authentications.columns((facts[:, ENDED] != OPEN).tolist()),
        **tls_columns(tls, count),
    }
    return pa.record_batch([columns[name] for name in CONNECTIONS.names], schema=CONNECTIONS)


def end_rows(conversations: FlowProcessor, rows: Int64s) -> pa.RecordBatch:
    """Give who talks on some connections (ENDS), as far as is known by now; exchanges tell who the client is."""
    client = _client_ways(conversations.state.connections[rows])
    ends = _endpoints([conversations.endpoints[row] for row in rows.tolist()], client)
    columns = ends | {
        "connection": pa.array([conversations.identities[row] for row in rows.tolist()], pa.int64())
    }
    return pa.record_batch([columns[name] for name in ENDS.names], schema=ENDS)


def _client_ways(facts: Int64s) -> Int64s:
    """Tell which end is the client; without a handshake or a request nobody knows, and servers mostly have the lower port."""
    return np.where(facts[:, CLIENT_WAY] >= 0, facts[:, CLIENT_WAY], facts[:, SERVER_PORT_WAY])


def _endpoints(endpoints: Sequence[Endpoints], client: Int64s) -> dict[str, pa.Array]:
    swapped = client.tolist()
    hosts = [(format_ip(ends.a_host), format_ip(ends.b_host)) for ends in endpoints]
    ports = [(ends.a_port, ends.b_port) for ends in endpoints]
    return {
        "client_host": pa.array([pair[way] for pair, way in zip(hosts, swapped, strict=True)], pa.string()),
        "client_port": pa.array([pair[way] for pair, way in zip(ports, swapped, strict=True)], pa.int32()),
        "server_host": pa.array(
            [pair[1 - way] for pair, way in zip(hosts, swapped, strict=True)], pa.string()
        ),
        "server_port": pa.array(
            [pair[1 - way] for pair, way in zip(ports, swapped, strict=True)], pa.int32()
        ),
    }
