"""Events of groups and transactions as columns, for batches with many of them.

In come exchanges, out go the rows that `events` would decode from them, made without an object for each. Rare
messages stay with the codec: messages with a fault, requests for several members or transactions, and very
large messages, for which the codec has limits of its own.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kdissect import limits
from kdissect.array_types import Bools, Int64s
from kdissect.protocol.api_keys import EPOCH_HEARTBEATS, ApiKey
from kdissect.protocol.columnar.batch_reader import Integers, Spans
from kdissect.protocol.columnar.field_reader import FieldColumns, FieldReader
from kdissect.streams.engine import ExchangeBatch
from kdissect.tables.array_batch import ArrayBatch
from kdissect.tables.arrow_columns import int_column, name_column, text_column
from kdissect.tables.message_list import frame_spans

JOINING, LEAVING = 0, -1  # member epochs of a heartbeat; a static member leaves for a while with -2 (KIP-848)
SHARED = (
    "connection",
    "ordinal",
    "client_id",
    "api_key",
    "error_code",
    "error_name",
    "request_packet",
    "response_packet",
    "capture_file",
)
NAMES_OF_TRANSACTIONS = 4  # the version of AddPartitionsToTxn from which on it may name several (KIP-890)

GROUP_REQUEST = FieldReader(
    {
        "group_id": "group",
        "member_id": "member",
        "members.member_id": "member",
        "group_instance_id": "instance",
        "members.group_instance_id": "instance",
        "instance_id": "instance",
        "generation_id": "generation",
        "member_epoch": "generation",
        "reason": "reason",
        "members.reason": "reason",
        "server_assignor": "assignor",
        "assignments": "elements",
        "members": "elements",
        "session_timeout_ms": "session_timeout",
        "rebalance_timeout_ms": "rebalance_timeout",
    },
    response=False,
)
GROUP_RESPONSE = FieldReader(
    {
        "member_id": "member",
        "generation_id": "generation",
        "member_epoch": "generation",
        "leader": "leader",
        "members": "elements",
        "protocol_name": "protocol",
        "error_code": "error",
    },
    response=True,
)
TRANSACTION_REQUEST = FieldReader(
    {
        "transactional_id": "transactional_id",
        "v3_and_below_transactional_id": "transactional_id",
        "producer_id": "producer_id",
        "v3_and_below_producer_id": "producer_id",
        "producer_epoch": "producer_epoch",
        "v3_and_below_producer_epoch": "producer_epoch",
        "group_id": "group",
        "transaction_timeout_ms": "timeout",
        "committed": "committed",
    },
    response=False,
)
TRANSACTION_RESPONSE = FieldReader(
    {"producer_id": "producer_id", "producer_epoch": "producer_epoch"}, response=True
)

EVENTS = (
    "join",
    "sync",
    "leave",
    "error",
    "epoch",
    "init",
    "add_partitions",
    "add_offsets",
    "commit_offsets",
    "commit",
    "abort",
)
EVENT_OF_API = {
    ApiKey.JOIN_GROUP: "join",
    ApiKey.SYNC_GROUP: "sync",
    ApiKey.LEAVE_GROUP: "leave",
    ApiKey.HEARTBEAT: "error",
    **dict.fromkeys(EPOCH_HEARTBEATS, "epoch"),
    ApiKey.INIT_PRODUCER_ID: "init",
    ApiKey.ADD_PARTITIONS_TO_TXN: "add_partitions",
    ApiKey.ADD_OFFSETS_TO_TXN: "add_offsets",
    ApiKey.TXN_OFFSET_COMMIT: "commit_offsets",
    ApiKey.END_TXN: "commit",
}


class ColumnEvents(NamedTuple):
    """Events made as columns, one for each exchange of `rows`. Exchanges that are `left` were not read."""

    events: pa.RecordBatch
    rows: Int64s
    left: Int64s


class _Messages(NamedTuple):
    """The requests and responses of some exchanges; a response that is missing has no field."""

    key: NDArray[np.int16]
    request: FieldColumns
    response: FieldColumns

    def of(self, *names: str) -> Bools:
        """Return which exchanges make one of some events."""
        return np.isin(self.key, [key for key, event in EVENT_OF_API.items() if event in names])


Columns = dict[str, pa.Array]


def column_events(
    schema: pa.Schema, batch: ExchangeBatch, exchanges: pa.RecordBatch | ArrayBatch, rows: Int64s
) -> ColumnEvents:
    """Return the events of some exchanges that all have one, as rows of a schema."""
    is_group = "generation" in schema.names
    readers = (GROUP_REQUEST, GROUP_RESPONSE) if is_group else (TRANSACTION_REQUEST, TRANSACTION_RESPONSE)
    messages = _read(batch, rows, *readers)
    usual = _is_usual(messages, batch, rows)
    has_event = np.ones(len(rows), np.bool_)
    if not is_group:  # a request without a transaction adds nothing
        named = messages.request.spans("transactional_id").length > 0
        has_event = named | ~messages.of("add_partitions")
    kept = np.flatnonzero(usual & has_event)
    columns = (_group_columns if is_group else _transaction_columns)(messages, batch.arena)
    selected = exchanges.select([*SHARED, "request_first_ns", "response_last_ns"]).take(pa.array(rows[kept]))
    shared = {name: _plain(selected[name]) for name in SHARED}
    shared["asked_ns"] = selected["request_first_ns"]
    shared["time_ns"] = pc.coalesce(selected["response_last_ns"], selected["request_first_ns"])
    own = {name: column.take(pa.array(kept)) for name, column in columns.items()}
    events = pa.record_batch([(shared | own)[name] for name in schema.names], schema=schema)
    return ColumnEvents(events, rows[kept], rows[~usual])


def _read(batch: ExchangeBatch, rows: Int64s, request: FieldReader, response: FieldReader) -> _Messages:
    exchanges = batch.exchanges
    key = exchanges["api_key"][rows].astype(np.int16)
    version = exchanges["api_version"][rows].astype(np.int16)
    fields = []
    for message, reader in (("request", request), ("response", response)):
        spans = frame_spans(exchanges, message, rows)
        present = spans[:, 0] > 0 if message == "response" else np.ones(len(rows), np.bool_)
        fields.append(reader.read(batch.arena, spans, key, version, present))
    return _Messages(key, *fields)


def _is_usual(messages: _Messages, batch: ExchangeBatch, rows: Int64s) -> Bools:
    """Return which exchanges have no fault, no limit to meet, and one event at most."""
    exchanges = batch.exchanges[rows]
    size = np.maximum(
        *(exchanges[message]["stop"] - exchanges[message]["start"] for message in ("request", "response"))
    )
    several = messages.of("add_partitions") & (exchanges["api_version"] >= NAMES_OF_TRANSACTIONS)
    if "elements" in messages.request.columns:
        several |= messages.of("leave") & (messages.request.counts("elements") > 1)
    faulty = messages.request.has_fault | messages.response.has_fault
    usual: Bools = ~faulty & ~several & (size < limits.ELEMENTS)
    return usual


def _group_columns(messages: _Messages, arena: NDArray[np.uint8]) -> Columns:
    request, response = messages.request, messages.response
    join, sync, leave, epoch = (messages.of(name) for name in ("join", "sync", "leave", "epoch"))
    before, after = request.integers("generation"), response.integers("generation")
    failed = epoch & (response.integers("error").values != 0)
    joins = epoch & ~failed & before.present & (before.values == JOINING)
    leaves = epoch & ~failed & before.present & (before.values < JOINING)
    is_after = join | (epoch & ~failed & ~leaves)
    has_generation = np.where(is_after, after.present, before.present) & ~leave
    member = _replaced(request.spans("member"), response.spans("member"), join | epoch)
    of_assignor, of_response = request.spans("assignor"), response.spans("protocol")
    named = sync | (join & (of_response.length > 0))
    protocol = _only(_replaced(of_assignor, of_response, named, False), named | epoch)
    elements = response.counts("elements")
    leader, has_leader = _leaders(messages, arena, join, sync)
    session, rebalance = request.integers("session_timeout"), request.integers("rebalance_timeout")
    int32 = pa.int32()
    return {
        "event": _events(messages.key, {"join": joins, "leave": leaves, "error": failed}),
        "group_id": _text(arena, request.spans("group")),
        "member_id": _text(arena, member),
        "instance_id": _text(arena, request.spans("instance")),
        "generation": int_column(np.where(is_after, after.values, before.values), has_generation, int32),
        "leader": pa.array(leader, pa.bool_(), mask=~has_leader),
        "members": int_column(elements, join & (elements > 0), int32),
        "protocol": _text(arena, protocol),
        "reason": _text(arena, _only(request.spans("reason"), join | leave)),
        "session_timeout_ms": int_column(session.values, session.present & join, int32),
        "rebalance_timeout_ms": int_column(rebalance.values, rebalance.present & (join | epoch), int32),
    }


def _transaction_columns(messages: _Messages, arena: NDArray[np.uint8]) -> Columns:
    request, response = messages.request, messages.response
    init, end = messages.of("init"), messages.of("commit")
    producer, producer_epoch = (
        _chosen(request.integers(name), response.integers(name), init)
        for name in ("producer_id", "producer_epoch")
    )
    timeout = request.integers("timeout")
    group = _only(request.spans("group"), messages.of("add_offsets", "commit_offsets"))
    return {
        "event": _events(messages.key, {"abort": end & (request.integers("committed").values == 0)}),
        "transactional_id": _text(arena, request.spans("transactional_id")),
        "group_id": _text(arena, group),
        "producer_id": int_column(*producer, pa.int64()),
        "producer_epoch": int_column(*producer_epoch, pa.int16()),
        "timeout_ms": int_column(timeout.values, timeout.present & init, pa.int32()),
    }


def _events(key: NDArray[np.int16], others: dict[str, Bools]) -> pa.Array:
    """Return the event of each API key, or one of the others where it is true."""
    number = np.array([EVENTS.index(EVENT_OF_API[ApiKey(int(one))]) for one in np.unique(key)], np.int64)
    events = number[np.unique(key, return_inverse=True)[1]]
    for name, is_other in others.items():
        events[is_other] = EVENTS.index(name)
    return name_column(dict(enumerate(EVENTS)), events)


def _leaders(messages: _Messages, arena: NDArray[np.uint8], join: Bools, sync: Bools) -> tuple[Bools, Bools]:
    """Return who leads, and of whom that is known.

    A response to a join names the leader, and only the leader sends assignments.
    """
    leader, member = messages.response.spans("leader"), messages.response.spans("member")
    known = join & (leader.length > 0)
    leads = sync & (messages.request.counts("elements") > 0)
    for row in np.flatnonzero(known & (leader.length == member.length)).tolist():
        one, other, size = int(leader.start[row]), int(member.start[row]), int(leader.length[row])
        leads[row] = arena[one : one + size].tobytes() == arena[other : other + size].tobytes()
    return leads, known | sync


def _replaced(spans: Spans, by: Spans, where: Bools, unless_empty: bool = True) -> Spans:
    """Return spans, replaced by others in some rows: by those that are not empty, if that is asked for."""
    replaced = where & (by.length > 0) if unless_empty else where
    return Spans(np.where(replaced, by.start, spans.start), np.where(replaced, by.length, spans.length))


def _only(spans: Spans, where: Bools) -> Spans:
    return Spans(np.where(where, spans.start, -1), spans.length)


def _chosen(numbers: Integers, others: Integers, where: Bools) -> Integers:
    return Integers(
        np.where(where, others.values, numbers.values), np.where(where, others.present, numbers.present)
    )


def _text(arena: NDArray[np.uint8], spans: Spans) -> pa.Array:
    return text_column(arena, np.ascontiguousarray(spans.start), np.ascontiguousarray(spans.length))


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
