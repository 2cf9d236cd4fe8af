"""Borders and headers of batches, against kafka-python's writer and the compiled summary."""

from random import Random

import pytest

from kdissect.protocol.records.batch_summary import RecordSetFault, summary_of
from kdissect.protocol.records.batches import (
    CODEC_NAMES,
    HEADER,
    HEADER_BYTES,
    BatchFrame,
    BatchHeader,
    claimed_records,
    first_offset,
    following_offset,
    read_header,
    rest_of_field,
    whole_batches,
)
from tests.helpers.kafka_python_records import FORMATS, RECORDS, record_set

NEWEST = max(record["timestamp"] for record in RECORDS)


@pytest.mark.parametrize("codec", sorted(CODEC_NAMES))
def test_what_a_header_says(codec: int) -> None:
    data = record_set(2, codec)
    header = read_header(b"\xff" * 7 + data, 7)
    assert (header.magic, header.codec, header.record_count) == (2, codec, len(RECORDS))
    assert header.batch_length == len(data) - 12
    assert (header.base_timestamp, header.max_timestamp) == (RECORDS[0]["timestamp"], NEWEST)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert HEADER.pack(*header) == data[:HEADER_BYTES]


@pytest.mark.parametrize(
    ("attributes", "flags"),
    [
        (0, (False, False, False)),
        (8, (True, False, False)),
        (16, (False, True, False)),
        (32, (False, False, True)),
    ],
)
def test_flags_of_a_header(attributes: int, flags: tuple[bool, bool, bool]) -> None:
    header = BatchHeader(*[0] * 5, *[attributes], *[0] * 7)
    assert (header.log_append_time, header.transactional, header.control) == flags


def test_formats_may_be_mixed() -> None:
    parts = [record_set(2, 4), record_set(1, 1), record_set(2, 0)]
    borders = [0, len(parts[0]), len(parts[0] + parts[1]), sum(map(len, parts))]
    assert list(whole_batches(b"".join(parts))) == [
        BatchFrame(start, stop, magic)
        for start, stop, magic in zip(borders, borders[1:], (2, 1, 2), strict=False)
    ]


def test_a_part_of_a_frame() -> None:
    one = record_set(2, 0)
    data = b"head" + one + one + b"tail"
    assert [frame.start for frame in whole_batches(data, 4, len(data) - 4)] == [4, 4 + len(one)]
    assert following_offset(data, 4, len(data) - 4) == 3


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_the_last_batch_may_be_cut_anywhere(magic: int, codec: int) -> None:
    one = record_set(magic, codec, RECORDS[:1])
    assert rest_of_field(one, len(one)) is None
    for size in range(1, len(one)):
        data = one + one[:size]
        assert list(whole_batches(data)) == [BatchFrame(0, len(one), magic)]
        rest = rest_of_field(data, len(one))
        assert rest is not None
        assert rest.is_cut
        assert rest.left == size


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (16, b"\x03", "magic 3 is not known"),
        (16, b"\xff", "magic 255 is not known"),
        (8, bytes(4), "length 0 is too small"),
        (8, b"\xff\xff\xff\xff", "length -1 is too small"),
        (8, b"\x00\x00\x00\x30", "length 48 is too small"),
    ],
)
def test_bytes_that_are_no_batch(at: int, value: bytes, reason: str) -> None:
    good = record_set(2, 0)
    bad = bytearray(good)
    bad[at : at + len(value)] = value
    data = good + bytes(bad)
    assert [frame.start for frame in whole_batches(data)] == [0]
    rest = rest_of_field(data, len(good))
    assert rest is not None
    assert (rest.is_cut, rest.reason) == (False, reason)


def test_offsets_at_both_ends() -> None:
    later = (1000).to_bytes(8) + record_set(2, 1)[8:]
    assert (first_offset(later), following_offset(later)) == (1000, 1003)
    assert following_offset(record_set(2, 0) + later) == 1003
    assert first_offset(later[:8]) == 1000  # of a batch that is cut
    assert following_offset(later[:-1]) is None
    assert first_offset(b"1234567") is following_offset(b"") is None
    assert following_offset(record_set(0, 0)) == 3


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_the_compiled_summary_agrees(magic: int, codec: int) -> None:
    rng = Random(magic * 8 + codec)
    for _ in range(300):
        data = bytearray(record_set(magic, codec) + record_set(2, 0) + record_set(magic, codec))
        for _ in range(rng.choice((0, 1, 1, 2))):
            data[rng.randrange(min(len(data), 80))] ^= 1 << rng.randrange(8)
        data = data[: rng.randrange(1, len(data) + 1)]
        summary, frames = summary_of(bytes(data)), list(whole_batches(data))
        if summary["fault"] in (RecordSetFault.NONE, RecordSetFault.MAGIC, RecordSetFault.LENGTH):
            assert len(frames) == summary["batches"]
        rest = rest_of_field(data, frames[-1].stop if frames else 0)
        if summary["fault"] in (RecordSetFault.MAGIC, RecordSetFault.LENGTH):
            assert rest is not None
            assert not rest.is_cut
            assert rest.start == summary["fault_position"]
        elif not summary["fault"]:
            assert (rest is not None) == bool(summary["cut"])
            if not summary["wrappers"]:
                assert claimed_records(data) == summary["records"]
        if frames and frames[0].magic == 2:
            header = read_header(data)
            named = ("codec", "base_offset", "producer_id", "producer_epoch", "base_sequence")
            if not summary["fault"]:
                assert {name: getattr(header, name) for name in named} == {
                    name: summary[name] for name in named
                }
