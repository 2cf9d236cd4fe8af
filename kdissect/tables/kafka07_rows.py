"""Rows of the tables for Kafka 0.7: plain Python, since such traffic is rare and small.

An exchange has its name and type (as `api_key`), and no version, correlation id or client id. A MultiFetch is several
fetches and a MultiProduce several produces: its rows in `partitions` have the `api_key` of the single request,
so that what was written to a topic and read from it adds up by the same two keys whatever the clients sent.
"""

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.capture.index.splits import Split
from kdissect.jit.rows import rows_of
from kdissect.protocol.codec.messages import DecodedMessage
from kdissect.protocol.kafka07.message_codec import (
    ANSWERS,
    OldType,
    Tree,
    decode_old_request,
    decode_old_response,
    old_error_name,
    old_name,
    parts_of,
)
from kdissect.protocol.kafka07.message_sets import summarise_old
from kdissect.protocol.records.batches import CODEC_NAMES
from kdissect.streams.flow_state import (
    BEFORE_VERSIONS,
    ORPHAN_RESPONSE,
    ExchangeRow,
    FrameRow,
    Int64s,
)
from kdissect.streams.processor import ExchangeBatch
from kdissect.tables.arrow_columns import int_column, name_column
from kdissect.tables.exchanges import (
    STATUSES,
    places,
    times,
)
from kdissect.tables.message_columns import Bools
from kdissect.tables.schemas import EXCHANGES, PARTITIONS

SINGLE: dict[int, int] = {OldType.MULTI_FETCH: OldType.FETCH, OldType.MULTI_PRODUCE: OldType.PRODUCE}


class _Talk(NamedTuple):
    """One exchange, decoded."""

    kind: int
    request: DecodedMessage | None
    response: DecodedMessage | None
    lost: bool  # the capture does not have all bytes of it
    details: list[tuple[Tree, Tree]]  # part of the request, what the response says of it

    @property
    def errors(self) -> list[int]:
        """All error codes of the response, its own first."""
        if self.response is None or "error_code" not in self.response.header:
            return []
        answers = (self.response.body or {}).get(ANSWERS, [])
        return [self.response.header["error_code"], *(answer["error_code"] for answer in answers)]


def is_kafka07(harvest: ExchangeBatch) -> Bools:
    """Say which exchanges are of Kafka 0.7."""
    old: Bools = harvest.exchanges["api_version"] == BEFORE_VERSIONS
    return old


def kafka07_rows(
    harvest: ExchangeBatch, identities: Int64s, splits: Sequence[Split]
) -> tuple[pa.RecordBatch, pa.RecordBatch, Bools]:
    """Give the rows of `exchanges` and of `partitions` for a harvest that is all Kafka 0.7, and which exchanges have a fault."""
    exchanges = rows_of(ExchangeRow, np.ascontiguousarray(harvest.exchanges))
    talks = [_talk(row, harvest) for row in exchanges]
    partitions: list[dict[str, Any]] = []
    faults = []
    for talk, row, identity in zip(talks, exchanges, identities.tolist(), strict=True):
        key = SINGLE.get(talk.kind, talk.kind)
        about = {"connection": identity, "ordinal": row.ordinal, "api_key": int(key)}
        found, wrong = _partitions(talk)
        partitions += [about | each for each in found]
        faults.append(_fault(talk, wrong))
    batch = _exchanges(harvest, identities, splits, talks, faults)
    return batch, _batch(partitions), np.array([fault is not None for fault in faults], bool)


def _talk(row: ExchangeRow, harvest: ExchangeBatch) -> _Talk:
    kind = row.api_key
    request = response = None
    lost = False
    if row.status != ORPHAN_RESPONSE:
        request = decode_old_request(_frame(row.request, harvest))
        lost |= row.request.stop < row.request.frame_stop
    if row.response.start > 0:
        response = decode_old_response(_frame(row.response, harvest), kind)
        lost |= row.response.stop < row.response.frame_stop
    return _Talk(kind, request, response, lost, _details(request, response))


def _frame(frame: FrameRow, harvest: ExchangeBatch) -> bytes:
    return harvest.arena[frame.start : frame.stop].tobytes()


def _details(request: DecodedMessage | None, response: DecodedMessage | None) -> list[tuple[Tree, Tree]]:
    if request is None:
        return []
    asked = [part for part in parts_of(request.body) if "partition" in part]
    answers: list[Tree] = []
    if response is not None and response.body is not None:
        answers = response.body.get(ANSWERS, [response.header | response.body])
    return [(ours, theirs or {}) for ours, theirs in zip_longest(asked, answers) if ours]


def _partitions(talk: _Talk) -> tuple[list[dict[str, Any]], str | None]:
    """Give the partition rows of an exchange, and what is wrong with the first bad message set."""
    rows = []
    fault = None
    for ours, theirs in talk.details:
        row: dict[str, Any] = {"topic": _text(ours["topic"]), "partition": ours["partition"]}
        if "error_code" in theirs:
            row |= {"error_code": theirs["error_code"], "error_name": old_error_name(theirs["error_code"])}
        if "offset" in ours or theirs.get("offsets"):
            row["offset"] = ours["offset"] if "offset" in ours else theirs["offsets"][0]
        messages = ours.get("messages", theirs.get("messages"))
        if messages is not None:
            held = summarise_old(messages)
            row |= {"records": held.records, "batches": held.batches, "record_bytes": len(messages)}
            row["codec"] = CODEC_NAMES.get(held.codec)
            if held.fault and fault is None:
                half = "request" if "messages" in ours else "response"
                fault = (
                    f"{half}: {held.fault.reason} at byte {held.fault.position} of the messages"
                    f" of partition {ours['partition']}"
                )
        rows.append(row)
    return rows, fault


def _text(topic: str) -> str:
    return topic.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _fault(talk: _Talk, records: str | None) -> str | None:
    halves = (("request", talk.request), ("response", talk.response))
    texts = [f"{half}: {whole.fault}" for half, whole in halves if whole is not None and whole.fault]
    texts += [records] if records else []
    return "; ".join(texts) if texts and not talk.lost else None


def _exchanges(
    harvest: ExchangeBatch,
    identities: Int64s,
    splits: Sequence[Split],
    talks: list[_Talk],
    faults: list[str | None],
) -> pa.RecordBatch:
    exchanges = harvest.exchanges
    asked = exchanges["status"] != ORPHAN_RESPONSE
    answered = exchanges["response"]["start"] > 0
    errors = [talk.errors for talk in talks]
    codes = [next((code for code in each if code), 0) if each else None for each in errors]
    columns: dict[str, pa.Array] = {
        "connection": pa.array(identities),
        "ordinal": int_column(exchanges["ordinal"], asked, pa.int64()),
        "status": name_column(STATUSES, exchanges["status"]),
        "api_key": int_column(exchanges["api_key"], asked, pa.int16()),
        "api_name": pa.array([old_name(talk.kind) if talk.request else None for talk in talks], pa.string()),
        "idle_wait": pa.array([False] * len(talks), pa.bool_()),
        "in_flight": int_column(exchanges["in_flight"], asked, pa.int32()),
        "error_code": pa.array(codes, pa.int16()),
        "error_name": pa.array(
            [None if code is None else old_error_name(code) for code in codes], pa.string()
        ),
        "error_count": pa.array([sum(map(bool, each)) if each else None for each in errors], pa.int32()),
        "fault": pa.array(faults, pa.string()),
    }
    columns |= times(exchanges, asked, answered)
    columns |= places(exchanges, asked, answered, splits)
    return pa.record_batch(
        [
            columns[field.name] if field.name in columns else pa.nulls(len(talks), field.type)
            for field in EXCHANGES
        ],
        schema=EXCHANGES,
    )


def _batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=PARTITIONS)
