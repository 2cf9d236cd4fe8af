"""The public tables as Arrow schemas: what `export` writes and the only thing a report is computed from.

Times are int64 nanoseconds since the epoch, UTC; sizes are bytes; absent is null, never 0 or -1 (values that stood on
the wire, such as an offset of -1, stay as they were).
"""

import pyarrow as pa


def _table(**columns: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, kind in columns.items()])


BOOL, INT8, INT16, INT32, INT64, TEXT = pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.string()

CONNECTIONS = _table(
    connection=INT64,
    client_host=TEXT,
    client_port=INT32,
    server_host=TEXT,
    server_port=INT32,
    first_time_ns=INT64,
    last_time_ns=INT64,
    opened=TEXT,  # handshake | midstream
    closed=TEXT,  # fin | rst | open
    protocol=TEXT,  # kafka | kafka-0.7 | tls | unknown
    packets=INT64,
    bytes_to_server=INT64,
    bytes_to_client=INT64,
    retransmitted_segments=INT64,
    out_of_order_segments=INT64,
    lost_bytes=INT64,
    skipped_bytes=INT64,  # captured, but of no frame: not Kafka, or the place was lost
    zero_windows=INT64,
    server_rtt_ns=INT64,
    client_rtt_ns=INT64,
    client_id=TEXT,
    client_software_name=TEXT,
    client_software_version=TEXT,
    sasl_mechanism=TEXT,
    requests=INT64,
    responses=INT64,
    unanswered=INT64,
    orphan_responses=INT64,
    faults=INT64,
)

EXCHANGES = _table(
    connection=INT64,
    ordinal=INT64,
    status=TEXT,  # answered | no_response_expected | unanswered | orphan_response
    api_key=INT16,
    api_name=TEXT,
    api_version=INT16,
    correlation_id=INT32,
    client_id=TEXT,
    request_first_ns=INT64,
    request_last_ns=INT64,
    response_first_ns=INT64,
    response_last_ns=INT64,
    latency_ns=INT64,
    idle_wait=BOOL,
    in_flight=INT32,
    request_bytes=INT64,
    response_bytes=INT64,
    request_packet=INT64,
    response_packet=INT64,
    capture_file=TEXT,
    error_code=INT16,
    error_name=TEXT,
    error_count=INT32,
    throttle_ms=INT32,
    acks=INT16,
    group_id=TEXT,
    transactional_id=TEXT,
    fault=TEXT,
)

PARTITIONS = _table(
    connection=INT64,
    ordinal=INT64,
    api_key=INT16,
    topic=TEXT,
    topic_id=TEXT,  # as Kafka prints it: 22 characters of base64url
    partition=INT32,
    error_code=INT16,
    error_name=TEXT,
    records=INT64,
    batches=INT64,
    record_bytes=INT64,
    codec=TEXT,  # none | gzip | snappy | lz4 | zstd
    offset=INT64,
    high_watermark=INT64,
    log_start_offset=INT64,
    producer_id=INT64,
    producer_epoch=INT16,
    base_sequence=INT32,
)

TABLES = {"connections": CONNECTIONS, "exchanges": EXCHANGES, "partitions": PARTITIONS}

# What is learnt beside the tables: which topic an id means, and where a node listens.
NAMES = _table(topic_id=TEXT, topic=TEXT)
BROKERS = _table(node_id=INT32, host=TEXT, port=INT32)
