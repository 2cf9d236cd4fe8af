"""Rows of the table `exchanges`: headers, times and fields of the whole message, one row for each exchange.

In come a batch of exchanges and the columns of its requests and responses, out go rows in the same order.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from kdissect.array_types import Bools, Int64s
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.api_mask import in_apis
from kdissect.protocol.columnar.field_reader import FieldReader
from kdissect.protocol.error_codes import error_name
from kdissect.protocol.schema.registry import api_name
from kdissect.protocol.visitor import GROUP_COORDINATOR, TRANSACTION_COORDINATOR
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import REQUEST_SIDE
from kdissect.tables.array_batch import ArrayBatch, ArrayColumn, number_column
from kdissect.tables.coded_columns import coded_names, coded_spans, table_batch
from kdissect.tables.coded_text import CodedText, NumberColumn, code_text
from kdissect.tables.column import TEXT
from kdissect.tables.exchange_schema import EXCHANGE_COLUMNS
from kdissect.tables.header_columns import CaptureFiles, header_columns
from kdissect.tables.log_ends import LogEnds
from kdissect.tables.long_polls import waits_by_design
from kdissect.tables.message_columns import MessageColumns
from kdissect.tables.message_list import list_messages
from kdissect.tables.schemas import EXCHANGES

COORDINATOR_ROLES = {"group": GROUP_COORDINATOR, "transactional_id": TRANSACTION_COORDINATOR}
"""The role of the name in FindCoordinator by its key_type."""

MANY_GROUPS = frozenset(
    {
        ApiKey.OFFSET_FETCH,
        ApiKey.FIND_COORDINATOR,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.DELETE_GROUPS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.STREAMS_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    }
)
"""Requests that may name several groups, in one of the arrays of GROUP_ARRAYS."""
GROUP_ARRAYS = FieldReader(
    dict.fromkeys(("groups", "groups_names", "group_ids", "coordinator_keys"), "groups"), response=False
)

_NO_ERROR = pa.array([error_name(0)], pa.string())


def error_names(codes: Int64s, present: Bools) -> CodedText:
    """Return the names of error codes; null where not present."""
    if present.any() and not codes.any():  # as in most batches: two passes, and not nine
        return CodedText(present.astype(np.int64) - 1, _NO_ERROR)
    return coded_names({code: error_name(code) for code in distinct(codes, present)}, codes, present)


def distinct(codes: Int64s, present: Bools) -> list[int]:
    """Return the codes of 16 bits that occur, found without sorting."""
    known = codes if present.all() else codes[present]
    least = int(known.min(initial=0))
    return (np.flatnonzero(np.bincount(known - least)) + least).tolist()


def exchange_rows(
    batch: ExchangeBatch,
    request: MessageColumns,
    response: MessageColumns,
    identities: Int64s,
    files: CaptureFiles,
    log_ends: LogEnds,
    ended: Mapping[str, Bools],
    as_arrays: bool = False,
) -> tuple[pa.RecordBatch | ArrayBatch, Bools]:
    """Return the rows of a batch in its order, and which of them have a fault.

    `identities` has the public number of the connection of each exchange. `log_ends` has what the exchanges
    before this batch told of the ends of logs, and takes what this batch tells. `ended` marks, by side,
    messages that were not sent in full. Rows are arrays if `as_arrays`.
    """
    exchanges = batch.exchanges
    columns = header_columns(exchanges, files)
    faults = _faults(request, response, ended)
    code = response.spread(response.columns.error_code, 0).astype(np.int64)
    has_error = response.spread(response.columns.has_error, False)
    replica, is_replica = request.integers("replica_id")
    generation, joined = response.integers("generation")
    joined &= (exchanges["api_key"] == ApiKey.JOIN_GROUP) & (code == 0)
    api_key = columns["api_key"]
    assert isinstance(api_key, NumberColumn)
    columns |= {
        "connection": NumberColumn(identities, np.ones(len(identities), bool), pa.int64()),
        "api_name": _api_names(api_key),
        "error_code": number_column(code, has_error, pa.int16()),
        "error_name": error_names(code, has_error),
        "error_count": number_column(response.spread(response.columns.error_count, 0), has_error, pa.int32()),
        "replica_id": number_column(replica, is_replica & (replica >= 0), pa.int32()),
        "group_id": coded_spans(batch.arena, *_the_group(batch, request)),
        "generation": number_column(generation, joined & (generation >= 0), pa.int32()),
        "transactional_id": coded_spans(
            batch.arena, *_named(exchanges["api_key"], request, "transactional_id")
        ),
        "fault": _fault_column(faults, len(exchanges)),
    }
    columns |= sourced_columns(batch, request, response)
    columns |= wait_columns(batch, request, response, log_ends)
    rows = table_batch(columns, EXCHANGES, as_arrays)
    has_fault = np.zeros(len(exchanges), bool)
    has_fault[list(faults)] = True
    return rows, has_fault


def _the_group(batch: ExchangeBatch, request: MessageColumns) -> tuple[Int64s, Int64s]:
    """Return the span of the group of each request; none if it names several: an error is of one of them."""
    keys = batch.exchanges["api_key"]
    start, length = _named(keys, request, "group")
    rows = np.flatnonzero(in_apis(keys, MANY_GROUPS) & (start >= 0))
    if not len(rows):
        return start, length
    versions = batch.exchanges["api_version"][rows].astype(np.int16)
    spans = list_messages(batch.exchanges, REQUEST_SIDE, rows).spans
    found = GROUP_ARRAYS.read(batch.arena, spans, keys[rows].astype(np.int16), versions)
    several = rows[found.counts("groups") > 1]
    start, length = start.copy(), length.copy()
    start[several], length[several] = -1, 0
    return start, length


def _named(keys: Int64s, request: MessageColumns, role: str) -> tuple[Int64s, Int64s]:
    """Return the spans of groups or transactional ids; FindCoordinator names one of both by a number."""
    start, length = request.spans(role)
    finds = keys == ApiKey.FIND_COORDINATOR
    if not finds.any():
        return start, length
    kind, _ = request.integers("coordinator_type")  # 0 in version 0, which knows groups only
    key_start, key_length = request.spans("coordinator_key")
    wanted = finds & (kind == COORDINATOR_ROLES[role]) & (key_start >= 0)
    return np.where(wanted, key_start, start), np.where(wanted, key_length, length)


def sourced_columns(
    batch: ExchangeBatch, request: MessageColumns, response: MessageColumns
) -> dict[str, ArrayColumn]:
    """Return the columns that have one value of the request, or one of the response."""
    columns: dict[str, ArrayColumn] = {}
    for column in EXCHANGE_COLUMNS:
        if column.source is None:
            continue
        message = request if column.source.side == REQUEST_SIDE else response
        if column.type == TEXT:
            columns[column.name] = coded_spans(batch.arena, *message.spans(column.source.column))
        else:
            columns[column.name] = NumberColumn(*message.integers(column.source.column), column.type)
    return columns


def _api_names(keys: NumberColumn) -> CodedText:
    names = {key: api_name(key) for key in distinct(keys.values, keys.present)}
    return coded_names(names, keys.values, keys.present)


def wait_columns(
    batch: ExchangeBatch, request: MessageColumns, response: MessageColumns, log_ends: LogEnds
) -> dict[str, ArrayColumn]:
    """Return the columns of waits by design: whether the latency is one, and which part of it."""
    waits = waits_by_design(batch, request, response, log_ends.follow(batch, request, response))
    return {
        "idle_wait": waits.idle,
        "wait_ns": number_column(waits.wait_ns, waits.is_timed, pa.int64()),
    }


def _faults(request: MessageColumns, response: MessageColumns, ended: Mapping[str, Bools]) -> dict[int, str]:
    """Return the faults of exchanges, by row."""
    faults: dict[int, str] = {}
    for columns in (request, response):
        for row, text in columns.faults(ended[columns.side]).items():
            own = f"{columns.side}: {text}"
            faults[row] = f"{faults[row]}; {own}" if row in faults else own
    return faults


def _fault_column(faults: Mapping[int, str], count: int) -> CodedText:
    """Return the faults as a column; hardly any batch has some."""
    if not faults:
        return CodedText(np.full(count, -1), pa.array([], pa.string()))
    return code_text(pa.array([faults.get(row) for row in range(count)], pa.string()))
