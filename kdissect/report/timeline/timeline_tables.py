"""The tables of the timeline: like those in `report.aggregate.partial_tables`, with a step of time.

Each has a limit on its rows. If a capture has more, the columns in `spare` are given up for the lightest
rows: the sums still hold all of them, and a comparison with the tables without time shows which rows gave up
columns.
"""

from kdissect.report.aggregate.partial_tables import PartialTable
from kdissect.tables.column import BOOL, INT16, INT32, INT64, TEXT
from kdissect.tables.schemas import GROUP_EVENTS, TRANSACTION_EVENTS

WHERE = (("capture_file", TEXT), ("request_packet", INT64), ("response_packet", INT64))
FIRST = (("order_ns", INT64), *WHERE)
"""The location of the earliest exchange."""

ORDER = tuple(name for name, _ in FIRST)

WHO = (("client_id", TEXT), ("client_host", TEXT))
ENDS = (("server_host", TEXT), ("server_port", INT32))
CLIENT, SERVER = ("client_id", "client_host"), ("server_host", "server_port")

CELL_BITS = 4
"""A cell of latencies is 2^4 buckets of `histogram`: eight to an octave, within 6 % of its middle."""

ACTIVITY = PartialTable(
    "moments",
    keys=(
        ("step", INT32),
        ("api_key", INT16),
        *WHO,
        *ENDS,
        ("connection", INT64),
        ("idle_wait", BOOL),
        ("cell", INT16),
    ),
    sums=(
        "exchanges",
        "latency_ns",
        "upload_ns",
        "transfer_ns",
        "request_bytes",
        "response_bytes",
        "error_responses",
        "unanswered",
        "throttled",
        "throttle_ms",
    ),
    highest=("latency_max_ns",),
    order=ORDER,
    first=FIRST,
    most=100_000,
    spare=(("connection",), CLIENT),
)
"""Exchanges by when they began.

`cell` is -1 where there is no latency. `upload_ns` is the time from the first to the last byte of the
request.
"""

FAILURES = PartialTable(
    "failures",
    keys=(("step", INT32), ("api_key", INT16), ("code", INT16), *WHO, *ENDS, ("connection", INT64)),
    sums=("exchanges",),
    order=ORDER,
    first=FIRST,
    most=20_000,
    spare=(("connection",), CLIENT),
)
"""Exchanges by the error codes that they carry: one with two codes counts under both."""

TOPIC_ACTIVITY = PartialTable(
    "topic_moments",
    keys=(
        ("step", INT32),
        ("api_key", INT16),
        ("topic", TEXT),
        ("topic_id", TEXT),
        *WHO,
        *ENDS,
        ("idle_wait", BOOL),
        ("cell", INT16),
    ),
    sums=(
        "exchanges",
        "latency_ns",
        "upload_ns",
        "transfer_ns",
        "request_bytes",
        "response_bytes",
        "unanswered",
        "throttled",
        "throttle_ms",
        "records",
        "record_bytes",
        "errors",
    ),
    highest=("latency_max_ns",),
    order=ORDER,
    first=FIRST,
    most=100_000,
    spare=(CLIENT, SERVER, ("topic", "topic_id")),
)
"""Exchanges by the topics that they name, with the columns of ACTIVITY; `errors` counts partitions."""

POSITIONS = PartialTable(
    "positions",
    keys=(
        ("step", INT32),
        ("kind", TEXT),
        ("group_id", TEXT),
        *WHO,
        ("topic", TEXT),
        ("topic_id", TEXT),
        ("partition", INT32),
    ),
    sums=("exchanges",),
    order=("order_ns", "offset", "end_offset", "capture_file", "request_packet", "response_packet"),
    first=(("order_ns", INT64), ("offset", INT64), ("end_offset", INT64), *WHERE),
    most=60_000,
    spare=(("topic", "topic_id", "partition"),),
)
"""The last offset of each step: fetched, committed, or written; `end_offset` is the end of the log.

`order_ns` is minus the time.
"""

GROUP_CLIENTS = PartialTable(
    "group_clients",
    keys=(("group_id", TEXT), *WHO, ("api_key", INT16)),
    sums=("exchanges", "error_responses"),
    order=ORDER,
    first=FIRST,
    most=20_000,
    spare=(CLIENT, ("group_id",)),
)

PRODUCERS = PartialTable(
    "producers",
    keys=(*WHO, ("transactional_id", TEXT), ("producer_id", INT64), ("producer_epoch", INT16)),
    sums=("exchanges", "batches", "records", "record_bytes", "errors"),
    lowest=("first_ns",),
    highest=("last_ns",),
    order=ORDER,
    first=FIRST,
    most=20_000,
    spare=(("producer_epoch",), ("transactional_id", "producer_id")),
)
"""Who wrote under which producer id; `errors` are partitions."""

SEQUENCES = PartialTable(
    "sequences",
    keys=(
        ("producer_id", INT64),
        ("producer_epoch", INT16),
        ("topic", TEXT),
        ("topic_id", TEXT),
        ("partition", INT32),
        ("start", INT64),
    ),
    sums=("batches", "records"),
    highest=("stop",),
    order=ORDER,
    first=FIRST,
    most=20_000,
    spare=(("producer_id", "producer_epoch", "topic", "topic_id", "partition"),),
    run=("start", "stop"),
)
"""Runs of sequence numbers start .. stop-1 without a gap."""

GROUP_STEPS = PartialTable(
    "group_steps",
    keys=(*((field.name, field.type) for field in GROUP_EVENTS), ("client_host", TEXT)),
    sums=("events",),
    most=20_000,
    earliest="time_ns",
)

TRANSACTION_STEPS = PartialTable(
    "transaction_steps",
    keys=(*((field.name, field.type) for field in TRANSACTION_EVENTS), ("client_host", TEXT)),
    sums=("events",),
    most=20_000,
    earliest="time_ns",
)

TIMELINE_TABLES = {
    part.name: part
    for part in (
        ACTIVITY,
        FAILURES,
        TOPIC_ACTIVITY,
        POSITIONS,
        GROUP_CLIENTS,
        PRODUCERS,
        SEQUENCES,
        GROUP_STEPS,
        TRANSACTION_STEPS,
    )
}
