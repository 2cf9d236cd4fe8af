"""Rows of `replica_sets`: who leads each partition, which replicas it has, and which of them are in sync.

In come exchanges, out go the partitions of the responses that say so: Metadata, DescribeTopicPartitions and
AlterPartition, and the requests LeaderAndIsr of older controllers. Many clients get the same response, so
messages with the same bytes behind the correlation id are decoded once in a batch. Their rows carry the first
and the last time at which they came. Node ids of a set are text in ascending order, such as "1,2,3".
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.array_types import Bools, Int64s
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.api_mask import in_apis
from kdissect.protocol.codec.messages import decode_request, decode_response
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import ANSWERED, ORPHAN_RESPONSE, REQUEST_SIDE, RESPONSE_SIDE
from kdissect.tables.array_batch import ArrayBatch, numbers_at, table_row
from kdissect.tables.coded_columns import distinct_spans
from kdissect.tables.schemas import REPLICA_SETS
from kdissect.text import format_uuid

Body = Mapping[str, Any]
Row = dict[str, Any]

BATCH_ROWS = 1 << 13  # rows that are objects at a time
CORRELATION_BYTES = 4
NO_ID = bytes(16)
LOCATION = ["connection", "ordinal", "request_packet", "response_packet", "capture_file"]
"""Columns of the first exchange with a message that its rows have."""


class MessageFields(NamedTuple):
    """How the messages of an API name what a row has; "" for what they do not have."""

    side: str
    topics: str
    name: str
    partitions: str
    partition: str
    leader: str
    replicas: str
    isr: str


_DESCRIBED = MessageFields(
    RESPONSE_SIDE,
    "topics",
    "name",
    "partitions",
    "partition_index",
    "leader_id",
    "replica_nodes",
    "isr_nodes",
)
NAMES_OF: Mapping[int, MessageFields] = {
    ApiKey.METADATA: _DESCRIBED,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _DESCRIBED,
    ApiKey.ALTER_PARTITION: _DESCRIBED._replace(name="topic_name", replicas="", isr="isr"),
    ApiKey.LEADER_AND_ISR: MessageFields(
        REQUEST_SIDE,
        "topic_states",
        "topic_name",
        "partition_states",
        "partition_index",
        "leader",
        "replicas",
        "isr",
    ),
}
RESPONSES = frozenset(key for key, names in NAMES_OF.items() if names.side == RESPONSE_SIDE)


_NO_ROWS = pa.RecordBatch.from_pylist([], schema=REPLICA_SETS)


def replica_set_rows(batch: ExchangeBatch, exchanges: pa.RecordBatch | ArrayBatch) -> pa.RecordBatch:
    """Return the rows of REPLICA_SETS of a batch; `exchanges` are the rows of that table, in its order."""
    status, keys = batch.exchanges["status"], batch.exchanges["api_key"]
    rows = np.flatnonzero(in_apis(keys, NAMES_OF) & (status != ORPHAN_RESPONSE))
    rows = rows[(status[rows] == ANSWERED) | (keys[rows] == ApiKey.LEADER_AND_ISR)]
    if not len(rows):
        return _NO_ROWS
    time_ns, is_timed = _times(exchanges, rows)
    found: list[pa.RecordBatch] = []
    pending: list[Row] = []
    for same in _same_messages(batch, rows):
        timed = same[is_timed[same]]
        if not len(timed):
            continue
        shared = _shared(exchanges, rows[timed], time_ns[timed]) | {"messages": len(same)}
        for row in _partitions(batch, int(rows[same[0]])):
            pending.append(shared | row)
            if len(pending) == BATCH_ROWS:
                found.append(pa.RecordBatch.from_pylist(pending, schema=REPLICA_SETS))
                pending = []
    found.append(pa.RecordBatch.from_pylist(pending, schema=REPLICA_SETS))
    return pa.concat_batches(found)


def _same_messages(batch: ExchangeBatch, rows: Int64s) -> list[Int64s]:
    """Return the places in `rows` of messages that have the same bytes, in the order of the first of them.

    Bytes are compared by a compiled loop. Copies of them as keys of a dictionary took 200 ns an exchange.
    """
    exchanges = batch.exchanges
    keys = exchanges["api_key"][rows]
    of_response = in_apis(keys, RESPONSES)
    start, stop = (
        np.where(of_response, exchanges[RESPONSE_SIDE][name][rows], exchanges[REQUEST_SIDE][name][rows])
        for name in ("start", "stop")
    )
    start = start + np.where(of_response, CORRELATION_BYTES, 0)
    number = distinct_spans(batch.arena, start, np.maximum(stop - start, 0))[0].astype(np.int64)
    kinds = (number << 32) | (keys & 0xFFFF) << 16 | exchanges["api_version"][rows] & 0xFFFF
    _, first, of, counts = np.unique(kinds, return_index=True, return_inverse=True, return_counts=True)
    places = np.split(np.argsort(of, kind="stable"), np.cumsum(counts)[:-1])
    return [places[kind] for kind in np.argsort(first).tolist()]


def _frame(batch: ExchangeBatch, row: int, side: str) -> bytes:
    start, stop = (int(batch.exchanges[side][name][row]) for name in ("start", "stop"))
    return batch.arena[start:stop].tobytes()


def _times(exchanges: pa.RecordBatch | ArrayBatch, rows: Int64s) -> tuple[Int64s, Bools]:
    """Return when some messages came (ns since the epoch): with the response, or else with the request.

    The second array marks those of which that is known.
    """
    answered, asked = (numbers_at(exchanges, f"{side}_first_ns", rows) for side in ("response", "request"))
    return np.where(answered.values != 0, answered.values, asked.values), (
        answered.values != 0
    ) | asked.present


def _shared(exchanges: pa.RecordBatch | ArrayBatch, rows: Int64s, time_ns: Int64s) -> Row:
    """Return what all rows of the same messages have: times, and the packets of the first one."""
    row = int(rows[np.argmin(time_ns)])
    first = table_row(exchanges, LOCATION, row)
    return first | {"first_ns": int(time_ns.min()), "last_ns": int(time_ns.max())}


def _partitions(batch: ExchangeBatch, row: int) -> Iterator[Row]:
    """Yield the partitions of a message; a damaged one has those in front of the damage."""
    key, version = (int(batch.exchanges[name][row]) for name in ("api_key", "api_version"))
    names = NAMES_OF[key]
    decode: Callable[[bytes], Any] = (
        (lambda frame: decode_response(frame, key, version))
        if names.side == RESPONSE_SIDE
        else decode_request
    )
    body: Body = decode(_frame(batch, row, names.side)).body or {}
    for topic in body.get(names.topics) or ():
        topic_id = topic.get("topic_id")
        about = {
            "topic": _text(topic.get(names.name)),
            "topic_id": format_uuid(topic_id) if topic_id and topic_id != NO_ID else None,
        }
        for partition in topic.get(names.partitions) or ():
            yield about | _replicas(partition, names)
    for state in body.get("ungrouped_partition_states") or ():
        yield {"topic": _text(state.get(names.name)), "topic_id": None} | _replicas(state, names)


def _replicas(partition: Body, names: MessageFields) -> Row:
    return {
        "partition": partition.get(names.partition),
        "leader_id": partition.get(names.leader),
        "leader_epoch": _epoch(partition.get("leader_epoch")),
        "replicas": _nodes(partition.get(names.replicas)),
        "isr": _nodes(partition.get(names.isr)),
    }


def _epoch(epoch: int | None) -> int | None:
    return None if epoch is None or epoch < 0 else epoch


def _nodes(nodes: Sequence[int] | None) -> str | None:
    return None if nodes is None else ",".join(map(str, sorted(set(nodes))))


def _text(name: str | None) -> str | None:
    """Return a name that Arrow takes: one that is not UTF-8 comes from the codec with lone surrogates."""
    return None if name is None else name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
