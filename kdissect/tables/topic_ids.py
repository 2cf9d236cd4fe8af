"""The name of a topic id and the address of a node, from whatever messages have both side by side.

In come the columns of requests or responses, out go batches of the tables `names` and `brokers`.
"""

import numpy as np
import pyarrow as pa

from kdissect.array_types import Int64s
from kdissect.streams.engine import ExchangeBatch
from kdissect.tables.arrow_columns import (
    UUID_BYTES,
    int_column,
    is_ascii,
    text_column,
    uuid_column,
)
from kdissect.tables.coded_columns import distinct_spans
from kdissect.tables.column_values import run_starts
from kdissect.tables.message_columns import MessageColumns
from kdissect.tables.partition_keys import TOPIC, TOPIC_ID, TOPIC_LENGTH, partition_keys
from kdissect.tables.schemas import BROKERS, NAMES

DENSE, DENSE_ROWS = 1 << 12, 4  # numbers up to these bounds, one of them a row, find their place in an array

# The one topic whose id is the same in every cluster (KIP-595, KIP-516), and which no answer names.
KNOWN_NAMES = pa.record_batch([["AAAAAAAAAAAAAAAAAAAAAQ"], ["__cluster_metadata"]], schema=NAMES)
_NO_NAMES = KNOWN_NAMES.slice(0, 0)


def named_topics(batch: ExchangeBatch, columns: MessageColumns) -> pa.RecordBatch:
    """Return the topic ids that stand beside a name (NAMES), each pair once, in their order."""
    keys, _ = partition_keys(batch.arena, columns)
    both = np.flatnonzero((keys[:, TOPIC] >= 0) & (keys[:, TOPIC_ID] >= 0))
    if not len(both):
        return _NO_NAMES
    # A topic's partitions share its spans and follow each other, and most messages name the same topics: few
    # rows become text.
    both = both[run_starts(keys[both, TOPIC_ID])]
    of_id, _ = distinct_spans(batch.arena, keys[both, TOPIC_ID], np.full(len(both), UUID_BYTES))
    of_name, _ = distinct_spans(batch.arena, keys[both, TOPIC], keys[both, TOPIC_LENGTH])
    both = both[_first_of_equal(of_id.astype(np.int64), of_name.astype(np.int64))]
    ids = uuid_column(batch.arena, keys[both, TOPIC_ID])
    names = text_column(batch.arena, keys[both, TOPIC], keys[both, TOPIC_LENGTH])
    pairs = pa.record_batch([ids, names], schema=NAMES)
    return pairs if is_ascii(names) else _distinct(pairs)


def listening_nodes(batch: ExchangeBatch, columns: MessageColumns) -> pa.RecordBatch:
    """Return the nodes whose address a message tells (BROKERS), each once."""
    nodes = columns.columns.nodes
    node_id, port, host = nodes.integers("node_id"), nodes.integers("port"), nodes.spans("host")
    # An answer with an error names no node: -1, no host.
    present = node_id.present & port.present & (node_id.values >= 0) & (port.values > 0)
    rows = np.flatnonzero(present)
    of_host, _ = distinct_spans(batch.arena, host.start[rows], np.maximum(host.length[rows], 0))
    rows = rows[_first_of_equal(of_host.astype(np.int64), node_id.values[rows], port.values[rows])]
    known = np.ones(len(rows), bool)
    hosts = text_column(batch.arena, host.start[rows], host.length[rows])
    numbers, ports = (int_column(column.values[rows], known, pa.int32()) for column in (node_id, port))
    found = pa.record_batch([numbers, hosts, ports], schema=BROKERS)
    return found if is_ascii(hosts) else _distinct(found)


def _first_of_equal(*columns: Int64s) -> Int64s:
    """Return the first row of all that are equal in every column, ascending."""
    rows = len(columns[0])
    if not rows:
        return columns[0]
    number, bound = np.zeros(rows, np.int64), 1
    for column in columns:
        values, most = _numbered(column)
        number, bound = number * most + values, bound * most
    if bound > DENSE_ROWS * rows + DENSE:
        number, bound = _numbered(number)
    first = np.full(bound, rows)
    first[number[::-1]] = np.arange(rows)[::-1]  # the first row of a number is the last to be written
    return np.sort(first[first < rows])


def _numbered(column: Int64s) -> tuple[Int64s, int]:
    """Return a small number for each value, the same for equal values, and a bound of the numbers.

    Values that are small numbers already stay as they are.
    """
    most = int(column.max()) + 1
    if int(column.min()) >= 0 and most <= DENSE:
        return column, most
    values = pa.array(column).dictionary_encode()
    return values.indices.to_numpy().astype(np.int64), len(values.dictionary)


def _distinct(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return each row once, at its first place: texts of different bytes that are not UTF-8 may be equal.

    Rows are compared by codes: a query plan of Arrow costs milliseconds, which is too much for each batch.
    """
    if rows.num_rows < 2:
        return rows
    number = np.zeros(rows.num_rows, np.int64)
    for column in rows.columns:
        codes = column.dictionary_encode(null_encoding="encode").indices.to_numpy()
        number = np.unique(number * (len(column) + 1) + codes, return_inverse=True)[1]
    return rows.take(pa.array(np.sort(np.unique(number, return_index=True)[1])))
