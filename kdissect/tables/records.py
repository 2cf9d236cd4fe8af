"""Rows of `records`: every record that was written or fetched, with key, value and headers.

In come exchanges with their rows, out go rows of the table, which is made on request only. The plain codec
decodes the messages. Keys and values are JSON if they are JSON or have a schema, text if they are text, and
base64 otherwise; a column has the format. A value that does not decode is base64 with a fault.

Memory is bounded: `record_parts` cuts exchanges into parts of PART_BYTES on the wire, a field gives at most
MOST_RECORDS rows, and a key or value of more than SHOWN_BYTES is left out, with a fault. Records of a
cluster's metadata, which may be secret, are left out.
"""

import json
from base64 import b64encode
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.jit.rows import rows_of
from kdissect.payload.payload_decoder import Payload, PayloadDecoder
from kdissect.payload.plain_reader import read_text
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import decode_request, decode_response
from kdissect.protocol.metadata_records import TOPIC as METADATA_TOPIC
from kdissect.protocol.metadata_records import TOPIC_ID as METADATA_TOPIC_ID
from kdissect.protocol.records.record_decoder import CONTROL_NAMES, Record, RecordFault, read_records
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import ANSWERED, ORPHAN_RESPONSE, ExchangeRow
from kdissect.tables.array_batch import ArrayBatch
from kdissect.tables.schemas import RECORDS
from kdissect.text import format_uuid

Row = dict[str, Any]

PART_BYTES = 1 << 20  # of messages with records that are rows at a time
BATCH_ROWS = 1 << 12
MOST_RECORDS = 1 << 18  # of one field
SHOWN_BYTES = 1 << 16  # of a key, a value or all headers
NS_PER_MS = 10**6
LATEST_MS = 2**63 // NS_PER_MS - 1
WRITING, READING = (ApiKey.PRODUCE,), (ApiKey.FETCH, ApiKey.SHARE_FETCH)


class RecordsField(NamedTuple):
    """A field with records: its topic, if the message names it, or its id, its partition and its bytes."""

    topic: str | None
    topic_id: str | None
    partition: int
    data: bytes


def record_parts(batch: ExchangeBatch) -> Iterator[ExchangeBatch]:
    """Yield the exchanges of a batch in parts that become few enough rows at a time."""
    exchanges = batch.exchanges
    sizes = sum(exchanges[side]["stop"] - exchanges[side]["start"] for side in ("request", "response"))
    ends = np.cumsum(sizes)
    start = 0
    while start < len(exchanges):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + PART_BYTES, "right")))
        yield batch._replace(exchanges=exchanges[start:stop])
        start = stop


def record_rows(
    batch: ExchangeBatch, exchanges: pa.RecordBatch | ArrayBatch, decoder: PayloadDecoder
) -> pa.RecordBatch:
    """Return the rows of exchanges; `exchanges` are their rows of that table."""
    rows = _rows(batch, exchanges, decoder)
    parts = [pa.RecordBatch.from_pylist(list(islice(rows, BATCH_ROWS)), RECORDS)]
    while parts[-1].num_rows == BATCH_ROWS:
        parts.append(pa.RecordBatch.from_pylist(list(islice(rows, BATCH_ROWS)), RECORDS))
    return pa.concat_batches(parts)


def _rows(
    batch: ExchangeBatch, exchanges: pa.RecordBatch | ArrayBatch, decoder: PayloadDecoder
) -> Iterator[Row]:
    key, status = batch.exchanges["api_key"], batch.exchanges["status"]
    written = np.isin(key, WRITING) & (status != ORPHAN_RESPONSE)
    wanted = np.flatnonzero(written | (np.isin(key, READING) & (status == ANSWERED)))
    names = ("connection", "ordinal", "api_key", "capture_file", "request_packet", "response_packet")
    shared = exchanges.select(names).take(pa.array(wanted)).to_pylist()
    for row, place in zip(rows_of(ExchangeRow, batch.exchanges[wanted]), shared, strict=True):
        request, response = place.pop("request_packet"), place.pop("response_packet")
        place["packet"] = request if row.api_key in WRITING else response
        for found in _fields(row, batch):
            for record in islice(read_records(found.data), MOST_RECORDS):
                yield place | _row(record, found, decoder)


def _fields(row: ExchangeRow, batch: ExchangeBatch) -> Iterator[RecordsField]:
    if row.api_key in WRITING:
        body = decode_request(batch.arena[row.request.start : row.request.stop].tobytes()).body
        path = ("topic_data", "partition_data", "index")
    else:
        data = batch.arena[row.response.start : row.response.stop].tobytes()
        body = decode_response(data, row.api_key, row.api_version).body
        path = ("responses", "partitions", "partition_index")
    topics, partitions, number = path
    for topic in (body or {}).get(topics) or ():
        raw = topic.get("topic_id")
        name = topic.get("name") or topic.get("topic")
        if name == METADATA_TOPIC or raw == METADATA_TOPIC_ID:
            continue
        for partition in topic.get(partitions) or ():
            if partition.get("records"):
                text = None if raw is None else format_uuid(raw)
                yield RecordsField(_clean(name), text, partition.get(number, -1), partition["records"])


def _row(record: Record | RecordFault, found: RecordsField, decoder: PayloadDecoder) -> Row:
    topic = found.topic or decoder.topic_names.get(found.topic_id or "")
    row: Row = {"topic": topic, "topic_id": found.topic_id, "partition": found.partition}
    if isinstance(record, RecordFault):
        return row | {"fault": record.reason}
    row |= {
        "offset": record.offset,
        "time_ns": _time_ns(record.timestamp_ms),
        "producer_id": record.batch.producer_id,
        "producer_epoch": record.batch.producer_epoch,
        "control": None if record.control is None else CONTROL_NAMES.get(record.control, "unknown"),
    }
    if record.control is not None:
        return row
    faults = []
    for part, data in (("key", record.key), ("value", record.value)):
        row[f"{part}_bytes"] = None if data is None else len(data)
        if data is not None and len(data) > SHOWN_BYTES:
            faults.append(f"{part}: {len(data):,} bytes; more than {SHOWN_BYTES:,} are left out")
            continue
        payload = decoder.decode(data, topic, part, record.headers)
        if payload is not None and data is not None:
            row |= {part: _text(payload, data), f"{part}_format": payload.format}
            row[f"{part}_schema"] = payload.schema_id if isinstance(payload.schema_id, int) else None
            faults += [f"{part}: {payload.fault}"] if payload.fault else []
    headers = _headers(record)
    if headers is not None and len(headers) > SHOWN_BYTES:
        faults.append(f"headers: more than {SHOWN_BYTES:,} bytes are left out")
        headers = None
    return row | {"headers": headers, "fault": "; ".join(faults) or None}


def _text(payload: Payload, data: bytes) -> str:
    if payload.fault is not None or payload.format == "bytes":
        return b64encode(data).decode()
    if payload.format == "text":
        return str(payload.value)
    return json.dumps(payload.value, ensure_ascii=False).encode("utf-8", "replace").decode()


def _headers(record: Record) -> str | None:
    """Return headers as a JSON object of texts, or base64 for others; of one name the last one counts."""
    if not record.headers:
        return None
    fields: dict[str, str | None] = {}
    for name, value in record.headers:
        text = None if value is None else read_text(value)
        fields[name.decode("utf-8", "replace")] = (
            b64encode(value).decode() if value and text is None else text
        )
    return json.dumps(fields, ensure_ascii=False)


def _clean(name: str | None) -> str | None:
    return None if name is None else name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _time_ns(time_ms: int | None) -> int | None:
    return time_ms * NS_PER_MS if time_ms is not None and 0 <= time_ms <= LATEST_MS else None
