"""Rows of the table `connections`: each TCP connection from its first packet to its last.

In come the state of pass two at its end and `ConnectionDetails`, which collected on the way what exchanges
tell about their connection: client id, software, SASL, faults. Out goes one row for each connection.
"""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from kdissect.array_types import Bools, Int64s
from kdissect.jit.rows import Records, array_of
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import decode_request
from kdissect.streams.carry.value_bytes import Value
from kdissect.streams.endpoints import EndpointTable
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import ENDED_NAMES, OPEN, PROTOCOL_NAMES
from kdissect.streams.processor import FlowProcessor
from kdissect.streams.sasl import Authentications, user_of
from kdissect.streams.tls.tls_columns import tls_columns, with_tls
from kdissect.tables.array_batch import ArrayBatch, ArrayColumn, array_batch, list_column
from kdissect.tables.arrow_columns import (
    int_column,
    name_column,
)
from kdissect.tables.coded_columns import coded_spans
from kdissect.tables.coded_text import CodedText, NumberColumn
from kdissect.tables.column import INT32, INT64
from kdissect.tables.column_values import every_row, run_starts
from kdissect.tables.first_texts import FirstTexts
from kdissect.tables.log_ends import LogEnds
from kdissect.tables.message_columns import MessageColumns
from kdissect.tables.schemas import CONNECTIONS, ENDS
from kdissect.tables.tcp_rows import tcp_connection_columns

FIRST_VALUES = {
    "client_id": "client_id",
    "client_software_name": "client_software_name",
    "client_software_version": "client_software_version",
    "sasl_mechanism": "sasl_mechanism",
}


SASL_MECHANISM, SASL_USER = "sasl_mechanism", "sasl_user"
TEXT_COLUMNS = (*FIRST_VALUES, SASL_USER)
"""Columns that requests fill: four from fields that the columnar reader keeps, and the user of a token."""

OF_SASL = (SASL_MECHANISM, SASL_USER)
"""Those of connections that authenticate, one by one."""


class ConnectionDetails:
    """Facts of exchanges about their connection: first values of columns, faults, and the ends of logs."""

    def __init__(self) -> None:
        self._values: dict[str, dict[int, str]] = {name: {} for name in OF_SASL}
        self._first = {name: FirstTexts() for name in TEXT_COLUMNS if name not in OF_SASL}
        self._has = {name: np.zeros(0, np.bool_) for name in FIRST_VALUES}  # by row of the connection
        self._faults: dict[int, int] = {}
        self.authentications = Authentications()
        self.log_ends = LogEnds()

    def add(self, batch: ExchangeBatch, request: MessageColumns, has_fault: Bools) -> None:
        """Add what a batch of exchanges tells; `has_fault` marks those with a fault."""
        connection = batch.exchanges["connection"].copy()  # in one piece, since it is gone through five times
        messages = request.columns.messages
        for name, column in FIRST_VALUES.items():
            if self._are_known(name, connection):
                continue
            found = messages.rows_with(column)
            found = found[self._unknown(name, connection, request.rows[found])]
            if not len(found):
                continue
            of_found = connection[request.rows[found]]
            starts = run_starts(of_found)  # to sort few rows takes no time
            connections, first_rows = np.unique(of_found[starts], return_index=True)
            texts = coded_spans(batch.arena, *messages.spans_at(column, found[starts[first_rows]]))
            if name in self._first:
                self._first[name].put(connections, texts)
            else:
                self._values[name].update(zip(connections.tolist(), list_column(texts), strict=True))
        self._add_users(batch)
        self.add_faults(batch, has_fault)

    def _are_known(self, name: str, connection: Int64s) -> bool:
        """Return whether all connections have a value of a column, as in most batches those of clients."""
        has = self._has[name]
        return int(connection.max(initial=-1)) < len(has) and bool(has[connection].all())

    def _unknown(self, name: str, connection: Int64s, rows: Int64s) -> Int64s:
        """Return the places in `rows` of connections without a value of a column, and expect one now."""
        has = self._has[name]
        more = int(connection.max(initial=-1)) + 1 - len(has)
        if more > 0:
            has = self._has[name] = np.append(has, np.zeros(len(has) + more, np.bool_))
        of_rows = connection[rows]
        unknown = np.flatnonzero(~has[of_rows])
        has[of_rows[unknown]] = True
        return unknown

    def _add_users(self, batch: ExchangeBatch) -> None:
        """Read the users in the tokens of SaslAuthenticate, as far as they are the first of a connection."""
        for row in np.flatnonzero(batch.exchanges["api_key"] == ApiKey.SASL_AUTHENTICATE).tolist():
            if int(batch.exchanges["connection"][row]) not in self._values[SASL_USER]:
                body = decode_request(_request(batch, row)).body
                self._add_user(batch, row, (body or {}).get("auth_bytes"))

    def add_tokens(self, batch: ExchangeBatch) -> None:
        """Add raw tokens (rows with status SASL_TOKEN), which have no request around them."""
        self.authentications.add_tokens(batch.exchanges, self.known(SASL_MECHANISM))
        for row in range(len(batch.exchanges)):
            if int(batch.exchanges["connection"][row]) not in self._values[SASL_USER]:
                self._add_user(batch, row, _request(batch, row))

    def _add_user(self, batch: ExchangeBatch, row: int, token: bytes | None) -> None:
        connection = int(batch.exchanges["connection"][row])
        user = user_of(self._values[SASL_MECHANISM].get(connection), token or b"")
        if user is not None:
            self._values[SASL_USER][connection] = user

    def add_faults(self, batch: ExchangeBatch, has_fault: Bools) -> None:
        """Count the exchanges of a batch that have a fault."""
        if not has_fault.any():
            return
        connections, counts = np.unique(batch.exchanges["connection"][has_fault], return_counts=True)
        for row, count in zip(connections.tolist(), counts.tolist(), strict=True):
            self._faults[row] = self._faults.get(row, 0) + count

    def carried(self, rows: Int64s) -> Value:
        """Return what is known of the connections in `rows`, which are counted anew."""
        row_of = {row: number for number, row in enumerate(rows.tolist())}

        def kept(known: Iterable[tuple[int, str | int | None]]) -> Value:
            return [[row_of[row], value] for row, value in known if row in row_of]

        return {
            "values": {
                **{name: kept(values.items()) for name, values in self._values.items()},
                **{name: kept(texts) for name, texts in self._first.items()},
            },
            "faults": kept(self._faults.items()),
            "authentications": self.authentications.carried(row_of),
            "log_ends": self.log_ends.carried(rows),
        }

    def resume(self, value: Value) -> None:
        """Go on with what `carried` returned."""
        self._values = {name: dict(value["values"][name]) for name in OF_SASL}
        self._first = {name: FirstTexts(value["values"][name]) for name in self._first}
        for name in FIRST_VALUES:
            rows = np.array([row for row, _ in value["values"][name]], np.int64)
            self._has[name] = np.bincount(rows) > 0
        self._faults = dict(value["faults"])
        self.authentications.resume(value["authentications"])
        self.log_ends.resume(value["log_ends"])

    def known(self, name: str) -> dict[int, str]:
        """Return the values of a column about SASL by row of the connection."""
        return self._values[name]

    def texts(self, name: str, count: int) -> pa.Array:
        """Return a text column for the first `count` connections; null where no request has a value."""
        if name in self._first:
            return self._first[name].column(count).arrow()
        known = self._values[name]
        return pa.array([known.get(row) for row in range(count)], pa.string())

    def faults(self, count: int) -> pa.Array:
        """Return the number of exchanges with a fault for the first `count` connections."""
        return pa.array([self._faults.get(row, 0) for row in range(count)], pa.int64())


def connection_rows(processor: FlowProcessor, details: ConnectionDetails) -> pa.RecordBatch:
    """Return one row for each connection, in the order in which they were first seen."""
    count = len(processor.endpoints)
    facts, directions, tls = with_tls(processor)
    client = client_sides(facts)
    to_server = directions[2 * np.arange(count) + client]
    to_client = directions[2 * np.arange(count) + 1 - client]

    def both(field: str) -> pa.Array:
        return pa.array(to_server[field] + to_client[field])

    server_rtt = facts["syn_ack_ns"] - facts["syn_ns"]
    client_rtt = facts["ack_ns"] - facts["syn_ack_ns"]
    columns = {
        "connection": pa.array(processor.identities),
        **{
            name: column.arrow()
            for name, column in _endpoints(processor.endpoints, np.arange(count), client).items()
        },
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
        **tcp_connection_columns(processor.tcp, client),
        **{name: details.texts(name, count) for name in TEXT_COLUMNS},
        "requests": pa.array(facts["requests"]),
        "responses": pa.array(facts["responses"]),
        "unanswered": pa.array(facts["unanswered"]),
        "orphan_responses": pa.array(facts["orphans"]),
        "faults": details.faults(count),
        **details.authentications.columns((facts["ended"] != OPEN).tolist()),
        **tls_columns(tls, count),
    }
    return pa.record_batch([columns[name] for name in CONNECTIONS.names], schema=CONNECTIONS)


def end_rows(processor: FlowProcessor, rows: Int64s) -> ArrayBatch:
    """Return both ends of some connections (ENDS), as far as they are known by now."""
    client = client_sides(array_of(processor.state.connections), rows)
    columns: dict[str, ArrayColumn] = {**_endpoints(processor.endpoints, rows, client)}
    columns["connection"] = NumberColumn(processor.identities[rows], every_row(len(rows)), INT64)
    return array_batch(columns, ENDS)


def _request(batch: ExchangeBatch, row: int) -> bytes:
    frame = batch.exchanges["request"][row]
    return batch.arena[frame["start"] : frame["stop"]].tobytes()


def client_sides(facts: Records, rows: Int64s | slice = slice(None)) -> Int64s:
    """Return the side of the client of some connections, 0 for A and 1 for B.

    Without a handshake or a request it is not known, and servers mostly have the lower port. Two columns of
    some rows take a tenth of the time of whole rows.
    """
    seen, likely = facts["client_side"][rows], facts["likely_client_side"][rows]
    return np.where(seen >= 0, seen, likely)


def _endpoints(table: EndpointTable, rows: Int64s, client: Int64s) -> dict[str, CodedText | NumberColumn]:
    """Return both ends of some connections; `client` says which side of each is the client."""
    is_a = client == 0
    numbers, ports = (
        {side: table.column(f"{side}_{name}", rows) for side in ("a", "b")} for name in ("number", "port")
    )
    columns: dict[str, CodedText | NumberColumn] = {}
    for end, is_first in (("client", is_a), ("server", ~is_a)):
        number, port = (np.where(is_first, of["a"], of["b"]).astype(np.int64) for of in (numbers, ports))
        columns[f"{end}_host"] = CodedText(number, table.hosts.texts).compact()
        columns[f"{end}_port"] = NumberColumn(port, every_row(len(rows)), INT32)
    return columns
