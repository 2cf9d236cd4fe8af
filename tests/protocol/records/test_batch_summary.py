"""Summaries of record sets that kafka-python made: whole, mixed, cut and changed."""

from random import Random

import numpy as np
import pytest

from kdissect.protocol.records import batch_summary as record_sets
from kdissect.protocol.records.batch_summary import (
    FAULT_TEXTS,
    SUMMARY,
    WIDTH,
    RecordSetFault,
    summarise,
    summary_of,
)
from tests.helpers.kafka_python_records import FORMATS, RECORDS, record_set


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_whole_sets(magic: int, codec: int) -> None:
    summary = summary_of(record_set(magic, codec))
    wrapped = bool(magic < 2 and codec)
    assert summary["records"] == (0 if wrapped else 3)
    assert summary["wrappers"] == int(wrapped)
    assert summary["batches"] == (1 if wrapped or magic == 2 else 3)
    assert (summary["magic"], summary["codec"], summary["base_offset"]) == (magic, codec, 0)
    newest = max(record["timestamp"] for record in RECORDS)
    if not wrapped:
        assert summary["max_timestamp_ms"] == (newest if magic else -1)
    assert (summary["cut"], summary["fault"], summary["fault_position"]) == (0, 0, -1)


def test_formats_may_be_mixed() -> None:
    summary = summary_of(record_set(1, 0) + record_set(2, 4) + record_set(0, 0))
    assert (summary["records"], summary["batches"], summary["magic"], summary["codec"]) == (9, 7, 1, 0)


def test_nothing() -> None:
    nothing = {**dict.fromkeys(SUMMARY, 0), "codec": -1, "magic": -1, "base_offset": -1, "fault_position": -1}
    nothing |= dict.fromkeys(("producer_id", "producer_epoch", "base_sequence", "max_timestamp_ms"), -1)
    assert summary_of(b"") == nothing


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_the_last_batch_may_be_cut_anywhere(magic: int, codec: int) -> None:
    one = record_set(magic, codec, RECORDS[:1])
    for size in range(1, len(one)):
        summary = summary_of(one + one[:size])
        assert (summary["batches"], summary["cut"], summary["fault"]) == (1, 1, 0)


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_lost_end_still_counts_by_its_header(magic: int) -> None:
    data = record_set(magic, 0, RECORDS[1:2])
    summary = np.zeros(WIDTH, np.int64)
    seen = 61 if magic == 2 else 26
    summarise(np.frombuffer(data[:seen], np.uint8), 0, seen, len(data), summary)
    found = dict(zip(SUMMARY, summary.tolist(), strict=True))
    assert (found["records"], found["batches"], found["magic"], found["fault"]) == (1, 1, magic, 0)


def test_producers_and_control_batches() -> None:
    data = bytearray(record_set(2, 0))
    data[21:23] = (0x30).to_bytes(2)  # transactional, control
    data[43:57] = (77).to_bytes(8) + (3).to_bytes(2) + (40).to_bytes(4)
    summary = summary_of(bytes(data))
    assert (summary["producer_id"], summary["producer_epoch"], summary["base_sequence"]) == (77, 3, 40)
    assert (summary["control_batches"], summary["transactional_batches"]) == (1, 1)


BAD = {
    RecordSetFault.MAGIC: (2, 16, b"\3"),
    RecordSetFault.LENGTH: (2, 8, (48).to_bytes(4)),
    RecordSetFault.CODEC: (2, 22, b"\5"),
    RecordSetFault.COUNT: (2, 57, (1 << 20).to_bytes(4)),
    RecordSetFault.FILL: (1, 26, (1 << 20).to_bytes(4)),
}


@pytest.mark.parametrize(("fault", "change"), BAD.items(), ids=str)
def test_faults(fault: RecordSetFault, change: tuple[int, int, bytes]) -> None:
    magic, at, raw = change
    first = record_set(2, 0)
    data = bytearray(record_set(magic, 0))
    data[at : at + len(raw)] = raw
    summary = summary_of(first + data + first)
    assert (summary["fault"], summary["fault_position"]) == (fault, len(first))
    assert (summary["records"], summary["batches"]) == (3, 1)
    assert fault in FAULT_TEXTS


def test_negative_lengths_and_counts() -> None:
    for magic, at in ((2, 8), (1, 8), (0, 8), (2, 57)):
        data = bytearray(record_set(magic, 0))
        data[at : at + 4] = b"\xff\xff\xff\xfe"
        assert summary_of(bytes(data))["fault"] in (RecordSetFault.LENGTH, RecordSetFault.COUNT)


def test_random_changes_end_in_numbers() -> None:
    rng = Random(4)
    for magic, codec in FORMATS:
        good = record_set(magic, codec) * 2
        for _ in range(60):
            data = bytearray(good)
            data[rng.randrange(len(data))] = rng.choice((0, 0x7F, 0x80, 0xFF))
            summary = summary_of(bytes(data[: rng.randrange(len(data) + 1)]))
            assert 0 <= summary["batches"] <= 6
            assert summary["fault"] in set(RecordSetFault)


def test_the_numbers_in_the_kernel_are_those_of_the_enum() -> None:
    numbers = [record_sets.NO_FAULT, record_sets.BAD_MAGIC, record_sets.BAD_LENGTH, record_sets.BAD_CODEC]
    numbers += [record_sets.BAD_COUNT, record_sets.BAD_FILL]
    assert numbers == list(RecordSetFault)[: len(numbers)]
    assert FAULT_TEXTS.keys() == set(RecordSetFault) - {RecordSetFault.NONE}
