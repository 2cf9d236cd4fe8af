"""The tables that signals are made of: what happened in which short step of time, with exact times beside it.

They are counted on a finer grid than the page (see `grid.SIGNAL_STEPS`). A step says where to look, and the
lowest and highest times of a row date what it counts to the packet. Each table is bounded like those of the
timeline.
"""

from dataclasses import replace

from kdissect.report.aggregate.partial_tables import PartialTable
from kdissect.report.timeline.timeline_tables import ENDS, ORDER, POSITIONS, WHERE, WHO
from kdissect.tables.column import INT16, INT32, INT64, TEXT

PACE_CELL_BITS = 5
"""A cell of latencies is 2^5 buckets of `histogram`: four to an octave, within 10 % of its middle."""

NO_PACE_CELL = -1
"""The cell of exchanges without a latency, and of waits by design."""

SIGNAL_GRID = PartialTable(
    "signal_grid", keys=(("start_ns", INT64), ("step_ns", INT64), ("steps", INT64)), sums=("exchanges",)
)
"""The grid of the other tables here: one row."""

PACE = PartialTable(
    "pace",
    keys=(("step", INT32), ("api_key", INT16), *ENDS, *WHO, ("cell", INT16)),
    sums=(
        "exchanges",
        "held_ns",  # latency of all, waits by design included
        "transfer_ns",
        "request_bytes",
        "error_responses",
    ),
    lowest=("first_ns",),
    highest=("last_ns",),
    most=200_000,
    spare=(("client_id", "client_host"), ("cell",)),
)
"""Exchanges by when they began, server, API, client and cell of latency."""

REPLIES = PartialTable(
    "replies",
    keys=(("step", INT32), *ENDS),
    sums=("responses",),
    lowest=("first_ns",),
    highest=("last_ns",),
    most=200_000,
    spare=(("server_host", "server_port"),),
)
"""Responses by when they began: where two rows of a server lie apart, it was silent."""

WAITS = PartialTable(
    "waits",
    keys=(
        ("connection", INT64),
        *WHO,
        *ENDS,
        ("api_key", INT16),
        ("begin_step", INT32),  # null if the row has given up its steps
        ("end_step", INT32),  # null for requests without a response, too
    ),
    sums=("wait_ns", "exchanges"),
    lowest=("first_begin_ns",),
    highest=("last_begin_ns", "last_end_ns"),
    most=100_000,
    spare=(("connection",), ("client_id", "client_host"), ("begin_step", "end_step")),
    longest=("begin_step", "end_step"),
)
"""Requests that waited for long, though not by design, and requests without a response.

Steps are the last that a row gives up: without them nobody knows which of its requests waited when.
"""

LOAD = PartialTable(
    "load",
    keys=(
        ("step", INT32),
        ("api_key", INT16),
        *WHO,
        ("topic", TEXT),
        ("topic_id", TEXT),
        ("partition", INT32),
    ),
    sums=("exchanges", "batches", "records", "record_bytes", "timed", "octaves_1000"),
    lowest=("first_ns",),
    highest=("last_ns",),
    most=100_000,
    spare=(("partition",), ("topic", "topic_id", "partition"), ("client_id", "client_host")),
)
"""Records written and fetched by when, client and partition; rows without records count their requests.

`timed` counts requests with a latency that is no wait by design, `octaves_1000` adds up log2 of it, in
thousandths, so that sums do not depend on their order.
"""

READS = PartialTable(
    "reads",
    keys=(*WHO, ("topic", TEXT), ("topic_id", TEXT), ("partition", INT32), ("offset", INT64)),
    sums=("exchanges",),
    lowest=("first_ns",),
    highest=("last_ns",),
    most=50_000,
    spare=(("offset", "partition"),),
)
"""Fetches that returned records, by the offset they asked for: one that is asked again and again is stuck."""

REPLICA_STATES = PartialTable(
    "replica_states",
    keys=(
        ("topic", TEXT),
        ("topic_id", TEXT),
        ("partition", INT32),
        ("leader_epoch", INT32),
        ("leader_id", INT32),
        ("replicas", TEXT),
        ("isr", TEXT),
    ),
    sums=("messages",),
    lowest=("first_ns",),
    highest=("last_ns",),
    order=ORDER,
    first=(("order_ns", INT64), *WHERE, ("connection", INT64)),
    most=100_000,
    spare=(("replicas", "isr"), ("topic", "topic_id", "partition", "leader_epoch", "leader_id")),
)
"""Leaders and in-sync replicas of partitions, and when messages told them."""

SHARES = PartialTable(
    "share_seconds",
    keys=(
        ("second", INT64),  # since the epoch
        *WHO,
        ("group_id", TEXT),
        ("topic_id", TEXT),
        ("partition", INT32),
        ("kind", TEXT),
    ),
    sums=("messages", "records"),
    lowest=("first_ns",),
    highest=("last_ns", "deliveries"),
    order=ORDER,
    first=(("order_ns", INT64), *WHERE, ("connection", INT64)),
    most=50_000,
    spare=(("partition",), ("client_id", "client_host")),
)
"""Records that members of share groups get, accept, give back and refuse."""

SHUTDOWNS = PartialTable(
    "shutdowns",
    keys=(("node_id", INT32), ("second", INT64)),  # since the epoch
    sums=("messages",),
    lowest=("first_ns",),
    highest=("last_ns",),
    most=10_000,
    spare=(("second",), ("node_id",)),
)
"""Requests of brokers to let them end, by the second."""

VOTERS = PartialTable(
    "voters",
    keys=(("node_id", INT32), ("connection", INT64)),
    sums=("messages",),
    most=10_000,
    spare=(("connection",), ("node_id",)),
)
"""Node ids of the controllers that were called on a connection."""

COMMITTED = replace(
    POSITIONS, name="committed_positions", order=POSITIONS.order[:3], first=POSITIONS.first[:3]
)
"""Positions of groups and ends of logs by step of this grid."""

SIGNAL_TABLES = {
    part.name: part
    for part in (
        SIGNAL_GRID,
        PACE,
        REPLIES,
        WAITS,
        LOAD,
        READS,
        REPLICA_STATES,
        SHARES,
        SHUTDOWNS,
        VOTERS,
        COMMITTED,
    )
}
