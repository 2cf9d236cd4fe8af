"""Rows of `group_events` and `transaction_events`: steps of the group and transaction protocols, message by message.

These steps are rare beside what clients do all the time, and what matters of them (who leads, why a member joins, whether a
transaction ends in a commit) has no column in the columnar reader; so here the plain codec reads them. Heartbeats are
frequent: only those are read that carry an error or change the member's epoch, which the columns tell.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.jit.rows import rows_of
from kdissect.protocol.api_keys import EPOCH_HEARTBEATS, ApiKey
from kdissect.protocol.codec.messages import decode_request, decode_response
from kdissect.streams.flow_state import ORPHAN_RESPONSE, ExchangeRow, FrameRow
from kdissect.streams.processor import ExchangeBatch
from kdissect.tables.message_columns import Bools, MessageColumns
from kdissect.tables.schemas import GROUP_EVENTS, TRANSACTION_EVENTS

Body = Mapping[str, Any]
Row = dict[str, Any]

TOGETHER = 1 << 13  # rows that are objects at a time: a message may ask for one with every three bytes
JOINING, LEAVING = (
    0,
    -1,
)  # member epochs of a heartbeat request; a static member leaves for a while with -2 (KIP-848)

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


def _join(asked: Body, told: Body) -> Iterator[Row]:
    members = told.get("members")
    yield {
        "event": "join",
        "group_id": asked.get("group_id"),
        "member_id": told.get("member_id") or asked.get("member_id"),
        "instance_id": asked.get("group_instance_id"),
        "generation": told.get("generation_id"),
        "leader": told["leader"] == told.get("member_id") if told.get("leader") else None,
        "members": len(members) if members else None,
        "protocol": told.get("protocol_name") or None,
        "reason": asked.get("reason"),
        "session_timeout_ms": asked.get("session_timeout_ms"),
        "rebalance_timeout_ms": asked.get("rebalance_timeout_ms"),
    }


def _sync(asked: Body, told: Body) -> Iterator[Row]:
    yield _member(asked) | {
        "event": "sync",
        "leader": bool(asked.get("assignments")),
        "protocol": told.get("protocol_name"),
    }


def _heartbeat(asked: Body, _told: Body) -> Iterator[Row]:
    yield _member(asked) | {"event": "error"}


def _leave(asked: Body, _told: Body) -> Iterator[Row]:
    for member in asked.get("members") or [asked]:
        yield {
            "event": "leave",
            "group_id": asked.get("group_id"),
            "member_id": member.get("member_id"),
            "instance_id": member.get("group_instance_id"),
            "reason": member.get("reason"),
        }


def _epoch(asked: Body, told: Body) -> Iterator[Row]:
    before, after = asked.get("member_epoch"), told.get("member_epoch")
    event = "error" if told.get("error_code") else "epoch"
    if before is not None and before <= JOINING and event == "epoch":
        event = "join" if before == JOINING else "leave"
    yield {
        "event": event,
        "group_id": asked.get("group_id"),
        "member_id": told.get("member_id") or asked.get("member_id"),
        "instance_id": asked.get("instance_id"),
        "generation": before if event in ("leave", "error") else after,
        "protocol": asked.get("server_assignor"),
        "rebalance_timeout_ms": asked.get("rebalance_timeout_ms"),
    }


def _member(asked: Body) -> Row:
    return {
        "group_id": asked.get("group_id"),
        "member_id": asked.get("member_id"),
        "instance_id": asked.get("group_instance_id"),
        "generation": asked.get("generation_id"),
    }


def _init(asked: Body, told: Body) -> Iterator[Row]:
    yield {
        "event": "init",
        "transactional_id": asked.get("transactional_id"),
        "producer_id": told.get("producer_id"),
        "producer_epoch": told.get("producer_epoch"),
        "timeout_ms": asked.get("transaction_timeout_ms"),
    }


def _add_partitions(asked: Body, _told: Body) -> Iterator[Row]:
    """Clients name one transaction; from version 4 on brokers ask for several, and to verify is not to add (KIP-890)."""
    for one in asked.get("transactions") or []:
        if not one.get("verify_only"):
            yield {"event": "add_partitions"} | {name: one.get(name) for name in PRODUCER}
    if asked.get("v3_and_below_transactional_id"):
        yield {"event": "add_partitions"} | {name: asked.get(f"v3_and_below_{name}") for name in PRODUCER}


def _of_producer(event: str) -> Callable[[Body, Body], Iterator[Row]]:
    def rows(asked: Body, _told: Body) -> Iterator[Row]:
        yield {"event": event, "group_id": asked.get("group_id")} | {
            name: asked.get(name) for name in PRODUCER
        }

    return rows


def _end(asked: Body, _told: Body) -> Iterator[Row]:
    event = "commit" if asked.get("committed") else "abort"
    yield {"event": event} | {name: asked.get(name) for name in PRODUCER}


PRODUCER = ("transactional_id", "producer_id", "producer_epoch")


class EventTable(NamedTuple):
    """What a table of events is made of: its columns, and what it reads from the messages of each API."""

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
    harvest: ExchangeBatch,
    request: MessageColumns,
    response: MessageColumns,
    exchanges: pa.RecordBatch,
) -> pa.RecordBatch:
    """Give the rows of a table of events for a harvest; `exchanges` are its rows of that table, in the same order."""
    rows = _steps(EVENT_SOURCES[table], harvest, request, response, exchanges)
    schema = EVENT_SOURCES[table].schema
    batches = [pa.RecordBatch.from_pylist(list(islice(rows, TOGETHER)), schema=schema)]
    while part := list(islice(rows, TOGETHER)):
        batches.append(pa.RecordBatch.from_pylist(part, schema=schema))
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _steps(
    steps: EventTable,
    harvest: ExchangeBatch,
    request: MessageColumns,
    response: MessageColumns,
    exchanges: pa.RecordBatch,
) -> Iterator[Row]:
    picked = np.flatnonzero(_are_steps(harvest, request, response, tuple(steps.of_api)))
    facts = exchanges.take(pa.array(picked))
    shared = zip(
        *(facts[name].to_pylist() for name in (*SHARED, "request_first_ns", "response_last_ns")), strict=True
    )
    for row, about in zip(rows_of(ExchangeRow, harvest.exchanges[picked]), shared, strict=True):
        asked, told = _bodies(row, harvest)
        *same, asked_ns, told_ns = about
        times = {"asked_ns": asked_ns, "time_ns": asked_ns if told_ns is None else told_ns}
        for step in steps.of_api[row.api_key](asked, told):
            yield _fitting(dict(zip(SHARED, same, strict=True)) | times | step, steps.schema)


def _are_steps(
    harvest: ExchangeBatch, request: MessageColumns, response: MessageColumns, keys: tuple[int, ...]
) -> Bools:
    exchanges = harvest.exchanges
    key = exchanges["api_key"]
    mask: Bools = np.isin(key, keys) & (exchanges["status"] != ORPHAN_RESPONSE)
    failed = response.spread(response.columns.error_code, 0) != 0
    before, after = request.integers("generation")[0], response.integers("generation")[0]
    changes = (before != after) | (before <= JOINING)
    quiet = (key == ApiKey.HEARTBEAT) | (np.isin(key, [*EPOCH_HEARTBEATS]) & ~changes)
    return mask & (failed | ~quiet)


def _bodies(row: ExchangeRow, harvest: ExchangeBatch) -> tuple[Body, Body]:
    asked = decode_request(_frame(row.request, harvest)).body
    if row.response.start <= 0:
        return asked or {}, {}
    told = decode_response(_frame(row.response, harvest), row.api_key, row.api_version)
    return asked or {}, told.body or {}


def _frame(frame: FrameRow, harvest: ExchangeBatch) -> bytes:
    return harvest.arena[frame.start : frame.stop].tobytes()


def _fitting(row: Row, schema: pa.Schema) -> Row:
    """Make text of what is text; names that are no UTF-8 come from the codec with lone surrogates."""
    return {
        name: row[name].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        if isinstance(row[name], str)
        else row[name]
        for name in schema.names
        if name in row
    }
