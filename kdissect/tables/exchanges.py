"""Rows of the table `exchanges`: headers, times and fields of the whole message, one row for each exchange.

In come a batch of exchanges and the columns of its requests and responses, out go rows in the same order.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from kdissect.capture.index.splits import Split
from kdissect.jit.rows import Records
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import error_name
from kdissect.protocol.schema.registry import api_name
from kdissect.protocol.visitor import GROUP_COORDINATOR, TRANSACTION_COORDINATOR
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import (
    ORPHAN_RESPONSE,
    PACKET_BITS,
    REQUEST_SIDE,
    RESPONSE_SIDE,
    STATUS_NAMES,
    Int64s,
)
from kdissect.tables.arrow_columns import int_column
from kdissect.tables.coded_columns import name_codes, table_batch, text_codes
from kdissect.tables.column import TEXT
from kdissect.tables.exchange_schema import EXCHANGE_COLUMNS
from kdissect.tables.log_ends import LogEnds
from kdissect.tables.long_polls import waits_by_design
from kdissect.tables.message_columns import Bools, MessageColumns
from kdissect.tables.schemas import EXCHANGES

COORDINATOR_ROLES = {"group": GROUP_COORDINATOR, "transactional_id": TRANSACTION_COORDINATOR}
"""The role of the name in FindCoordinator by its key_type."""

STATUSES = dict(enumerate(STATUS_NAMES))


def error_names(codes: Int64s, present: Bools) -> pa.DictionaryArray:
    """Return the names of error codes; null where not present."""
    return name_codes({code: error_name(code) for code in distinct(codes, present)}, codes, present)


def distinct(codes: Int64s, present: Bools) -> list[int]:
    """Return the codes of 16 bits that occur, found without sorting."""
    used = np.zeros(1 << 16, bool)
    used[codes[present]] = True  # a negative code counts from the end
    places = np.flatnonzero(used)
    return np.sort(places.astype(np.uint16).astype(np.int16)).tolist()


def exchange_rows(
    batch: ExchangeBatch,
    request: MessageColumns,
    response: MessageColumns,
    identities: Int64s,
    splits: Sequence[Split],
    log_ends: LogEnds,
    ended: Mapping[str, Bools],
    coded: bool = False,
) -> tuple[pa.RecordBatch, Bools]:
    """Return the rows of a batch in its order, and which of them have a fault.

    `identities` has the public number of the connection of each exchange. `log_ends` has what the exchanges
    before this batch told of the ends of logs, and takes what this batch tells. `ended` marks, by side,
    messages that were not sent in full. Texts are codes if `coded`.
    """
    exchanges = batch.exchanges
    has_request = exchanges["status"] != ORPHAN_RESPONSE
    has_response = exchanges["response"]["start"] > 0
    faults = _faults(request, response, ended)
    code = response.spread(response.columns.error_code, 0).astype(np.int64)
    has_error = response.spread(response.columns.has_error, False)
    replica, is_replica = request.integers("replica_id")
    generation, joined = response.integers("generation")
    joined &= (exchanges["api_key"] == ApiKey.JOIN_GROUP) & (code == 0)
    columns: dict[str, pa.Array] = {
        "connection": pa.array(identities),
        "ordinal": int_column(exchanges["ordinal"], has_request, pa.int64()),
        "status": name_codes(STATUSES, exchanges["status"]),
        "api_key": int_column(exchanges["api_key"], has_request, pa.int16()),
        "api_name": _api_names(exchanges["api_key"], has_request),
        "api_version": int_column(exchanges["api_version"], has_request, pa.int16()),
        "correlation_id": pa.array(exchanges["correlation_id"].astype(np.int32)),
        "in_flight": int_column(exchanges["in_flight"], has_request, pa.int32()),
        "error_code": int_column(code, has_error, pa.int16()),
        "error_name": error_names(code, has_error),
        "error_count": int_column(response.spread(response.columns.error_count, 0), has_error, pa.int32()),
        "replica_id": int_column(replica, is_replica & (replica >= 0), pa.int32()),
        "group_id": text_codes(batch.arena, *_named(exchanges["api_key"], request, "group")),
        "generation": int_column(generation, joined & (generation >= 0), pa.int32()),
        "transactional_id": text_codes(
            batch.arena, *_named(exchanges["api_key"], request, "transactional_id")
        ),
        "fault": _fault_column(faults, len(exchanges)),
    }
    columns |= sourced_columns(batch, request, response)
    columns |= time_columns(exchanges, has_request, has_response)
    columns |= wait_columns(batch, request, response, log_ends)
    columns |= place_columns(exchanges, has_request, has_response, splits)
    rows = table_batch(columns, EXCHANGES, coded)
    has_fault = np.zeros(len(exchanges), bool)
    has_fault[list(faults)] = True
    return rows, has_fault


def _named(keys: Int64s, request: MessageColumns, role: str) -> tuple[Int64s, Int64s]:
    """Return the spans of groups or transactional ids; FindCoordinator names one of both by a number."""
    start, length = request.spans(role)
    kind, _ = request.integers("coordinator_type")  # 0 in version 0, which knows groups only
    key_start, key_length = request.spans("coordinator_key")
    wanted = (keys == ApiKey.FIND_COORDINATOR) & (kind == COORDINATOR_ROLES[role]) & (key_start >= 0)
    return np.where(wanted, key_start, start), np.where(wanted, key_length, length)


def sourced_columns(
    batch: ExchangeBatch, request: MessageColumns, response: MessageColumns
) -> dict[str, pa.Array]:
    """Return the columns that have one value of the request, or one of the response."""
    columns = {}
    for column in EXCHANGE_COLUMNS:
        if column.source is None:
            continue
        message = request if column.source.side == REQUEST_SIDE else response
        if column.type == TEXT:
            columns[column.name] = text_codes(batch.arena, *message.spans(column.source.column))
        else:
            columns[column.name] = int_column(*message.integers(column.source.column), column.type)
    return columns


def _api_names(keys: Int64s, has_request: Bools) -> pa.Array:
    return name_codes({key: api_name(key) for key in distinct(keys, has_request)}, keys, has_request)


def time_columns(exchanges: Records, has_request: Bools, has_response: Bools) -> dict[str, pa.Array]:
    """Return the columns of times: when request and response began and ended, and the latency."""
    columns = {}
    known = {}
    for name, side, field, present in (
        ("request_first_ns", REQUEST_SIDE, "first_byte_ns", has_request),
        ("request_last_ns", REQUEST_SIDE, "last_byte_ns", has_request),
        ("response_first_ns", RESPONSE_SIDE, "first_byte_ns", has_response),
        ("response_last_ns", RESPONSE_SIDE, "last_byte_ns", has_response),
    ):
        known[name] = present & (exchanges[side][field] >= 0)
        columns[name] = int_column(exchanges[side][field], known[name], pa.int64())
    latency = exchanges["response"]["first_byte_ns"] - exchanges["request"]["last_byte_ns"]
    # A response that was captured before its request has a latency, but this capture cannot tell it.
    measured = known["response_first_ns"] & known["request_last_ns"] & (latency >= 0)
    return columns | {"latency_ns": int_column(latency, measured, pa.int64())}


def wait_columns(
    batch: ExchangeBatch, request: MessageColumns, response: MessageColumns, log_ends: LogEnds
) -> dict[str, pa.Array]:
    """Return the columns of waits by design: whether the latency is one, and which part of it."""
    waits = waits_by_design(batch, request, response, log_ends.follow(batch, request, response))
    return {
        "idle_wait": pa.array(waits.idle),
        "wait_ns": int_column(waits.wait_ns, waits.is_timed, pa.int64()),
    }


def place_columns(
    exchanges: Records, has_request: Bools, has_response: Bools, splits: Sequence[Split]
) -> dict[str, pa.Array]:
    """Return the columns of sizes, and of packet numbers with the file in which they count."""
    columns = {}
    packets = {}
    for name, side, present in (
        ("request", REQUEST_SIDE, has_request),
        ("response", RESPONSE_SIDE, has_response),
    ):
        columns[f"{name}_bytes"] = int_column(
            exchanges[side]["frame_stop"] - exchanges[side]["start"], present, pa.int64()
        )
        packets[name] = np.where(present, exchanges[side]["packet"], -1)
    file_of, names = _files(splits)
    files = {
        name: np.where(packet >= 0, file_of[packet >> PACKET_BITS], -1) for name, packet in packets.items()
    }
    file = np.where(files["request"] >= 0, files["request"], files["response"])
    numbers = {name: packet & ((1 << PACKET_BITS) - 1) for name, packet in packets.items()}
    for name, present in files.items():
        columns[f"{name}_packet"] = int_column(numbers[name], (present >= 0) & (present == file), pa.int64())
    columns["capture_file"] = name_codes(names, file)
    return columns


def _files(splits: Sequence[Split]) -> tuple[Int64s, dict[int, str]]:
    names = sorted({split.name for split in splits})
    number = {name: index for index, name in enumerate(names)}
    return np.array([number[split.name] for split in splits], np.int64), dict(enumerate(names))


def _faults(request: MessageColumns, response: MessageColumns, ended: Mapping[str, Bools]) -> dict[int, str]:
    """Return the faults of exchanges, by row."""
    faults: dict[int, str] = {}
    for columns in (request, response):
        for row, text in columns.faults(ended[columns.side]).items():
            own = f"{columns.side}: {text}"
            faults[row] = f"{faults[row]}; {own}" if row in faults else own
    return faults


def _fault_column(faults: Mapping[int, str], count: int) -> pa.Array:
    """Return the faults as a column; hardly any batch has some."""
    if not faults:
        return pa.nulls(count, pa.string())
    return pa.array([faults.get(row) for row in range(count)], pa.string())
