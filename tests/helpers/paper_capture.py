"""A capture small enough to work out on paper: three connections, nine exchanges, eleven partitions.

connection 1  orders-app (librdkafka 2.6.1) at 10.1.0.1 to broker 10.0.0.1:9092, nothing lost, closed by FIN
    0  Produce v9, orders 0 and 1, 100 and 50 records   1 ms      throttled 200 ms
    1  Produce v9, orders 0, 10 records                 3 ms      NOT_LEADER_OR_FOLLOWER in the partition
    2  Produce v9, audit 0, acks=0                      no response due
    3  Metadata v12                                     2 ms
    4  Produce v9, orders 0                             no response
connection 2  billing (apache-kafka-java 3.9.0) at 10.1.0.2 to broker 10.0.0.2:9092, 500 bytes lost, open
    0  Fetch v13 of orders (by id), 150 records         500 µs
    1  Fetch v13 of orders (by id), no data             500 ms    idle wait
    2  Fetch v13 of a topic without a name              -4 ms     the clock stepped back; a fault
    -  a response without request
connection 3  TLS
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from kdissect.report.model.summary import CaptureFacts
from kdissect.tables.schemas import CONNECTIONS, EXCHANGES, PARTITIONS

T = 1_772_359_200_000_000_000  # 2026-03-01 10:00:00 UTC
US, MS = 1_000, 1_000_000
ORDERS_ID, OTHER_ID = "11111111-2222-3333-4444-555555555555", "99999999-0000-0000-0000-000000000001"

CAPTURE = CaptureFacts(
    files=("shop.pcapng",),
    packets=40,
    bytes=20_480,
    first_time_ns=T,
    last_time_ns=T + 2_000 * MS,
    link_types=("Ethernet",),
    tcp_packets=40,
)

CONNECTION_ROWS: list[dict[str, Any]] = [
    {
        "connection": 1,
        "client_host": "10.1.0.1",
        "client_port": 40001,
        "server_host": "10.0.0.1",
        "server_port": 9092,
        "opened": "handshake",
        "closed": "fin",
        "protocol": "kafka",
        "packets": 20,
        "bytes_to_server": 3000,
        "bytes_to_client": 500,
        "lost_bytes": 0,
        "server_rtt_ns": 200 * US,
        "client_rtt_ns": 50 * US,
        "client_id": "orders-app",
        "client_software_name": "librdkafka",
        "client_software_version": "2.6.1",
    },
    {
        "connection": 2,
        "client_host": "10.1.0.2",
        "client_port": 40002,
        "server_host": "10.0.0.2",
        "server_port": 9092,
        "opened": "midstream",
        "closed": "open",
        "protocol": "kafka",
        "packets": 12,
        "bytes_to_server": 300,
        "bytes_to_client": 5700,
        "lost_bytes": 500,
        "client_id": "billing",
        "client_software_name": "apache-kafka-java",
        "client_software_version": "3.9.0",
    },
    {
        "connection": 3,
        "client_host": "10.1.0.3",
        "client_port": 40003,
        "server_host": "10.0.0.1",
        "server_port": 9093,
        "opened": "handshake",
        "closed": "rst",
        "protocol": "tls",
        "packets": 8,
        "bytes_to_server": 250,
        "bytes_to_client": 250,
        "lost_bytes": 0,
    },
]


def exchange(
    connection: int,
    ordinal: int | None,
    api: tuple[int, str, int],
    at_ms: int,
    latency: int | None,
    **more: Any,
):
    """Return an exchange whose request is sent at a time, and answered after a latency or never."""
    sent = T + at_ms * MS
    packet = 10 * connection + 2 * (ordinal or 0)
    row = {
        "connection": connection,
        "ordinal": ordinal,
        "status": "answered",
        "api_key": api[0],
        "api_name": api[1],
        "api_version": api[2],
        "client_id": "orders-app" if connection == 1 else "billing",
        "request_first_ns": sent,
        "request_last_ns": sent,
        "request_packet": packet,
        "request_bytes": 100,
        "in_flight": 1,
        "idle_wait": False,
        "capture_file": "shop.pcapng",
    }
    if latency is not None:
        row |= {
            "latency_ns": latency,
            "response_first_ns": sent + latency,
            "response_last_ns": sent + latency + 10 * US,
            "response_packet": packet + 1,
            "response_bytes": 60,
            "error_code": 0,
            "error_name": "NONE",
            "error_count": 0,
            "throttle_ms": 0,
        }
    return row | more


PRODUCE, FETCH, METADATA = (0, "Produce", 9), (1, "Fetch", 13), (3, "Metadata", 12)
LEADER_MOVED = {"error_code": 6, "error_name": "NOT_LEADER_OR_FOLLOWER"}

EXCHANGE_ROWS: list[dict[str, Any]] = [
    exchange(1, 0, PRODUCE, 0, 1 * MS, acks=-1, throttle_ms=200, request_bytes=1000),
    exchange(1, 1, PRODUCE, 100, 3 * MS, acks=-1, error_count=1, in_flight=2, **LEADER_MOVED),
    exchange(1, 2, PRODUCE, 200, None, acks=0, status="no_response_expected"),
    exchange(1, 3, METADATA, 300, 2 * MS),
    exchange(1, 4, PRODUCE, 400, None, acks=1, status="unanswered"),
    exchange(2, 0, FETCH, 500, 500 * US, response_bytes=5000),
    exchange(2, 1, FETCH, 600, 500 * MS, idle_wait=True),
    exchange(
        2,
        2,
        FETCH,
        1200,
        -4 * MS,
        fault="response.responses[3].partitions: length 70000 of 12 left (offset 41)",
    ),
    {
        "connection": 2,
        "status": "orphan_response",
        "response_first_ns": T + 1500 * MS,
        "response_last_ns": T + 1500 * MS,
        "response_packet": 29,
        "response_bytes": 40,
        "capture_file": "shop.pcapng",
    },
]


def partition(connection: int, ordinal: int, api_key: int, number: int, records: int | None, **more: Any):
    """Return a partition row; 10 bytes to a record, in one zstd batch."""
    data = (
        {}
        if records is None
        else {"records": records, "batches": 1, "record_bytes": 10 * records, "codec": "zstd"}
    )
    row = {
        "connection": connection,
        "ordinal": ordinal,
        "api_key": api_key,
        "partition": number,
        "error_code": 0,
    }
    return row | {"error_name": "NONE"} | data | more


PARTITION_ROWS: list[dict[str, Any]] = [
    partition(1, 0, 0, 0, 100, topic="orders"),
    partition(1, 0, 0, 1, 50, topic="orders"),
    partition(1, 1, 0, 0, 10, topic="orders", **LEADER_MOVED),
    partition(1, 2, 0, 0, 5, topic="audit"),
    partition(1, 4, 0, 0, 1, topic="orders"),
    partition(2, 0, 1, 0, 100, topic_id=ORDERS_ID),
    partition(2, 0, 1, 1, 50, topic_id=ORDERS_ID),
    partition(2, 1, 1, 0, None, topic_id=ORDERS_ID),
    partition(2, 2, 1, 7, None, topic_id=OTHER_ID),
]


def table(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return rows as a table, absent values as null."""
    return pa.table({name: [row.get(name) for row in rows] for name in schema.names}, schema=schema)


def tables() -> Mapping[str, pa.Table]:
    """Return all tables of the capture."""
    connections = [
        dict.fromkeys(CONNECTIONS.names[13:18], 0)
        | {"zero_windows": 0, "duplicate_packets": 0, "first_time_ns": T, "last_time_ns": T + 2_000 * MS}
        | row
        for row in CONNECTION_ROWS
    ]
    return {
        "connections": table(connections, CONNECTIONS),
        "exchanges": table(EXCHANGE_ROWS, EXCHANGES),
        "partitions": table(PARTITION_ROWS, PARTITIONS),
        "names": pa.table({"topic_id": [ORDERS_ID], "topic": ["orders"]}),
        "brokers": pa.table(
            {
                "node_id": pa.array([1, 2], pa.int32()),
                "host": ["10.0.0.1", "10.0.0.2"],
                "port": pa.array([9092, 9092], pa.int32()),
            }
        ),
    }
