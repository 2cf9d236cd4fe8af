"""The public tables: what `export` writes and the only thing a report is computed from.

Each column is defined once, with its meaning, its unit and what null means. The Arrow schemas and
docs/tables.md are made from that. Times are int64 nanoseconds since the epoch (UTC), and sizes are bytes.
Absent values are null, never 0 or -1; values on the wire, such as an offset of -1, stay as they are. A column
also says whether it holds names, and from which value of a message it is filled, if it is filled from one.
"""

import pyarrow as pa

from kdissect.streams.flow_state import REQUEST_SIDE, RESPONSE_SIDE
from kdissect.tables.column import (
    BAD_BATCH,
    BOOL,
    BYTES,
    INT16,
    INT32,
    INT64,
    MS,
    NO_FIELD,
    NO_NAME,
    NO_PAYLOAD,
    NO_RECORDS,
    NO_REQUEST,
    NO_RESPONSE,
    NO_SASL,
    NO_TLS,
    NS,
    PAYLOAD,
    TEXT,
    TIME,
    Column,
    Source,
)


def _schema(*columns: Column) -> pa.Schema:
    return pa.schema([pa.field(column.name, column.type) for column in columns])


def _table(**columns: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, kind in columns.items()])


def _acknowledged(receiver: str) -> tuple[Column, ...]:
    """Return the columns about data to the `receiver` and its acknowledgments."""
    none = "nothing was timed"
    trip = f"round trip from data to an acknowledgment without data by the {receiver}"
    return (
        Column(
            f"unacknowledged_bytes_to_{receiver}",
            INT64,
            f"bytes to the {receiver} that it had not acknowledged at the end",
            BYTES,
        ),
        Column(f"{receiver}_acks", INT64, f"timed acknowledgments of the {receiver}, one segment at a time"),
        Column(f"{receiver}_ack_min_ns", INT64, f"shortest {trip}", NS, none),
        Column(f"{receiver}_ack_mean_ns", INT64, f"mean {trip}", NS, none),
        Column(f"{receiver}_ack_max_ns", INT64, f"longest {trip}", NS, none),
    )


CONNECTION_COLUMNS = (
    Column("connection", INT64, "number of the connection; it depends only on both ends and the first time"),
    Column("client_host", TEXT, "address of the client", names="host"),
    Column("client_port", INT32, "port of the client"),
    Column("server_host", TEXT, "address of the server", names="host"),
    Column("server_port", INT32, "port of the server"),
    Column("first_time_ns", INT64, "time of the first packet in the capture", TIME),
    Column("last_time_ns", INT64, "latest time of any packet", TIME),
    Column(
        "opened",
        TEXT,
        "`handshake`: its SYN was captured; `midstream`: it is older than the capture",
        names=NO_NAME,
    ),
    Column(
        "closed",
        TEXT,
        "how it ended first: `fin`, `rst`, or `open` if the capture has no end of it",
        names=NO_NAME,
    ),
    Column(
        "protocol",
        TEXT,
        "`kafka`, `kafka-0.7`, `tls` (not decrypted, or not Kafka inside) or `unknown`",
        names=NO_NAME,
    ),
    Column("packets", INT64, "packets; a packet that was captured twice counts once"),
    Column("bytes_to_server", INT64, "TCP payload sent by the client, retransmissions included", BYTES),
    Column("bytes_to_client", INT64, "TCP payload sent by the server, retransmissions included", BYTES),
    Column("cut_bytes", INT64, "part of both that the capture cut off (snap length)", BYTES),
    Column("retransmitted_segments", INT64, "segments that repeat captured bytes"),
    Column("conflicting_segments", INT64, "retransmissions with other bytes; the first copy counts"),
    Column("out_of_order_segments", INT64, "segments that came after later ones"),
    Column("lost_bytes", INT64, "bytes that were sent and are not in the capture", BYTES),
    Column("skipped_bytes", INT64, "captured bytes that belong to no complete message", BYTES),
    Column("oversized_frames", INT64, "size fields beyond the limit `frame`"),
    Column("overfull_holes", INT64, "gaps given up because more than the limit `ahead` waited behind them"),
    Column(
        "overheld_waits", INT64, "times it gave up waiting because its task held more than the limit `held`"
    ),
    Column("zero_windows", INT64, "packets with a receive window of zero"),
    Column("duplicate_packets", INT64, "packets that were captured again"),
    Column(
        "server_rtt_ns",
        INT64,
        "round trip to the server, SYN to SYN-ACK",
        NS,
        "the handshake was not captured",
    ),
    Column(
        "client_rtt_ns",
        INT64,
        "round trip to the client, SYN-ACK to ACK",
        NS,
        "the handshake was not captured",
    ),
    Column(
        "closed_by",
        TEXT,
        "who sent the first FIN or RST: `client` or `server`",
        null="nobody did",
        names=NO_NAME,
    ),
    Column("closed_ns", INT64, "time of that packet", TIME, "as `closed_by`"),
    *_acknowledged("server"),
    *_acknowledged("client"),
    Column("client_id", TEXT, "first client id of its requests", null="no request names one", names="client"),
    Column(
        "client_software_name",
        TEXT,
        "client software, from ApiVersions",
        null="the client does not say",
        names=NO_NAME,
    ),
    Column(
        "client_software_version",
        TEXT,
        "version of it, from ApiVersions",
        null="the client does not say",
        names=NO_NAME,
    ),
    Column("sasl_mechanism", TEXT, "SASL mechanism that the client chose", null=NO_SASL, names="mechanism"),
    Column("requests", INT64, "Kafka requests"),
    Column("responses", INT64, "Kafka responses"),
    Column("unanswered", INT64, "requests without a response that was due"),
    Column("orphan_responses", INT64, "responses whose request was not captured"),
    Column("faults", INT64, "exchanges that could not be decoded in full"),
    Column("sasl_outcome", TEXT, "`succeeded`, `failed` or `unfinished`", null=NO_SASL, names=NO_NAME),
    Column("sasl_error", TEXT, "name of the first SASL error", null="no error code was sent", names=NO_NAME),
    Column("sasl_reauthentications", INT64, "later authentications (KIP-368)", null=NO_SASL),
    Column("tls_version", TEXT, "such as `TLS 1.3`", null=f"{NO_TLS}, or no server hello", names=NO_NAME),
    Column(
        "tls_sni",
        TEXT,
        "host name that the client asked for",
        null=f"{NO_TLS}, or the client named none",
        names="host",
    ),
    Column(
        "tls_alpn",
        TEXT,
        "application protocol that the server chose (ALPN)",
        null=f"{NO_TLS}, or none was",
        names=NO_NAME,
    ),
    Column("tls_cipher", TEXT, "cipher suite", null=f"{NO_TLS}, or no server hello", names=NO_NAME),
    Column(
        "tls_outcome",
        TEXT,
        "`completed`; `failed`: an alert ended it; `unanswered`: the server sent no hello; `unfinished`; "
        "`not_seen`: the connection is older than the capture",
        null=NO_TLS,
        names=NO_NAME,
    ),
    Column(
        "tls_alert",
        TEXT,
        "first alert that reports a problem; `encrypted` if it cannot be read without keys",
        null=f"{NO_TLS}, or no such alert",
        names=NO_NAME,
    ),
    Column(
        "tls_alert_by",
        TEXT,
        "who sent it: `client_label` or `server_label`",
        null="no such alert",
        names=NO_NAME,
    ),
    Column(
        "tls_client_certificate",
        BOOL,
        "whether the server asked for a client certificate",
        null=f"{NO_TLS}, or TLS 1.3 without keys, which hides it",
    ),
    Column("tls_resumed", BOOL, "whether the session was resumed", null=f"{NO_TLS}, or no server hello"),
    Column("tls_renegotiations", INT64, "handshakes after the first one", null=NO_TLS),
    Column(
        "tls_decryption",
        TEXT,
        "`whole`; `partly`: some records are incomplete; `failed`: the keys do not fit; `no_keys`; "
        "`no_handshake`: it was not captured; `unsupported`: version or cipher suite",
        null=NO_TLS,
        names=NO_NAME,
    ),
    Column(
        "tls_undecrypted_bytes", INT64, "captured bytes of records that were not decrypted", BYTES, NO_TLS
    ),
)

EXCHANGE_COLUMNS = (
    Column("connection", INT64, "number of its connection"),
    Column("ordinal", INT64, "number of the request on its connection, from 0", null=NO_REQUEST),
    Column(
        "status",
        TEXT,
        "`answered`, `no_response_expected` (acks=0), `unanswered` or `orphan_response`",
        names=NO_NAME,
    ),
    Column("api_key", INT16, "API key; for Kafka 0.7 the request type", null=NO_REQUEST),
    Column("api_name", TEXT, "name of the API, such as `Fetch`", null=NO_REQUEST, names=NO_NAME),
    Column("api_version", INT16, "version of the API", null=f"{NO_REQUEST}, or Kafka 0.7, which has none"),
    Column("correlation_id", INT32, "correlation id on the wire", null="Kafka 0.7, which has none"),
    Column(
        "client_id",
        TEXT,
        "client id of the request",
        null=f"{NO_REQUEST}, or it names none",
        names="client",
        source=Source("client_id", REQUEST_SIDE),
    ),
    Column(
        "request_first_ns", INT64, "time of the packet with the first byte of the request", TIME, NO_REQUEST
    ),
    Column(
        "request_last_ns", INT64, "time of the packet with its last byte", TIME, "that byte was not captured"
    ),
    Column(
        "response_first_ns",
        INT64,
        "time of the packet with the first byte of the response",
        TIME,
        NO_RESPONSE,
    ),
    Column(
        "response_last_ns", INT64, "time of the packet with its last byte", TIME, "that byte was not captured"
    ),
    Column(
        "latency_ns",
        INT64,
        "from the last byte of the request to the first byte of the response",
        NS,
        "one of the two times is missing, or the response comes first",
    ),
    Column(
        "idle_wait", BOOL, "whether the latency is a wait by design: a long poll, or a wait for group members"
    ),
    Column(
        "wait_ns",
        INT64,
        "part of the latency that is a wait by design: all of it, or what `max_wait_ms` allows",
        NS,
        "there is no latency",
    ),
    Column("in_flight", INT32, "requests in flight on the connection, this one included", null=NO_REQUEST),
    Column("request_bytes", INT64, "size of the request, without its length prefix", BYTES, NO_REQUEST),
    Column("response_bytes", INT64, "size of the response, without its length prefix", BYTES, NO_RESPONSE),
    Column("request_packet", INT64, "packet with the first byte of the request, from 1", null=NO_REQUEST),
    Column(
        "response_packet",
        INT64,
        "packet with the first byte of the response",
        null=f"{NO_RESPONSE}, or it is in another file",
    ),
    Column("capture_file", TEXT, "file in which the packets count: that of the request", names="capture"),
    Column(
        "error_code",
        INT16,
        "first error in the response, 0 if there is none",
        null=f"{NO_RESPONSE}, or {NO_FIELD}",
    ),
    Column("error_name", TEXT, "name of that error, such as `NONE`", null="as `error_code`", names=NO_NAME),
    Column("error_count", INT32, "errors anywhere in the response", null="as `error_code`"),
    Column(
        "throttle_ms",
        INT32,
        "how long the client is asked to wait (quota)",
        MS,
        f"{NO_RESPONSE}, or {NO_FIELD}",
        source=Source("throttle_ms", RESPONSE_SIDE),
    ),
    Column(
        "acks",
        INT16,
        "acks of a Produce: -1 (all), 0 or 1",
        null="not a Produce",
        source=Source("acks", REQUEST_SIDE),
    ),
    Column("replica_id", INT32, "node id of the broker that fetches as a follower", null="not a follower"),
    Column(
        "group_id",
        TEXT,
        "group of the request",
        null=NO_FIELD,
        names="group",
    ),
    Column(
        "generation",
        INT32,
        "generation of the group that a JoinGroup led to",
        null="no JoinGroup, or refused",
    ),
    Column(
        "transactional_id",
        TEXT,
        "transactional id of the request",
        null=NO_FIELD,
        names="transaction",
    ),
    Column("fault", TEXT, "why it could not be decoded in full", null="it was", names=NO_NAME),
)

PARTITION_COLUMNS = (
    Column("connection", INT64, "number of the connection"),
    Column("ordinal", INT64, "number of the request on it"),
    Column("api_key", INT16, "API key of the exchange"),
    Column("topic", TEXT, "name of the topic", null="only its id is known", names="topic"),
    Column(
        "topic_id",
        TEXT,
        "topic id as Kafka prints it: 22 characters of base64url",
        null=NO_FIELD,
        names="topic_id",
    ),
    Column("partition", INT32, "number of the partition", null="the message names only the topic"),
    Column(
        "error_code",
        INT16,
        "error of the partition, 0 if there is none",
        null=f"{NO_RESPONSE}, or {NO_FIELD}",
    ),
    Column("error_name", TEXT, "name of that error", null="as `error_code`", names=NO_NAME),
    Column("records", INT64, "records written or fetched", null=f"{NO_RECORDS}, or they cannot be counted"),
    Column("batches", INT64, "record batches, or messages of the old formats", null=NO_RECORDS),
    Column("record_bytes", INT64, "size of the records as they are on the wire", BYTES, NO_RECORDS),
    Column("codec", TEXT, "`none`, `gzip`, `snappy`, `lz4` or `zstd`", null=NO_RECORDS, names=NO_NAME),
    Column(
        "offset",
        INT64,
        "offset that the request names, else that of the response, or of the first record that a fetch "
        "session returns; -1 stays",
        null=NO_FIELD,
    ),
    Column(
        "high_watermark",
        INT64,
        "high watermark in the response; -1 stays",
        null=NO_FIELD,
        source=Source("high_watermark", RESPONSE_SIDE),
    ),
    Column(
        "log_start_offset",
        INT64,
        "start of the log, from the response if it has it; -1 stays",
        null=NO_FIELD,
        source=Source("log_start_offset", RESPONSE_SIDE),
    ),
    Column("producer_id", INT64, "producer id of the batch or the message; -1 stays", null=NO_FIELD),
    Column("producer_epoch", INT16, "epoch of that producer; -1 stays", null=NO_FIELD),
    Column(
        "base_sequence", INT32, "first sequence number of the batch; -1 stays", null="no batch of format 2"
    ),
    Column(
        "sampled_bytes", INT64, "uncompressed records that were tried with LZ4", BYTES, "no sample was taken"
    ),
    Column("sampled_lz4_bytes", INT64, "what LZ4 made of them", BYTES, "no sample was taken"),
)

_STEP_COLUMNS = (
    Column("asked_ns", INT64, "time of the request", TIME),
    Column("time_ns", INT64, "time of the response; of the request if there is none", TIME),
    Column("api_key", INT16, "API key of the request"),
    Column("client_id", TEXT, "client id of the request", null="it names none", names="client"),
)
_PLACE_COLUMNS = (
    Column("error_code", INT16, "error in the response, 0 if there is none", null=NO_RESPONSE),
    Column("error_name", TEXT, "name of that error", null=NO_RESPONSE, names=NO_NAME),
    Column("request_packet", INT64, "packet with the first byte of the request"),
    Column("response_packet", INT64, "packet with the first byte of the response", null=NO_RESPONSE),
    Column("capture_file", TEXT, "file in which the packets count", names="capture"),
)

GROUP_EVENT_COLUMNS = (
    Column("connection", INT64, "number of the connection"),
    Column("ordinal", INT64, "number of the request on it"),
    Column(
        "event",
        TEXT,
        "`join`, `sync`, `leave`, `epoch` (a new member epoch, KIP-848) or `error` (of a heartbeat)",
        names=NO_NAME,
    ),
    *_STEP_COLUMNS,
    Column("group_id", TEXT, "name of the group", null="the request could not be decoded", names="group"),
    Column(
        "member_id",
        TEXT,
        "member; the id that the coordinator gave, if it gave one",
        null="not known yet",
        names="member",
    ),
    Column(
        "instance_id", TEXT, "group.instance.id of a static member", null="a dynamic member", names="instance"
    ),
    Column(
        "generation",
        INT32,
        "generation of the classic protocol; the member epoch with KIP-848",
        null=NO_FIELD,
    ),
    Column("leader", BOOL, "whether the member leads the group", null=f"{NO_FIELD}, or not known"),
    Column("members", INT32, "members of the group", null="only the leader is told"),
    Column("protocol", TEXT, "assignor that was chosen", null=NO_FIELD, names=NO_NAME),
    Column("reason", TEXT, "why the member joins or leaves (KIP-800)", null=NO_FIELD, names="reason"),
    Column("session_timeout_ms", INT32, "session timeout", MS, NO_FIELD),
    Column("rebalance_timeout_ms", INT32, "rebalance timeout", MS, NO_FIELD),
    *_PLACE_COLUMNS,
)

TRANSACTION_EVENT_COLUMNS = (
    Column("connection", INT64, "number of the connection"),
    Column("ordinal", INT64, "number of the request on it"),
    Column(
        "event",
        TEXT,
        "`init`, `add_partitions`, `add_offsets`, `commit_offsets`, `commit` or `abort`",
        names=NO_NAME,
    ),
    *_STEP_COLUMNS,
    Column("transactional_id", TEXT, "transactional id", null="an idempotent producer", names="transaction"),
    Column("group_id", TEXT, "group whose offsets are committed", null=NO_FIELD, names="group"),
    Column("producer_id", INT64, "producer id; -1 stays", null=NO_RESPONSE),
    Column("producer_epoch", INT16, "epoch of that producer; -1 stays", null=NO_RESPONSE),
    Column("timeout_ms", INT32, "transaction timeout", MS, NO_FIELD),
    *_PLACE_COLUMNS,
)

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

# What TCP did: a row for each direction of a connection and step of time, and for each time of standstill.
# Columns are explained at `streams.tcp.tracker_state.StepRow` and `SpanRow`.
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
