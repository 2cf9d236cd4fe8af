"""Rows of the tables for Kafka 0.7, in plain Python, since such traffic is rare and small.

An exchange has its name and its type (as `api_key`), and no version, correlation id or client id. A
MultiFetch is several fetches and a MultiProduce several produces: their rows in `partitions` have the
`api_key` of the single request, so that reads and writes of a topic add up under two keys whatever the
clients sent.
"""

from dataclasses import replace
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.array_types import Bools, Int64s
from kdissect.jit.rows import rows_of
from kdissect.protocol.codec.messages import DecodedMessage
from kdissect.protocol.kafka07.message_codec import (
    ANSWERS,
    RequestType,
    Tree,
    decode_kafka07_request,
    decode_kafka07_response,
    kafka07_error_name,
    parts_of,
    request_name,
)
from kdissect.protocol.kafka07.message_sets import summarise_message_set
from kdissect.protocol.records.batches import CODEC_NAMES
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import BEFORE_VERSIONS, ORPHAN_RESPONSE, ExchangeRow, FrameRow
from kdissect.tables.array_batch import ArrayColumn
from kdissect.tables.coded_columns import table_batch
from kdissect.tables.coded_text import NumberColumn
from kdissect.tables.header_columns import CaptureFiles, header_columns
from kdissect.tables.schemas import EXCHANGES, PARTITIONS

SINGLE: dict[int, int] = {
    RequestType.MULTI_FETCH: RequestType.FETCH,
    RequestType.MULTI_PRODUCE: RequestType.PRODUCE,
}


WITHOUT = ("api_version", "correlation_id")
"""Columns of headers that Kafka 0.7 does not have."""


class _Exchange07(NamedTuple):
    """One exchange of Kafka 0.7, decoded."""

    kind: int
    request: DecodedMessage | None
    response: DecodedMessage | None
    lost: bool  # whether the capture lacks bytes of it
    details: list[tuple[Tree, Tree]]  # each part of the request, with its part of the response

    @property
    def errors(self) -> list[int]:
        """All error codes of the response, its own first."""
        if self.response is None or "error_code" not in self.response.header:
            return []
        answers = (self.response.body or {}).get(ANSWERS, [])
        return [self.response.header["error_code"], *(answer["error_code"] for answer in answers)]


def is_kafka07(batch: ExchangeBatch) -> Bools:
    """Return which exchanges are of Kafka 0.7."""
    old: Bools = batch.exchanges["api_version"] == BEFORE_VERSIONS
    return old


def kafka07_rows(
    batch: ExchangeBatch, identities: Int64s, files: CaptureFiles
) -> tuple[pa.RecordBatch, pa.RecordBatch, Bools]:
    """Return the rows of `exchanges` and of `partitions`, and which exchanges have a fault.

    All exchanges of the batch must be of Kafka 0.7.
    """
    exchanges = rows_of(ExchangeRow, np.ascontiguousarray(batch.exchanges))
    exchanges07 = [_decode(row, batch) for row in exchanges]
    partitions: list[dict[str, Any]] = []
    faults = []
    for exchange, row, identity in zip(exchanges07, exchanges, identities.tolist(), strict=True):
        key = SINGLE.get(exchange.kind, exchange.kind)
        shared = {"connection": identity, "ordinal": row.ordinal, "api_key": int(key)}
        rows_of_exchange, fault = _partitions(exchange)
        partitions += [shared | row_of_partition for row_of_partition in rows_of_exchange]
        faults.append(_fault(exchange, fault))
    rows = _exchanges(batch, identities, files, exchanges07, faults)
    return (
        rows,
        pa.RecordBatch.from_pylist(partitions, schema=PARTITIONS),
        np.array([fault is not None for fault in faults], bool),
    )


def _decode(row: ExchangeRow, batch: ExchangeBatch) -> _Exchange07:
    request_type = row.api_key
    request = response = None
    lost = False
    if row.status != ORPHAN_RESPONSE:
        request = decode_kafka07_request(_frame(row.request, batch))
        lost |= row.request.stop < row.request.frame_stop
    if row.response.start > 0:
        response = decode_kafka07_response(_frame(row.response, batch), request_type)
        lost |= row.response.stop < row.response.frame_stop
    return _Exchange07(request_type, request, response, lost, _details(request, response))


def _frame(frame: FrameRow, batch: ExchangeBatch) -> bytes:
    return batch.arena[frame.start : frame.stop].tobytes()


def _details(request: DecodedMessage | None, response: DecodedMessage | None) -> list[tuple[Tree, Tree]]:
    if request is None:
        return []
    parts = [part for part in parts_of(request.body) if "partition" in part]
    answers: list[Tree] = []
    if response is not None and response.body is not None:
        answers = response.body.get(ANSWERS, [response.header | response.body])
    return [(part, answer or {}) for part, answer in zip_longest(parts, answers) if part]


def _partitions(exchange: _Exchange07) -> tuple[list[dict[str, Any]], str | None]:
    """Return the partition rows of an exchange, and the fault of the first message set that has one."""
    rows = []
    fault = None
    for part, answer in exchange.details:
        row: dict[str, Any] = {"topic": _text(part["topic"]), "partition": part["partition"]}
        if "error_code" in answer:
            row |= {
                "error_code": answer["error_code"],
                "error_name": kafka07_error_name(answer["error_code"]),
            }
        if "offset" in part or answer.get("offsets"):
            row["offset"] = part["offset"] if "offset" in part else answer["offsets"][0]
        messages = part.get("messages", answer.get("messages"))
        if messages is not None:
            held = summarise_message_set(messages)
            row |= {"records": held.records, "batches": held.batches, "record_bytes": len(messages)}
            row["codec"] = CODEC_NAMES.get(held.codec)
            if held.fault and fault is None:
                half = "request" if "messages" in part else "response"
                fault = (
                    f"{half}: {held.fault.reason} at byte {held.fault.position} of the messages"
                    f" of partition {part['partition']}"
                )
        rows.append(row)
    return rows, fault


def _text(topic: str) -> str:
    return topic.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _fault(exchange: _Exchange07, records: str | None) -> str | None:
    halves = (("request", exchange.request), ("response", exchange.response))
    texts = [f"{half}: {message.fault}" for half, message in halves if message is not None and message.fault]
    texts += [records] if records else []
    return "; ".join(texts) if texts and not exchange.lost else None


def _exchanges(
    batch: ExchangeBatch,
    identities: Int64s,
    files: CaptureFiles,
    exchanges07: list[_Exchange07],
    faults: list[str | None],
) -> pa.RecordBatch:
    errors = [exchange.errors for exchange in exchanges07]
    codes = [next((code for code in each if code), 0) if each else None for each in errors]
    headers = header_columns(batch.exchanges, files)
    columns: dict[str, pa.Array | ArrayColumn] = {
        name: column for name, column in headers.items() if name not in WITHOUT
    }
    columns |= {
        "connection": pa.array(identities),
        "api_name": pa.array(
            [request_name(exchange.kind) if exchange.request else None for exchange in exchanges07],
            pa.string(),
        ),
        "idle_wait": pa.array([False] * len(exchanges07), pa.bool_()),
        "error_code": pa.array(codes, pa.int16()),
        "error_name": pa.array(
            [None if code is None else kafka07_error_name(code) for code in codes], pa.string()
        ),
        "error_count": pa.array([sum(map(bool, each)) if each else None for each in errors], pa.int32()),
        "fault": pa.array(faults, pa.string()),
    }
    latency = columns["latency_ns"]
    assert isinstance(latency, NumberColumn)
    columns["wait_ns"] = replace(latency, values=np.zeros_like(latency.values))
    nulls = {field.name: pa.nulls(len(exchanges07), field.type) for field in EXCHANGES}
    return table_batch(nulls | columns, EXCHANGES)
