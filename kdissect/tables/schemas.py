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
    first_time_ns=INT64,  # of the first packet in the capture
    last_time_ns=INT64,  # the latest of any packet
    opened=TEXT,  # handshake | midstream
    closed=TEXT,  # fin | rst | open
    protocol=TEXT,  # kafka | kafka-0.7 | tls | unknown
    packets=INT64,  # each once, however often the capture has it
    bytes_to_server=INT64,
    bytes_to_client=INT64,
    cut_bytes=INT64,  # of both, what the capture cut off
    retransmitted_segments=INT64,
    conflicting_segments=INT64,  # with other bytes than were captured first, which are the ones that count
    out_of_order_segments=INT64,
    lost_bytes=INT64,
    skipped_bytes=INT64,  # captured, but of no frame: not Kafka, or the place was lost
    oversized_frames=INT64,  # lengths that no frame may have; behind them the next frame was searched
    overfull_holes=INT64,  # holes that were given up because too much waited behind them
    overheld_waits=INT64,  # times that it gave up what it waited for because all connections of a task held too much
    zero_windows=INT64,
    duplicate_packets=INT64,  # captured again: on another interface, at another place
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
    sasl_outcome=TEXT,  # succeeded | failed | unfinished; null: no SASL was seen
    sasl_error=TEXT,  # name of the first error
    sasl_reauthentications=INT64,
    tls_version=TEXT,  # TLS 1.2 | TLS 1.3 | …
    tls_sni=TEXT,
    tls_alpn=TEXT,
    tls_cipher=TEXT,
    tls_outcome=TEXT,  # completed | failed | unanswered | unfinished | not_seen
    tls_alert=TEXT,  # the first that is no good end; encrypted: it was not readable
    tls_alert_by=TEXT,  # client | server
    tls_client_certificate=BOOL,  # the server asked for one; null: TLS 1.3 without keys does not tell
    tls_resumed=BOOL,
    tls_renegotiations=INT64,
    tls_decryption=TEXT,  # whole | partly | failed | no_keys | no_handshake | unsupported
    tls_undecrypted_bytes=INT64,
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
    sampled_bytes=INT64,  # of a write without compression: records that were tried with LZ4 (see exchange.samples)
    sampled_lz4_bytes=INT64,  # and what became of them
)

GROUP_EVENTS = _table(
    connection=INT64,
    ordinal=INT64,
    event=TEXT,  # join | sync | leave | epoch | error
    asked_ns=INT64,
    time_ns=INT64,  # of the answer; of the request where there is none
    api_key=INT16,
    client_id=TEXT,
    group_id=TEXT,
    member_id=TEXT,  # the one the coordinator gave, if it gave one
    instance_id=TEXT,  # of a static member
    generation=INT32,  # of the classic protocol; the member's epoch with KIP-848
    leader=BOOL,
    members=INT32,  # told to the leader only
    protocol=TEXT,  # the assignor that was chosen
    reason=TEXT,
    session_timeout_ms=INT32,
    rebalance_timeout_ms=INT32,
    error_code=INT16,
    error_name=TEXT,
    request_packet=INT64,
    response_packet=INT64,
    capture_file=TEXT,
)

TRANSACTION_EVENTS = _table(
    connection=INT64,
    ordinal=INT64,
    event=TEXT,  # init | add_partitions | add_offsets | commit_offsets | commit | abort
    asked_ns=INT64,
    time_ns=INT64,  # of the answer; of the request where there is none
    api_key=INT16,
    client_id=TEXT,
    transactional_id=TEXT,  # null for an idempotent producer
    group_id=TEXT,
    producer_id=INT64,
    producer_epoch=INT16,
    timeout_ms=INT32,
    error_code=INT16,
    error_name=TEXT,
    request_packet=INT64,
    response_packet=INT64,
    capture_file=TEXT,
)

TABLES = {
    "connections": CONNECTIONS,
    "exchanges": EXCHANGES,
    "partitions": PARTITIONS,
    "group_events": GROUP_EVENTS,
    "transaction_events": TRANSACTION_EVENTS,
}
ON_REQUEST = frozenset({"group_events", "transaction_events", "ends"})
"""Tables that are made only where they are asked for: reading them takes the plain decoder."""

# What is learnt beside the tables: which topic an id means, where a node listens, and who talks on a connection.
NAMES = _table(topic_id=TEXT, topic=TEXT)
BROKERS = _table(node_id=INT32, host=TEXT, port=INT32)
ENDS = _table(connection=INT64, client_host=TEXT, client_port=INT32, server_host=TEXT, server_port=INT32)
