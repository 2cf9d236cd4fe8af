"""The public tables: what `export` writes and the only thing a report is computed from.

Each column is defined once, with its meaning, its unit and what null means: those of records here, the others
in `connection_schema`, `exchange_schema` and `event_schema`. The Arrow schemas and docs/tables.md are made
from that. Times are int64 nanoseconds since the epoch (UTC), and sizes are bytes.
Absent values are null, never 0 or -1; values on the wire, such as an offset of -1, stay as they are. A column
also says whether it holds names, and from which value of a message it is filled, if it is filled from one.
"""

import pyarrow as pa

from kdissect.tables.column import (
    BAD_BATCH,
    BOOL,
    BYTES,
    INT16,
    INT32,
    INT64,
    NO_FIELD,
    NO_NAME,
    NO_PAYLOAD,
    PAYLOAD,
    TEXT,
    TIME,
    Column,
)
from kdissect.tables.connection_schema import CONNECTION_COLUMNS
from kdissect.tables.event_schema import GROUP_EVENT_COLUMNS, TRANSACTION_EVENT_COLUMNS
from kdissect.tables.exchange_schema import EXCHANGE_COLUMNS, PARTITION_COLUMNS


def _schema(*columns: Column) -> pa.Schema:
    return pa.schema([pa.field(column.name, column.type) for column in columns])


def _table(**columns: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, kind in columns.items()])


RECORD_COLUMNS = (
    Column("connection", INT64, "number of the connection"),
    Column("ordinal", INT64, "number of the request on it"),
    Column("api_key", INT16, "API key of the exchange: Produce, Fetch or ShareFetch"),
    Column("topic", TEXT, "name of the topic", null="only its id is known", names="topic"),
    Column("topic_id", TEXT, "topic id as Kafka prints it", null=NO_FIELD, names="topic_id"),
    Column("partition", INT32, "number of the partition"),
    Column("offset", INT64, "offset; of a Produce the number in its batch", null=BAD_BATCH),
    Column("time_ns", INT64, "time of the record", TIME, "it has none, or is before 1970"),
    Column("producer_id", INT64, "producer id of the batch; -1 stays", null=BAD_BATCH),
    Column("producer_epoch", INT16, "epoch of that producer; -1 stays", null=BAD_BATCH),
    Column(
        "control",
        TEXT,
        "kind of a control record, such as `commit`",
        null="a record of a producer",
        names=NO_NAME,
    ),
    Column("key", TEXT, "key: JSON, text, or base64, see `key_format`", null=NO_PAYLOAD, names=PAYLOAD),
    Column(
        "key_format", TEXT, "`json`, `text`, `avro`, `protobuf` or `bytes`", null=NO_PAYLOAD, names=NO_NAME
    ),
    Column("key_schema", INT64, "schema id of the key", null="it has none"),
    Column("key_bytes", INT64, "size of the key", BYTES, "the key is null"),
    Column("value", TEXT, "value: JSON, text, or base64, see `value_format`", null=NO_PAYLOAD, names=PAYLOAD),
    Column(
        "value_format", TEXT, "`json`, `text`, `avro`, `protobuf` or `bytes`", null=NO_PAYLOAD, names=NO_NAME
    ),
    Column("value_schema", INT64, "schema id of the value", null="it has none"),
    Column("value_bytes", INT64, "size of the value", BYTES, "the value is null"),
    Column(
        "headers",
        TEXT,
        "JSON object of the headers",
        null="it has none, or they are too large",
        names=PAYLOAD,
    ),
    Column("fault", TEXT, "why batch, key or value could not be decoded", null="they were", names=PAYLOAD),
    Column("packet", INT64, "packet with the first byte of the message", null="in another file"),
    Column("capture_file", TEXT, "file in which the packet counts", names="capture"),
)

COLUMNS = {
    "connections": CONNECTION_COLUMNS,
    "exchanges": EXCHANGE_COLUMNS,
    "partitions": PARTITION_COLUMNS,
    "group_events": GROUP_EVENT_COLUMNS,
    "transaction_events": TRANSACTION_EVENT_COLUMNS,
}
"""The public tables by name; docs/tables.md is made from this."""

TABLES = {name: _schema(*columns) for name, columns in COLUMNS.items()}
CONNECTIONS, EXCHANGES, PARTITIONS, GROUP_EVENTS, TRANSACTION_EVENTS = TABLES.values()

RECORDS = _schema(*RECORD_COLUMNS)
ROW_TABLES = TABLES | {"records": RECORDS}
"""All tables that are made row by row: the public ones that `all` stands for, and records."""

ON_REQUEST = frozenset(
    {
        "group_events",
        "transaction_events",
        "records",
        "ends",
        "replica_sets",
        "share_acknowledgements",
        "shutdown_requests",
        "addressed_voters",
        "tcp_steps",
        "tcp_spans",
    }
)
"""Tables that are made only where they are asked for."""

# Learnt beside the tables: the name of a topic id, the address of a node, and both ends of a connection.
NAMES = _table(topic_id=TEXT, topic=TEXT)
BROKERS = _table(node_id=INT32, host=TEXT, port=INT32)
ENDS = _table(connection=INT64, client_host=TEXT, client_port=INT32, server_host=TEXT, server_port=INT32)

# Who leads a partition and which replicas are in sync, as messages tell it: see `tables.replica_sets`.
REPLICA_SETS = _table(
    connection=INT64,
    ordinal=INT64,
    topic=TEXT,
    topic_id=TEXT,
    partition=INT32,
    leader_id=INT32,
    leader_epoch=INT32,
    replicas=TEXT,
    isr=TEXT,
    messages=INT64,
    first_ns=INT64,
    last_ns=INT64,
    capture_file=TEXT,
    request_packet=INT64,
    response_packet=INT64,
)

# Decisions of members of share groups about records: see `tables.share_acknowledgements`.
SHARE_ACKNOWLEDGEMENTS = _table(
    connection=INT64,
    ordinal=INT64,
    client_id=TEXT,
    group_id=TEXT,
    topic_id=TEXT,
    partition=INT32,
    kind=TEXT,
    records=INT64,
    deliveries=INT64,
    time_ns=INT64,
    capture_file=TEXT,
    request_packet=INT64,
    response_packet=INT64,
)

# Brokers that ask the controller to let them end: see `tables.controller_requests`.
SHUTDOWN_REQUESTS = _table(connection=INT64, ordinal=INT64, node_id=INT32, time_ns=INT64)

# Controllers that others call by their node id: see `tables.controller_requests`.
ADDRESSED_VOTERS = _table(connection=INT64, ordinal=INT64, node_id=INT32)

# The behaviour of TCP: a row for each direction of a connection and step of time, and for each time of
# standstill. Columns are explained at `streams.tcp.tracker_state.StepRow` and `SpanRow`.
_DIRECTION = {
    "connection": INT64,
    "client_host": TEXT,
    "server_host": TEXT,
    "server_port": INT32,
    "to_server": BOOL,  # the direction of the data
    "begin_ns": INT64,
}
TCP_STEPS = _table(
    **_DIRECTION,
    first_ns=INT64,
    last_ns=INT64,
    segments=INT64,
    bytes=INT64,
    ack_count=INT64,
    ack_ns=INT64,
    ack_min_ns=INT64,
    ack_max_ns=INT64,
    reply_count=INT64,
    reply_ns=INT64,
    reply_min_ns=INT64,
    reply_max_ns=INT64,
    repeated=INT64,
    repeated_bytes=INT64,
    repeated_first_ns=INT64,
    repeated_last_ns=INT64,
    largest_acked=INT64,
    attempts=INT64,
    attempt_repeats=INT64,
    refused=INT64,
    unanswered=INT64,
)
TCP_SPANS = _table(
    **_DIRECTION,
    kind=TEXT,
    outcome=TEXT,
    end_ns=INT64,
    packets=INT64,
    most_repeats=INT64,
    segment_bytes=INT64,
    bytes=INT64,
    idle_ns=INT64,
    capture_file=TEXT,
    packet=INT64,
)
