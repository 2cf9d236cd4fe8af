"""Rows of `group_events` and `transaction_events`: what members and transactional producers did.

In come exchanges with their columns, out go rows. Heartbeats are frequent: the columns show which of them
carry an error or change the member's epoch, and only those are events. The fields that matter (who leads, why
a member joins, whether a transaction commits) have no role that the columnar reader keeps. Mostly events are
rare, and the plain codec decodes their messages. Many clients that come and go make many events, which
`event_columns` reads together. It leaves what is wrong or unusual to the codec.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.array_types import Int64s
from kdissect.jit.rows import rows_of
from kdissect.protocol.api_keys import EPOCH_HEARTBEATS, ApiKey
from kdissect.protocol.api_mask import in_apis
from kdissect.protocol.codec.messages import decode_request, decode_response
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import ORPHAN_RESPONSE, ExchangeRow, FrameRow
from kdissect.tables.array_batch import ArrayBatch, lists_at
from kdissect.tables.event_columns import JOINING, SHARED, column_events
from kdissect.tables.message_columns import MessageColumns
from kdissect.tables.schemas import GROUP_EVENTS, TRANSACTION_EVENTS

Body = Mapping[str, Any]
Row = dict[str, Any]

FEW = 48  # events in a batch: decoding so many takes as long as making columns
BATCH_ROWS = 1 << 13  # rows that are objects at a time: a message may ask for one with every three bytes


def _join(request: Body, response: Body) -> Iterator[Row]:
    members = response.get("members")
    yield {
        "event": "join",
        "group_id": request.get("group_id"),
        "member_id": response.get("member_id") or request.get("member_id"),
        "instance_id": request.get("group_instance_id"),
        "generation": response.get("generation_id"),
        "leader": response["leader"] == response.get("member_id") if response.get("leader") else None,
        "members": len(members) if members else None,
        "protocol": response.get("protocol_name") or None,
        "reason": request.get("reason"),
        "session_timeout_ms": request.get("session_timeout_ms"),
        "rebalance_timeout_ms": request.get("rebalance_timeout_ms"),
    }


def _sync(request: Body, response: Body) -> Iterator[Row]:
    yield _member(request) | {
        "event": "sync",
        "leader": bool(request.get("assignments")),
        "protocol": response.get("protocol_name"),
    }


def _heartbeat(request: Body, _response: Body) -> Iterator[Row]:
    yield _member(request) | {"event": "error"}


def _leave(request: Body, _response: Body) -> Iterator[Row]:
    for member in request.get("members") or [request]:
        yield {
            "event": "leave",
            "group_id": request.get("group_id"),
            "member_id": member.get("member_id"),
            "instance_id": member.get("group_instance_id"),
            "reason": member.get("reason"),
        }


def _epoch(request: Body, response: Body) -> Iterator[Row]:
    before, after = request.get("member_epoch"), response.get("member_epoch")
    event = "error" if response.get("error_code") else "epoch"
    if before is not None and before <= JOINING and event == "epoch":
        event = "join" if before == JOINING else "leave"
    yield {
        "event": event,
        "group_id": request.get("group_id"),
        "member_id": response.get("member_id") or request.get("member_id"),
        "instance_id": request.get("instance_id"),
        "generation": before if event in ("leave", "error") else after,
        "protocol": request.get("server_assignor"),
        "rebalance_timeout_ms": request.get("rebalance_timeout_ms"),
    }


def _member(request: Body) -> Row:
    return {
        "group_id": request.get("group_id"),
        "member_id": request.get("member_id"),
        "instance_id": request.get("group_instance_id"),
        "generation": request.get("generation_id"),
    }


def _init(request: Body, response: Body) -> Iterator[Row]:
    yield {
        "event": "init",
        "transactional_id": request.get("transactional_id"),
        "producer_id": response.get("producer_id"),
        "producer_epoch": response.get("producer_epoch"),
        "timeout_ms": request.get("transaction_timeout_ms"),
    }


def _add_partitions(request: Body, _response: Body) -> Iterator[Row]:
    """Yield a row for each transaction to which partitions are added.

    Clients name one transaction. From version 4 on brokers name several, and some only to verify them
    (KIP-890).
    """
    for one in request.get("transactions") or []:
        if not one.get("verify_only"):
            yield {"event": "add_partitions"} | {name: one.get(name) for name in PRODUCER}
    if request.get("v3_and_below_transactional_id"):
        yield {"event": "add_partitions"} | {name: request.get(f"v3_and_below_{name}") for name in PRODUCER}


def _of_producer(event: str) -> Callable[[Body, Body], Iterator[Row]]:
    def rows(request: Body, _response: Body) -> Iterator[Row]:
        yield {"event": event, "group_id": request.get("group_id")} | {
            name: request.get(name) for name in PRODUCER
        }

    return rows


def _end(request: Body, _response: Body) -> Iterator[Row]:
    event = "commit" if request.get("committed") else "abort"
    yield {"event": event} | {name: request.get(name) for name in PRODUCER}


PRODUCER = ("transactional_id", "producer_id", "producer_epoch")


class EventTable(NamedTuple):
    """A table of events: its columns, and the function that reads its rows from the messages of an API."""

    schema: pa.Schema
    of_api: Mapping[int, Callable[[Body, Body], Iterator[Row]]]


_GROUP_EVENTS: dict[int, Callable[[Body, Body], Iterator[Row]]] = {
    ApiKey.JOIN_GROUP: _join,
    ApiKey.SYNC_GROUP: _sync,
    ApiKey.LEAVE_GROUP: _leave,
    ApiKey.HEARTBEAT: _heartbeat,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _epoch,
    ApiKey.SHARE_GROUP_HEARTBEAT: _epoch,
    ApiKey.STREAMS_GROUP_HEARTBEAT: _epoch,
}
_TRANSACTION_EVENTS: dict[int, Callable[[Body, Body], Iterator[Row]]] = {
    ApiKey.INIT_PRODUCER_ID: _init,
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: _of_producer("add_offsets"),
    ApiKey.TXN_OFFSET_COMMIT: _of_producer("commit_offsets"),
    ApiKey.END_TXN: _end,
}
EVENT_SOURCES = {
    "group_events": EventTable(GROUP_EVENTS, _GROUP_EVENTS),
    "transaction_events": EventTable(TRANSACTION_EVENTS, _TRANSACTION_EVENTS),
}


def event_rows(
    table: str,
    batch: ExchangeBatch,
    request: MessageColumns,
    response: MessageColumns,
    exchanges: pa.RecordBatch | ArrayBatch,
) -> pa.RecordBatch:
    """Return the rows of a table of events.

    `exchanges` are the rows of that table for the batch, in its order.
    """
    source = EVENT_SOURCES[table]
    rows = rows_with_event(batch, request, response, source.of_api)
    if not len(rows):
        return _no_rows(source.schema)
    if len(rows) < FEW:
        return decoded_events(source, batch, exchanges, rows)[0]
    columns = column_events(source.schema, batch, exchanges, rows)
    if not len(columns.left):
        return columns.events
    decoded, of_decoded = decoded_events(source, batch, exchanges, columns.left)
    together = pa.concat_batches([columns.events, decoded])
    order = np.argsort(np.concatenate([columns.rows, of_decoded]), kind="stable")
    return together.take(pa.array(order))


@cache
def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)


def decoded_events(
    source: EventTable, batch: ExchangeBatch, exchanges: pa.RecordBatch | ArrayBatch, rows: Int64s
) -> tuple[pa.RecordBatch, Int64s]:
    """Return the events of some exchanges, decoded one by one, and the exchange of each event."""
    owners: list[int] = []
    events = _events(source, batch, exchanges, rows, owners)
    batches = [pa.RecordBatch.from_pylist(list(islice(events, BATCH_ROWS)), schema=source.schema)]
    while part := list(islice(events, BATCH_ROWS)):
        batches.append(pa.RecordBatch.from_pylist(part, schema=source.schema))
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches), np.array(owners, np.int64)


def _events(
    source: EventTable,
    batch: ExchangeBatch,
    exchanges: pa.RecordBatch | ArrayBatch,
    rows: Int64s,
    owners: list[int],
) -> Iterator[Row]:
    names = [*SHARED, "request_first_ns", "response_last_ns"]
    shared_values = zip(*lists_at(exchanges, names, rows), strict=True)
    found = rows_of(ExchangeRow, batch.exchanges[rows])
    for owner, row, values in zip(rows.tolist(), found, shared_values, strict=True):
        request_body, response_body = _bodies(row, batch)
        *same, request_ns, response_ns = values
        times = {"asked_ns": request_ns, "time_ns": request_ns if response_ns is None else response_ns}
        for event in source.of_api[row.api_key](request_body, response_body):
            owners.append(owner)
            yield _fitting(dict(zip(SHARED, same, strict=True)) | times | event, source.schema)


def rows_with_event(
    batch: ExchangeBatch, request: MessageColumns, response: MessageColumns, keys: Collection[int]
) -> Int64s:
    """Return the exchanges of some APIs that are events.

    Few exchanges are of these APIs. Columns of all exchanges took 23 ns an exchange, and these take 8.
    """
    key = batch.exchanges["api_key"]
    rows = np.flatnonzero(in_apis(key, keys))
    rows = rows[batch.exchanges["status"][rows] != ORPHAN_RESPONSE]
    if not len(rows):
        return rows
    failed = response.spread(response.columns.error_code, 0)[rows] != 0
    is_epoch = in_apis(key[rows], EPOCH_HEARTBEATS)
    quiet = is_epoch | (key[rows] == ApiKey.HEARTBEAT)
    if is_epoch.any():
        before, _ = request.columns.messages.integers_at("generation", request.message_of[rows])
        after, _ = response.columns.messages.integers_at("generation", response.message_of[rows])
        quiet &= ~(is_epoch & ((before != after) | (before <= JOINING)))
    return rows[failed | ~quiet]


def _bodies(row: ExchangeRow, batch: ExchangeBatch) -> tuple[Body, Body]:
    request_body = decode_request(_frame(row.request, batch)).body
    if row.response.start <= 0:
        return request_body or {}, {}
    response_body = decode_response(_frame(row.response, batch), row.api_key, row.api_version)
    return request_body or {}, response_body.body or {}


def _frame(frame: FrameRow, batch: ExchangeBatch) -> bytes:
    return batch.arena[frame.start : frame.stop].tobytes()


def _fitting(row: Row, schema: pa.Schema) -> Row:
    """Return the columns of the schema.

    A name that is not UTF-8 comes from the codec with lone surrogates.
    """
    return {
        name: row[name].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        if isinstance(row[name], str)
        else row[name]
        for name in schema.names
        if name in row
    }
