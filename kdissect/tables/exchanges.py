"""Rows of the table `exchanges`: what headers, times and message-level fields say of each exchange."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from kdissect.capture.index.splits import Split
from kdissect.jit.rows import Records
from kdissect.protocol.error_codes import error_name
from kdissect.protocol.schema.registry import APIS, api_name
from kdissect.streams.flow_state import (
    ORPHAN_RESPONSE,
    PACKET_BITS,
    REQUEST_SIDE,
    RESPONSE_SIDE,
    STATUS_NAMES,
    Int64s,
)
from kdissect.streams.processor import ExchangeBatch
from kdissect.tables.arrow_columns import (
    int_column,
    name_column,
    text_column,
)
from kdissect.tables.long_polls import idle_waits
from kdissect.tables.message_columns import Bools, MessageColumns
from kdissect.tables.schemas import EXCHANGES

API_NAMES = {key: api_name(key) for key in APIS}
STATUSES = dict(enumerate(STATUS_NAMES))


def error_names(codes: Int64s, present: Bools) -> pa.Array:
    """Give Kafka's names of error codes; null where not present."""
    return name_column(
        {int(code): error_name(int(code)) for code in np.unique(codes[present])}, codes, present
    )


def exchange_rows(
    harvest: ExchangeBatch,
    request: MessageColumns,
    response: MessageColumns,
    identities: Int64s,
    splits: Sequence[Split],
) -> tuple[pa.RecordBatch, Bools]:
    """Give the rows of a harvest in its order, and which of them have a fault.

    `identities` is the public number of each exchange's connection.
    """
    exchanges = harvest.exchanges
    asked = exchanges["status"] != ORPHAN_RESPONSE
    answered = exchanges["response"]["start"] > 0
    faults = _faults(request, response, len(exchanges))
    code = response.spread(response.columns.error_code, 0).astype(np.int64)
    has_error = response.spread(response.columns.has_error, False)
    columns: dict[str, pa.Array] = {
        "connection": pa.array(identities),
        "ordinal": int_column(exchanges["ordinal"], asked, pa.int64()),
        "status": name_column(STATUSES, exchanges["status"]),
        "api_key": int_column(exchanges["api_key"], asked, pa.int16()),
        "api_name": _api_names(exchanges["api_key"], asked),
        "api_version": int_column(exchanges["api_version"], asked, pa.int16()),
        "correlation_id": pa.array(exchanges["correlation_id"].astype(np.int32)),
        "client_id": text_column(harvest.arena, *request.spans("client_id")),
        "idle_wait": pa.array(idle_waits(harvest, request, response)),
        "in_flight": int_column(exchanges["in_flight"], asked, pa.int32()),
        "error_code": int_column(code, has_error, pa.int16()),
        "error_name": error_names(code, has_error),
        "error_count": int_column(response.spread(response.columns.error_count, 0), has_error, pa.int32()),
        "throttle_ms": int_column(*response.integers("throttle_ms"), pa.int32()),
        "acks": int_column(*request.integers("acks"), pa.int16()),
        "group_id": text_column(harvest.arena, *request.spans("group")),
        "transactional_id": text_column(harvest.arena, *request.spans("transactional_id")),
        "fault": pa.array(faults, pa.string()),
    }
    columns |= times(exchanges, asked, answered)
    columns |= places(exchanges, asked, answered, splits)
    batch = pa.record_batch([columns[name] for name in EXCHANGES.names], schema=EXCHANGES)
    return batch, np.array([fault is not None for fault in faults], bool)


def _api_names(keys: Int64s, asked: Bools) -> pa.Array:
    names = API_NAMES | {
        int(key): api_name(int(key)) for key in np.unique(keys[asked]) if int(key) not in API_NAMES
    }
    return name_column(names, keys, asked)


def times(exchanges: Records, asked: Bools, answered: Bools) -> dict[str, pa.Array]:
    """Give when requests and responses began and ended, and the latency between them."""
    columns = {}
    known = {}
    for name, side, field, there in (
        ("request_first_ns", REQUEST_SIDE, "first_byte_ns", asked),
        ("request_last_ns", REQUEST_SIDE, "last_byte_ns", asked),
        ("response_first_ns", RESPONSE_SIDE, "first_byte_ns", answered),
        ("response_last_ns", RESPONSE_SIDE, "last_byte_ns", answered),
    ):
        known[name] = there & (exchanges[side][field] >= 0)
        columns[name] = int_column(exchanges[side][field], known[name], pa.int64())
    latency = exchanges["response"]["first_byte_ns"] - exchanges["request"]["last_byte_ns"]
    # A response that was captured before its request has a latency, but this capture cannot tell it.
    measured = known["response_first_ns"] & known["request_last_ns"] & (latency >= 0)
    return columns | {"latency_ns": int_column(latency, measured, pa.int64())}


def places(exchanges: Records, asked: Bools, answered: Bools, splits: Sequence[Split]) -> dict[str, pa.Array]:
    """Give sizes, and packet numbers with the file they count in."""
    columns = {}
    place = {}
    for name, side, there in (("request", REQUEST_SIDE, asked), ("response", RESPONSE_SIDE, answered)):
        columns[f"{name}_bytes"] = int_column(
            exchanges[side]["frame_stop"] - exchanges[side]["start"], there, pa.int64()
        )
        place[name] = np.where(there, exchanges[side]["packet"], -1)
    file_of, names = _files(splits)
    at = {name: np.where(packet >= 0, file_of[packet >> PACKET_BITS], -1) for name, packet in place.items()}
    file = np.where(at["request"] >= 0, at["request"], at["response"])
    number = {name: packet & ((1 << PACKET_BITS) - 1) for name, packet in place.items()}
    for name, there in at.items():
        columns[f"{name}_packet"] = int_column(number[name], (there >= 0) & (there == file), pa.int64())
    columns["capture_file"] = name_column(names, file)
    return columns


def _files(splits: Sequence[Split]) -> tuple[Int64s, dict[int, str]]:
    names = sorted({split.name for split in splits})
    number = {name: index for index, name in enumerate(names)}
    return np.array([number[split.name] for split in splits], np.int64), dict(enumerate(names))


def _faults(request: MessageColumns, response: MessageColumns, count: int) -> list[str | None]:
    faults: list[str | None] = [None] * count
    for which, side in (("request", request), ("response", response)):
        for row, text in side.faults().items():
            before = faults[row]
            faults[row] = f"{which}: {text}" if before is None else f"{before}; {which}: {text}"
    return faults
