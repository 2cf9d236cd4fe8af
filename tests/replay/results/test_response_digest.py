"""Comparable parts of a response: errors, counts and progress, never ids or offsets."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.record import MemoryRecordsBuilder

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import encode_embedded
from kdissect.replay.results.response_digest import digest, produced_records, record_count
from tests.helpers.paper_target import Tree

IDENTITY = b"i" * 16
NAMES = {IDENTITY: "orders"}.get
ASSIGNMENT = encode_embedded(
    "ConsumerProtocolAssignment",
    1,
    {"assigned_partitions": [{"topic": "orders", "partitions": [0, 1, 2]}], "user_data": None},
)

RESPONSES: list[tuple[int, Tree, list[dict[str, Any]]]] = [
    (
        ApiKey.PRODUCE,
        {
            "responses": [
                {
                    "topic_id": IDENTITY,
                    "partition_responses": [{"index": 3, "error_code": 6, "base_offset": -1}],
                }
            ]
        },
        [{"where": "orders-3", "error": 6, "offset": -1}],
    ),
    (
        ApiKey.FETCH,
        {
            "error_code": 0,
            "responses": [
                {
                    "topic": "a",
                    "partitions": [
                        {"partition_index": 0, "error_code": 0, "records": None, "high_watermark": 9}
                    ],
                }
            ],
        },
        [{"where": "a-0", "error": 0, "records": 0, "bytes": 0, "high_watermark": 9, "preferred": -1}],
    ),
    (
        ApiKey.SYNC_GROUP,
        {"error_code": 0, "assignment": ASSIGNMENT},
        [{"where": "", "error": 0, "assigned": 3}],
    ),
    (ApiKey.SYNC_GROUP, {"error_code": 27, "assignment": b""}, [{"where": "", "error": 27, "assigned": 0}]),
    (ApiKey.CONSUMER_GROUP_HEARTBEAT, {"error_code": 0, "assignment": None}, [{"where": "", "error": 0}]),
    (
        ApiKey.METADATA,
        {"topics": [{"name": None, "topic_id": IDENTITY, "error_code": 5, "partitions": []}]},
        [{"where": "orders", "error": 5, "partitions": 0}],
    ),
    (
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        {"topics": [{"topic": "a", "partitions": [{"partition": 1, "error_code": 0, "end_offset": -1}]}]},
        [{"where": "a-1", "error": 0, "known": False}],
    ),
    (
        ApiKey.LIST_OFFSETS,
        {"topics": [{"name": "a", "partitions": [{"partition_index": 1, "error_code": 3, "offset": 7}]}]},
        [{"where": "a-1", "error": 3}],
    ),
]


@pytest.mark.parametrize(("key", "body", "entries"), RESPONSES)
def test_a_response_becomes_entries_by_partition(key: int, body: Tree, entries: list[dict[str, Any]]) -> None:
    assert digest(key, body, NAMES) == entries


def test_records_of_a_request_are_counted_by_partition() -> None:
    body = {"topic_data": [{"topic_id": IDENTITY, "partition_data": [{"index": 2, "records": None}]}]}
    assert produced_records(body, NAMES) == {"orders-2": 0}


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_compressed_messages_count_as_the_records_in_them(magic: int) -> None:
    builder = MemoryRecordsBuilder(magic=magic, compression_type=1, batch_size=1 << 16)
    for number in range(5):
        builder.append(timestamp=number, key=None, value=b"v")
    builder.close()
    data = bytes(builder.buffer())
    assert record_count(data) == record_count(data + data[:-1]) == 5
    assert record_count(data, first=90) == 0


def test_a_message_that_cannot_be_read_counts_as_one() -> None:
    builder = MemoryRecordsBuilder(magic=1, compression_type=1, batch_size=1 << 16)
    builder.append(timestamp=0, key=None, value=b"v" * 99)
    builder.close()
    data = bytes(builder.buffer())
    assert record_count(data[:-20] + bytes(20)) == 1
