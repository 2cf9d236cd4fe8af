"""A tree as lines: structs, arrays, words beside values, bytes, batches and faults."""

import pytest

from kdissect.dump.tree_text import BYTES_SHOWN, format_scalar, quote, tree_lines


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        (-1, "-1"),
        ('a"b\\c\x1b', r'"a\"b\\c\x1b"'),
        (b"text", '"text"'),
        (b"", '""'),
        (b"\x00\xff", "0x00ff"),
        ("\u00fc".encode(), '"\u00fc"'),
        (b"\x07" * (BYTES_SHOWN + 2000), f"0x{'07' * BYTES_SHOWN} … 2,000 bytes more"),
    ],
)
def test_one_value(value: object, shown: str) -> None:
    assert format_scalar(value) == shown


def test_quotes_are_escaped() -> None:
    assert quote('say "no"\n') == r'"say \"no\"\x0a"'


def test_structs_arrays_and_words() -> None:
    message = {
        "error_code": 3,
        "_error_code": "UNKNOWN_TOPIC_OR_PARTITION",
        "topics": [{"name": "orders", "partitions": [0, 1]}, {}],
        "states": [1, 2],
        "_states": ["one", None],
        "auth_bytes": None,
        "_auth_bytes": "redacted",
        "coordinator": {"host": "h"},
        "_tags": [[7, b"\x01"]],
        "_fault": "cut\x1b",
    }
    assert list(tree_lines(message)) == [
        "error_code: 3 (UNKNOWN_TOPIC_OR_PARTITION)",
        "topics",
        '  - name: "orders"',
        "    partitions: [0, 1]",
        "  - {}",
        "states: [1 (one), 2]",
        "auth_bytes: redacted",
        "coordinator",
        '  host: "h"',
        "unknown tagged fields: 7 = 0x01",
        "FAULT: cut\\x1b",
    ]


def test_bytes_that_hold_a_message_are_opened() -> None:
    message = {"metadata": b"\x00", "_metadata": {"topics": ["orders"], "_fault": "cut"}}
    assert list(tree_lines(message, 1)) == ["  metadata", '    topics: ["orders"]', "    FAULT: cut"]


def test_batches_are_one_line_each_and_records_stand_below() -> None:
    batch = {
        "base_offset": 5,
        "magic": 2,
        "record_count": 1,
        "_attributes": "lz4, create time",
        "producer_id": 9,
        "producer_epoch": 0,
        "base_sequence": 4,
        "partition_leader_epoch": 3,
        "max_timestamp": 1_777_636_800_123,
        "_crc": "wrong",
        "fault": "bad",
        "records": [{"offset": 5, "value": b"v"}],
    }
    message = {"offset": 4, "magic": 1, "_attributes": "none", "timestamp": -1}
    records = {"bytes": 2000, "batches": [batch, message, {"cut": "3 bytes of a batch"}]}
    assert list(tree_lines({"records": None, "_records": records})) == [
        "records: 2,000 bytes",
        (
            "  - magic 2, offset 5, 1 record, lz4, create time, producer 9 epoch 0 sequence 4, "
            "leader epoch 3, to 2026-05-01T12:00:00.123Z, WRONG CHECKSUM, FAULT: bad"
        ),
        "    - offset: 5",
        '      value: "v"',
        "  - magic 1, offset 4, none, to -1",
        "  - 3 bytes of a batch",
    ]
