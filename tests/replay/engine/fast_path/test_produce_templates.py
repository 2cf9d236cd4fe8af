"""`replay.engine.fast_path.produce_templates`: bytes that are the same as those of the plain way."""

from __future__ import annotations

import pytest

from kdissect.replay.engine.fast_path.expected_answer import expected_answer
from kdissect.replay.engine.fast_path.produce_templates import (
    FilledProduce,
    ProduceTemplates,
    only_partition,
)
from kdissect.replay.engine.produce_frames import length_of
from kdissect.replay.rewrite.batch_rewrite import batch_of, rewritten
from tests.helpers.paper_cluster import batch

HEAD, CORRELATION = bytes.fromhex("0000 0009"), bytes.fromhex("01020304")
MIDDLE, TAIL = b"client, acks, topic and partition", bytes(3)
ANSWER = expected_answer(9, (("orders", (0,)),))


def frame_of(records: bytes, middle: bytes = MIDDLE, tail: bytes = TAIL, size: bytes = b"") -> bytes:
    return HEAD + CORRELATION + middle + (size or length_of(len(records), True)) + records + tail


def sent_of(records: bytes) -> FilledProduce:
    """Return what is sent of records, behind other bytes."""
    captured = batch_of(records)
    data = rewritten(captured, captured.producer_id, captured.producer_epoch, captured.base_sequence)
    front = HEAD + bytes(4) + b"another client and topic" + length_of(len(records), True)
    ready = (len(front) + len(data) + 3).to_bytes(4, "big") + front + data + TAIL
    return FilledProduce(ready, 4 + len(front), captured._replace(data=records[:61]))


def templates_of(records: bytes, frame: bytes) -> ProduceTemplates[str]:
    templates = ProduceTemplates[str]()
    templates.learn(7, frame, records, sent_of(records), ANSWER, lambda _template: "like this")
    return templates


def test_a_request_that_differs_in_its_records_only_is_made_of_the_bytes_of_an_earlier_one() -> None:
    templates = templates_of(batch(), frame_of(batch()))
    other = batch(sequence=3, records=40)
    assert len(other) != len(batch())
    found = templates.find(7, frame_of(other))
    assert found is not None
    template, value, begin, stop = found
    assert (value, frame_of(other)[begin:stop]) == ("like this", other)
    assert template.fill(other) == sent_of(other)
    assert templates.find(8, frame_of(other)) is None  # of another connection
    templates.forget()
    assert templates.find(7, frame_of(other)) is None


@pytest.mark.parametrize(
    "frame",
    [
        frame_of(batch(), middle=MIDDLE[::-1]),
        frame_of(batch(), tail=b"\x01\x00\x01\x05\x00\x00"),  # a tagged field
        frame_of(batch())[:-1],
        frame_of(batch()) + b"\x00",
        frame_of(batch(), size=b"\x80\x80\x00"),
        frame_of(b""),
        HEAD + CORRELATION + MIDDLE,
        HEAD,
        b"",
    ],
)
def test_a_frame_of_another_form_is_left_to_the_plain_way(frame: bytes) -> None:
    found = templates_of(batch(), frame_of(batch())).find(7, frame)
    assert found is None or found[0].fill(frame[found[2] : found[3]]) is None


def test_records_that_are_not_one_batch_are_left_to_the_plain_way() -> None:
    found = templates_of(batch(), frame_of(batch())).find(7, frame_of(batch()))
    assert found is not None
    template = found[0]
    for records in (batch() + batch(), batch()[:-1], b"", batch()[:16] + b"\x01" + batch()[17:]):
        assert template.fill(records) is None


def test_nothing_is_learnt_from_a_request_that_cannot_be_repeated() -> None:
    tagged = frame_of(batch(), tail=b"\x01\x00\x01\x05\x00\x00")
    assert templates_of(batch(), tagged).find(7, tagged) is None
    old = sent_of(batch())
    ready = old.ready[:6] + b"\x00\x03" + old.ready[8:]  # before zstd
    templates = ProduceTemplates[str]()
    templates.learn(7, frame_of(batch()), batch(), old._replace(ready=ready), ANSWER, lambda _template: "")
    assert templates.find(7, frame_of(batch())) is None


def test_a_request_to_several_partitions_has_no_records_of_its_own() -> None:
    one = {"name": "orders", "partition_data": [{"index": 3, "records": b"r"}]}
    assert only_partition([one]) == ("orders", 3, b"r")
    assert only_partition([one, one]) is None
    assert only_partition([one | {"partition_data": [{"index": 3, "records": None}]}]) is None
    assert only_partition([]) is None
