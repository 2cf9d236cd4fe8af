"""Rows of the table `connections`: what was seen of each TCP connection from its first packet to its last."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from kdissect.jit.rows import Records, array_of
from kdissect.streams.flow_state import (
    ENDED_NAMES,
    OPEN,
    PROTOCOL_NAMES,
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
from kdissect.tables.message_columns import Bools, MessageColumns
from kdissect.tables.schemas import CONNECTIONS, ENDS
from kdissect.text import format_ip

LEARNT = {
    "client_id": "client_id",
    "client_software_name": "client_software_name",
    "client_software_version": "client_software_version",
    "sasl_mechanism": "sasl_mechanism",
}


class ConnectionDetails:
    """What exchanges say of the connection they are on: for each connection the first value seen of each column."""

    def __init__(self) -> None:
        self._values: dict[str, dict[int, str]] = {name: {} for name in LEARNT}
        self._faults: dict[int, int] = {}
        self.authentications = Authentications()

    def add(self, harvest: ExchangeBatch, request: MessageColumns, faulty: Bools) -> None:
        """Learn from a batch of exchanges."""
        connection = harvest.exchanges["connection"]
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
        where, counts = np.unique(harvest.exchanges["connection"][faulty], return_counts=True)
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


def connection_rows(conversations: FlowProcessor, learnt: ConnectionDetails) -> pa.RecordBatch:
    """Give one row per connection, in the order in which they were first seen."""
    count = len(conversations.endpoints)
    facts, directions, tls = with_tls(conversations)
    client = _client_ways(facts)
    to_server = directions[2 * np.arange(count) + client]
    to_client = directions[2 * np.arange(count) + 1 - client]

    def both(field: str) -> pa.Array:
        return pa.array(to_server[field] + to_client[field])

    server_rtt = facts["syn_ack_ns"] - facts["syn_ns"]
    client_rtt = facts["ack_ns"] - facts["syn_ack_ns"]
    columns = {
        "connection": pa.array(conversations.identities, pa.int64()),
        **_endpoints(conversations.endpoints, client),
        "first_time_ns": pa.array(facts["first_ns"]),
        "last_time_ns": pa.array(facts["last_ns"]),
        "opened": name_column({0: "midstream", 1: "handshake"}, facts["handshake"]),
        "closed": name_column(dict(enumerate(ENDED_NAMES)), facts["ended"]),
        "protocol": name_column(dict(enumerate(PROTOCOL_NAMES)), facts["protocol"]),
        "packets": pa.array(facts["packets"]),
        "bytes_to_server": pa.array(to_server["payload_bytes"]),
        "bytes_to_client": pa.array(to_client["payload_bytes"]),
        "cut_bytes": both("cut_bytes"),
        "retransmitted_segments": both("retransmitted"),
        "conflicting_segments": both("conflicts"),
        "out_of_order_segments": both("reordered"),
        "lost_bytes": both("lost_bytes"),
        "skipped_bytes": both("skipped_bytes"),
        "oversized_frames": both("oversized_frames"),
        "overfull_holes": both("overfull_holes"),
        "overheld_waits": pa.array(facts["overheld"]),
        "zero_windows": pa.array(facts["zero_windows"]),
        "duplicate_packets": pa.array(facts["duplicates"]),
        "server_rtt_ns": int_column(
            server_rtt, (facts["syn_ns"] > 0) & (facts["syn_ack_ns"] > 0), pa.int64()
        ),
        "client_rtt_ns": int_column(client_rtt, facts["ack_ns"] > 0, pa.int64()),
        **{name: learnt.texts(name, count) for name in LEARNT},
        "requests": pa.array(facts["requests"]),
        "responses": pa.array(facts["responses"]),
        "unanswered": pa.array(facts["unanswered"]),
        "orphan_responses": pa.array(facts["orphans"]),
        "faults": learnt.faults(count),
        **learnt.authentications.columns((facts["ended"] != OPEN).tolist()),
        **tls_columns(tls, count),
    }
    return pa.record_batch([columns[name] for name in CONNECTIONS.names], schema=CONNECTIONS)


def end_rows(conversations: FlowProcessor, rows: Int64s) -> pa.RecordBatch:
    """Give who talks on some connections (ENDS), as far as is known by now; exchanges tell who the client is."""
    client = _client_ways(array_of(conversations.state.connections)[rows])
    ends = _endpoints([conversations.endpoints[row] for row in rows.tolist()], client)
    columns = ends | {
        "connection": pa.array([conversations.identities[row] for row in rows.tolist()], pa.int64())
    }
    return pa.record_batch([columns[name] for name in ENDS.names], schema=ENDS)


def _client_ways(facts: Records) -> Int64s:
    """Tell which end is the client; without a handshake or a request nobody knows, and servers mostly have the lower port."""
    return np.where(facts["client_side"] >= 0, facts["client_side"], facts["likely_client_side"])


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
