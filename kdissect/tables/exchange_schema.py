"""The columns of the tables `exchanges` and `partitions`.

A column that shows a value of a message as it is names its source; `tables.exchanges` and
`tables.partitions` work out the others.
"""

from kdissect.streams.flow_state import REQUEST_SIDE, RESPONSE_SIDE
from kdissect.tables.column import (
    BOOL,
    BYTES,
    INT16,
    INT32,
    INT64,
    MS,
    NO_FIELD,
    NO_NAME,
    NO_RECORDS,
    NO_REQUEST,
    NO_RESPONSE,
    NS,
    TEXT,
    TIME,
    Column,
    Source,
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
        "client id of the request; its first bytes where its packet was cut within it",
        null=f"{NO_REQUEST}, it names none, or fewer than 12 bytes of it were captured",
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
        "idle_wait",
        BOOL,
        "whether the latency is a wait by design: a long poll, or a wait for group members; a Fetch that "
        "was cut off may be one",
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
        null="the message has no such field, or names several groups",
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
    Column(
        "records",
        INT64,
        "records written or fetched; a marker that ends a transaction counts as one",
        null=f"{NO_RECORDS}, or they cannot be counted",
    ),
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
        null="the response has no such field",
        source=Source("high_watermark", RESPONSE_SIDE, alone=True),  # a follower's request has what it knew
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
