"""Tables of a partial report: small Arrow tables that define how two of their rows become one.

Each table has key columns. Every other column is added up, or keeps its lowest or highest value, or is taken
from the row that comes first in the order that the table defines. All four are associative and commutative
and work on integers, so a report is the same for any number of tasks, any batch size and any order of
arrival.

`partial_rows` makes their rows and adds them up.
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import pyarrow as pa

from kdissect.tables.column import BOOL, INT16, INT32, INT64, TEXT
from kdissect.tables.schemas import CONNECTIONS


@dataclass(frozen=True, slots=True, eq=False)
class PartialTable:
    """One table of a partial report: its columns by what happens to them when rows become one.

    A table is equal to itself only. Its hash is thus found at once, not from all of its columns.
    """

    name: str
    keys: tuple[tuple[str, pa.DataType], ...]
    sums: tuple[str, ...] = ()
    lowest: tuple[str, ...] = ()
    highest: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    """Columns that decide which row comes first: ascending, nulls last."""
    first: tuple[tuple[str, pa.DataType], ...] = ()
    """Columns taken from the row that comes first."""
    most: int = 0
    """The highest number of rows, 0 for any number; see `row_limits`."""
    spare: tuple[tuple[str, ...], ...] = ()
    """Groups of keys that become null, one after the other, for the lightest rows when there are too many."""
    earliest: str = ""
    """Instead of `spare`: the key by which the first rows stay; the others become one row without keys."""
    longest: tuple[str, str] = ("", "")
    """Two keys, the steps in which a span begins and ends (null: it has no end): the rows with the longest
    spans keep the first of `spare`."""
    run: tuple[str, str] = ("", "")
    """A key and a highest column that are begin and end of a range; ranges that touch become one."""

    @property
    def schema(self) -> pa.Schema:
        """Return the columns in the order keys, sums, lowest, highest, first."""
        return _schema(self)


@cache
def _schema(part: PartialTable) -> pa.Schema:
    measured = [(name, INT64) for name in (*part.sums, *part.lowest, *part.highest)]
    return pa.schema([*part.keys, *measured, *part.first])


class TableField(NamedTuple):
    """Name and type of a column of a partial table."""

    name: str
    kind: pa.DataType
    is_text: bool


@cache
def table_fields(part: PartialTable) -> tuple[TableField, ...]:
    """Return the columns of a table as Python has them: Arrow makes an object for each that is asked for."""
    return tuple(TableField(field.name, field.type, field.type == TEXT) for field in part.schema)


LOCATION = (
    ("order_ns", INT64),
    ("time_ns", INT64),
    ("capture_file", TEXT),
    ("request_packet", INT64),
    ("response_packet", INT64),
    ("connection", INT64),
    ("ordinal", INT64),
    ("client_id", TEXT),
    ("topic", TEXT),
    ("topic_id", TEXT),
    ("partition", INT32),
    ("detail", TEXT),
)
"""Location where something was seen; `order_ns` decides which occurrence is kept (the lowest)."""

CALLS = PartialTable(
    "calls",
    keys=(
        ("connection", INT64),
        ("client_id", TEXT),
        ("api_key", INT16),
        ("api_name", TEXT),
        ("api_version", INT16),
        ("group_id", TEXT),
        ("status", TEXT),
        ("idle_wait", BOOL),
    ),
    sums=(
        "exchanges",
        "error_responses",
        "errors",
        "faults",
        "request_bytes",
        "response_bytes",
        "throttled",
        "throttle_ms",
        "pipelined",
        "acks_none",
        "acks_leader",
        "acks_all",
        "timed",
        "untimed",
        "latency_ns",
        "transfer_ns",
    ),
    lowest=("first_ns", "latency_min_ns"),
    highest=("last_ns", "latency_max_ns", "transfer_max_ns", "throttle_max_ms", "in_flight_max"),
)

LATENCIES = PartialTable(
    "latencies",
    keys=(
        ("connection", INT64),
        ("client_id", TEXT),
        ("api_key", INT16),
        ("api_version", INT16),
        ("group_id", TEXT),
        ("idle_wait", BOOL),
        ("bucket", INT16),
    ),
    sums=("count",),
)

TOPIC_FLOWS = PartialTable(
    "topic_flows",
    keys=(
        ("topic", TEXT),
        ("topic_id", TEXT),
        ("api_key", INT16),
        ("connection", INT64),
        ("client_id", TEXT),
        ("group_id", TEXT),
        ("codec", TEXT),
    ),
    sums=(
        "mentions",
        "errors",
        "records",
        "batches",
        "record_bytes",
        "sampled_bytes",
        "sampled_lz4_bytes",
    ),
    lowest=("first_ns",),
    highest=("last_ns",),
)

TOPIC_PARTITIONS = PartialTable(
    "topic_partitions",
    keys=(("topic", TEXT), ("topic_id", TEXT), ("partition", INT32)),
    sums=("mentions",),
)

TOPIC_CALLS = PartialTable(
    "topic_calls",
    keys=(
        ("topic", TEXT),
        ("topic_id", TEXT),
        ("api_key", INT16),
        ("connection", INT64),
        ("client_id", TEXT),
        ("idle_wait", BOOL),
    ),
    sums=("exchanges", "unanswered", "throttled", "timed", "latency_ns"),
    lowest=("latency_min_ns",),
    highest=("latency_max_ns",),
)

TOPIC_LATENCIES = PartialTable(
    "topic_latencies",
    keys=(("topic", TEXT), ("topic_id", TEXT), ("api_key", INT16), ("idle_wait", BOOL), ("bucket", INT16)),
    sums=("count",),
)

FIRST_SEEN = PartialTable(
    "sightings",
    keys=(
        ("kind", TEXT),  # error | fault | unanswered | orphan | throttled | slowest
        ("api_key", INT16),
        ("api_name", TEXT),
        ("api_version", INT16),  # null for errors
        ("code", INT16),  # of errors
        ("name", TEXT),  # error name; shape of a fault
    ),
    sums=("exchanges", "partitions"),
    order=tuple(name for name, _ in LOCATION),
    first=LOCATION,
)

FINDING_INPUTS = PartialTable(
    "notable",
    keys=(
        ("kind", TEXT),
        ("connection", INT64),
        ("client_id", TEXT),
        ("api_key", INT16),
        ("api_version", INT16),
        ("code", INT16),
        ("group_id", TEXT),
        ("transactional_id", TEXT),
        ("topic", TEXT),
        ("topic_id", TEXT),
        ("partition", INT32),
        ("replica_id", INT32),
        ("generation", INT32),
        ("second", INT64),
    ),
    sums=("exchanges", "amount"),
    lowest=("first_ns",),
    highest=("last_ns", "most"),
    order=("order_ns", "capture_file", "request_packet", "response_packet"),
    first=(
        ("order_ns", INT64),
        ("capture_file", TEXT),
        ("request_packet", INT64),
        ("response_packet", INT64),
        ("request_first_ns", INT64),
        ("response_first_ns", INT64),
    ),
)
"""Inputs of findings (see `finding_inputs`); `amount` and `most`: sum and maximum of throttled ms.

For errors `amount` is the number of requests, each at its first partition.
"""

LAGS = PartialTable(
    "lags",
    keys=(
        ("edge", TEXT),  # first | last
        ("connection", INT64),
        ("client_id", TEXT),
        ("topic", TEXT),
        ("topic_id", TEXT),
        ("partition", INT32),
    ),
    sums=("exchanges",),
    highest=("most",),
    order=("order_ns", "lag", "capture_file", "request_packet", "response_packet"),
    first=(
        ("order_ns", INT64),
        ("lag", INT64),
        ("capture_file", TEXT),
        ("request_packet", INT64),
        ("response_packet", INT64),
    ),
)
"""The lag of a consumer in a partition at its first and its last fetch, and the largest lag (`most`).

`order_ns` is the time, and minus the time for the last.
"""

CONNECTION_FACTS = PartialTable(
    "connections",
    keys=(("connection", INT64),),
    order=("first_time_ns", "last_time_ns", "packets"),
    first=tuple((field.name, field.type) for field in CONNECTIONS if field.name != "connection"),
)

NAMES = PartialTable("names", keys=(("topic_id", TEXT), ("topic", TEXT)))

BROKERS = PartialTable("brokers", keys=(("node_id", INT32), ("host", TEXT), ("port", INT32)))

PARTIAL_TABLES = {
    table.name: table
    for table in (
        CALLS,
        LATENCIES,
        TOPIC_FLOWS,
        TOPIC_PARTITIONS,
        TOPIC_CALLS,
        TOPIC_LATENCIES,
        FIRST_SEEN,
        FINDING_INPUTS,
        LAGS,
        CONNECTION_FACTS,
        NAMES,
        BROKERS,
    )
}
