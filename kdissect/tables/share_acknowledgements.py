"""Rows of `share_acknowledgements`: what members of share groups (KIP-932) do with the records that they get.

In come exchanges, out goes a row for each message, partition and kind: how many records a member accepts,
gives back (release) or refuses for good (reject) in a ShareFetch or ShareAcknowledge request, and how many a
ShareFetch response hands out, with the highest count of deliveries among them. A batch of acknowledgements
has one type for all of its offsets, or one for each. Messages are decoded one by one: they are few, and the
columnar reader keeps one value of a partition.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.api_mask import in_apis
from kdissect.protocol.codec.messages import decode_request, decode_response
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import ANSWERED, ORPHAN_RESPONSE, REQUEST_SIDE, RESPONSE_SIDE
from kdissect.tables.array_batch import ArrayBatch, table_row
from kdissect.tables.schemas import SHARE_ACKNOWLEDGEMENTS
from kdissect.text import format_uuid

Body = Mapping[str, Any]
Row = dict[str, Any]

ACCEPT, RELEASE, REJECT, HANDED_OUT = "accept", "release", "reject", "handed_out"
TYPES = {1: ACCEPT, 2: RELEASE, 3: REJECT}
"""Kinds of acknowledgement by their number; a gap (0) is no record, and a renewal (4) decides nothing."""

LOCATION = [
    "connection",
    "ordinal",
    "client_id",
    "group_id",
    "request_packet",
    "response_packet",
    "capture_file",
]


class PartitionCounts(NamedTuple):
    """Records of a partition in one message, by kind, and the most deliveries of one that it hands out."""

    topic_id: bytes
    partition: int
    records: Counter[str]
    deliveries: int = 0


_NO_ROWS = pa.RecordBatch.from_pylist([], schema=SHARE_ACKNOWLEDGEMENTS)


def share_acknowledgement_rows(
    batch: ExchangeBatch, exchanges: pa.RecordBatch | ArrayBatch
) -> pa.RecordBatch:
    """Return the rows of SHARE_ACKNOWLEDGEMENTS of a batch; `exchanges` are its rows, in its order."""
    keys, status = batch.exchanges["api_key"], batch.exchanges["status"]
    wanted = in_apis(keys, (ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE)) & (status != ORPHAN_RESPONSE)
    if not wanted.any():
        return _NO_ROWS
    found: list[Row] = []
    for row in np.flatnonzero(wanted).tolist():
        key, version = (int(batch.exchanges[name][row]) for name in ("api_key", "api_version"))
        about: Row | None = None
        times = ("request_first_ns", "response_first_ns")
        sides = (REQUEST_SIDE, RESPONSE_SIDE) if key == ApiKey.SHARE_FETCH else (REQUEST_SIDE,)
        for side, time in zip(sides, times, strict=False):
            time_ns = table_row(exchanges, [time], row)[time]
            if time_ns is None or (side == RESPONSE_SIDE and status[row] != ANSWERED):
                continue
            frame = _frame(batch, row, side)
            counts = _handed_out(frame, key, version) if side == RESPONSE_SIDE else _acknowledged(frame)
            for one in counts:
                about = about or table_row(exchanges, LOCATION, row)
                found += [about | {"time_ns": time_ns} | rest for rest in _rows(one)]
    return pa.RecordBatch.from_pylist(found, schema=SHARE_ACKNOWLEDGEMENTS)


def _frame(batch: ExchangeBatch, row: int, side: str) -> bytes:
    start, stop = (int(batch.exchanges[side][name][row]) for name in ("start", "stop"))
    return batch.arena[start:stop].tobytes()


def _rows(counts: PartitionCounts) -> Iterator[Row]:
    for kind, records in counts.records.items():
        yield {
            "topic_id": format_uuid(counts.topic_id),
            "partition": counts.partition,
            "kind": kind,
            "records": records,
            "deliveries": counts.deliveries,
        }


def _acknowledged(frame: bytes) -> Iterator[PartitionCounts]:
    """Yield what a request says of records; a damaged one has what stands in front of the damage."""
    body: Body = decode_request(frame).body or {}
    for topic in body.get("topics") or ():
        for partition in topic.get("partitions") or ():
            records: Counter[str] = Counter()
            for acknowledged in partition.get("acknowledgement_batches") or ():
                types = acknowledged.get("acknowledge_types") or ()
                offsets = _offsets(acknowledged)
                for number in types:
                    if kind := TYPES.get(number):
                        records[kind] += offsets if len(types) == 1 else 1
            if records and "partition_index" in partition:
                yield PartitionCounts(topic["topic_id"], partition["partition_index"], records)


def _handed_out(frame: bytes, key: int, version: int) -> Iterator[PartitionCounts]:
    """Yield what a response hands out."""
    body: Body = decode_response(frame, key, version).body or {}
    for topic in body.get("responses") or ():
        for partition in topic.get("partitions") or ():
            acquired = partition.get("acquired_records") or ()
            count = sum(map(_offsets, acquired))
            if count:
                most = max(one.get("delivery_count", 0) for one in acquired)
                records = Counter({HANDED_OUT: count})
                yield PartitionCounts(topic["topic_id"], partition["partition_index"], records, most)


def _offsets(span: Body) -> int:
    """Return how many offsets a span has; one that ends before it begins has none."""
    if "first_offset" not in span or "last_offset" not in span:
        return 0
    return min(max(span["last_offset"] - span["first_offset"] + 1, 0), MOST_OFFSETS)


MOST_OFFSETS = 1 << 31
"""A span of more offsets is damaged: sums of such must fit 64 bits."""
