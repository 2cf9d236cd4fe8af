"""Messages written by hand from the protocol guide: the bytes, and what they say. No encoder of ours has
touched them."""

from typing import Any

from kdissect.protocol.codec.messages import UNKNOWN_TAGS
from kdissect.protocol.schema.definition import Message
from kdissect.protocol.schema.parser import parse


def raw(text: str) -> bytes:
    """Read hex, with "quoted" words as themselves."""
    parts = text.split('"')
    return b"".join(part.encode() if index % 2 else bytes.fromhex(part) for index, part in enumerate(parts))


TOPIC_ID = bytes(range(16))

# (API key, half, version, bytes, value)
CASES: list[tuple[int, str, int, str, dict[str, Any]]] = [
    (
        0,
        "request",
        0,  # acks, timeout, [topic, [partition, record set]]
        '0001 000003e8 00000001 0006 "orders" 00000001 00000003 00000002 abcd',
        {
            "acks": 1,
            "timeout_ms": 1000,
            "topic_data": [{"name": "orders", "partition_data": [{"index": 3, "records": b"\xab\xcd"}]}],
        },
    ),
    (
        0,
        "request",
        3,  # a transactional id, absent, in front
        "ffff 0001 000003e8 00000000",
        {"transactional_id": None, "acks": 1, "timeout_ms": 1000, "topic_data": []},
    ),
    (
        0,
        "request",
        9,  # compact: lengths are one too high, tagged fields end every struct
        '03 "tx" ffff 000003e8 02 07 "orders" 02 00000003 03 abcd 00 00 00',
        {
            "transactional_id": "tx",
            "acks": -1,
            "timeout_ms": 1000,
            "topic_data": [{"name": "orders", "partition_data": [{"index": 3, "records": b"\xab\xcd"}]}],
        },
    ),
    (
        0,
        "request",
        13,  # topics by their id
        "00 0001 000003e8 02 000102030405060708090a0b0c0d0e0f 02 00000000 00 00 00 00",
        {
            "transactional_id": None,
            "acks": 1,
            "timeout_ms": 1000,
            "topic_data": [{"topic_id": TOPIC_ID, "partition_data": [{"index": 0, "records": None}]}],
        },
    ),
    (
        0,
        "response",
        10,  # a tagged struct in a partition, a tagged array at the end
        '01 00000000 01 00 14 02 00000001 09 "10.0.0.1" 00002384 00 00',
        {
            "responses": [],
            "throttle_time_ms": 0,
            "node_endpoints": [{"node_id": 1, "host": "10.0.0.1", "port": 9092, "rack": None}],
        },
    ),
    (
        1,
        "response",
        4,  # error, high watermark, last stable offset, null aborted transactions, records
        (
            '00000000 00000001 0001 "t" 00000001 00000000 0000 000000000000000a 000000000000000a ffffffff '
            "00000000"
        ),
        {
            "throttle_time_ms": 0,
            "responses": [
                {
                    "topic": "t",
                    "partitions": [
                        {
                            "partition_index": 0,
                            "error_code": 0,
                            "high_watermark": 10,
                            "last_stable_offset": 10,
                            "aborted_transactions": None,
                            "records": b"",
                        }
                    ],
                }
            ],
        },
    ),
    (
        1,
        "request",
        12,  # cluster_id is tagged, so it comes last although the schema names it first
        'ffffffff 000001f4 00000001 03200000 01 00000000 ffffffff 01 01 01 01 00 04 04 "abc"',
        {
            "replica_id": -1,
            "max_wait_ms": 500,
            "min_bytes": 1,
            "max_bytes": 52_428_800,
            "isolation_level": 1,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [],
            "forgotten_topics_data": [],
            "rack_id": "",
            "cluster_id": "abc",
        },
    ),
    (
        2,
        "request",
        0,  # the number of offsets wanted, which later versions lost
        'ffffffff 00000001 0001 "t" 00000001 00000000 ffffffffffffffff 00000001',
        {
            "replica_id": -1,
            "topics": [
                {"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1, "max_num_offsets": 1}]}
            ],
        },
    ),
    (
        2,
        "response",
        0,  # a list of offsets
        '00000001 0001 "t" 00000001 00000000 0000 00000002 0000000000000064 0000000000000000',
        {
            "topics": [
                {
                    "name": "t",
                    "partitions": [{"partition_index": 0, "error_code": 0, "old_style_offsets": [100, 0]}],
                }
            ]
        },
    ),
    (3, "request", 0, "00000000", {"topics": []}),
    (3, "request", 1, "ffffffff", {"topics": None}),
    (3, "request", 4, "ffffffff 01", {"topics": None, "allow_auto_topic_creation": True}),
    (
        3,
        "response",
        0,
        """00000001 00000001 0001 "b" 00002384 00000001 0000 0001 "t"
        00000001 0005 00000000 ffffffff 00000002 00000001 00000002 00000000""",
        {
            "brokers": [{"node_id": 1, "host": "b", "port": 9092}],
            "topics": [
                {
                    "error_code": 0,
                    "name": "t",
                    "partitions": [
                        {
                            "error_code": 5,
                            "partition_index": 0,
                            "leader_id": -1,
                            "replica_nodes": [1, 2],
                            "isr_nodes": [],
                        }
                    ],
                }
            ],
        },
    ),
    (
        8,
        "request",
        1,  # the commit timestamp of version 1
        (
            '0001 "g" 00000007 0001 "m" 00000001 0001 "t" 00000001 00000000 000000000000002a '
            "0000018bcfe56800 ffff"
        ),
        {
            "group_id": "g",
            "generation_id_or_member_epoch": 7,
            "member_id": "m",
            "topics": [
                {
                    "name": "t",
                    "partitions": [
                        {
                            "partition_index": 0,
                            "committed_offset": 42,
                            "commit_timestamp": 1_700_000_000_000,
                            "committed_metadata": None,
                        }
                    ],
                }
            ],
        },
    ),
    (10, "request", 0, '0001 "g"', {"key": "g"}),
    (10, "request", 4, '00 03 02 "a" 02 "b" 00', {"key_type": 0, "coordinator_keys": ["a", "b"]}),
    (12, "request", 0, '0001 "g" 00000005 0001 "m"', {"group_id": "g", "generation_id": 5, "member_id": "m"}),
    (12, "response", 4, "00000000 001b 00", {"throttle_time_ms": 0, "error_code": 27}),
    (17, "request", 0, '000d "SCRAM-SHA-256"', {"mechanism": "SCRAM-SHA-256"}),
    (
        18,
        "response",
        0,
        "0000 00000002 0000 0000 000d 0012 0000 0004",
        {
            "error_code": 0,
            "api_keys": [
                {"api_key": 0, "min_version": 0, "max_version": 13},
                {"api_key": 18, "min_version": 0, "max_version": 4},
            ],
        },
    ),
    (
        18,
        "response",
        3,  # finalized_features_epoch under tag 1, an unknown tag 9
        "0000 02 0012 0000 0004 00 00000000 02 01 08 0000000000000007 09 01 ff",
        {
            "error_code": 0,
            "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 4}],
            "throttle_time_ms": 0,
            "finalized_features_epoch": 7,
            UNKNOWN_TAGS: [(9, b"\xff")],
        },
    ),
    (
        75,
        "request",
        0,  # a nullable struct: 1 before it when it is there
        '02 02 "t" 00 00000064 01 02 "t" 00000003 00 00',
        {
            "topics": [{"name": "t"}],
            "response_partition_limit": 100,
            "cursor": {"topic_name": "t", "partition_index": 3},
        },
    ),
    (
        75,
        "request",
        0,  # and -1 when it is not
        "01 00000064 ff 00",
        {"topics": [], "response_partition_limit": 100, "cursor": None},
    ),
    (
        7,
        "response",
        0,
        '0000 00000001 0001 "t" 00000002',
        {"error_code": 0, "remaining_partitions": [{"topic_name": "t", "partition_index": 2}]},
    ),
]


def small_message(*lines: str, flexible: str = "1+") -> Message:
    """Return a message of versions 0 and 1 with these fields, in the language of the schema files."""
    (message,) = parse(
        "x.txt", "\n".join([f"X versions 0-1 flexible {flexible}", *(f"  {line}" for line in lines)])
    )
    assert isinstance(message, Message)
    return message
