"""`replay.load.anchors`: the response that a client had seen last."""

from __future__ import annotations

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.load.analysis import load
from kdissect.replay.load.anchors import captured_anchors
from tests.helpers.paper_target import MS, Script, settings

ANSWER = {"brokers": [], "topics": []}


def test_each_connection_has_anchors_of_its_own() -> None:
    script = Script()
    for at_ms, connection, took_ms in ((0, 1, 5), (1, 2, 1), (5, 1, 1), (9, 2, 1), (9, 1, 30), (10, 1, 1)):
        script.add(at_ms, ApiKey.METADATA, 9, {"topics": []}, ANSWER, connection=connection, took_ms=took_ms)
    anchors, gaps_ns = captured_anchors(load(script.capture(), script.shelf, settings()).items)
    assert anchors.tolist() == [-1, -1, 0, 1, 2, 2]
    assert [gap / MS for gap in gaps_ns.tolist()] == [0, 0, 0, 7, 3, 4]


def test_of_two_responses_at_one_time_the_later_request_counts() -> None:
    script = Script()
    for at_ms, took_ms in ((0, 4), (2, 2), (4, 1)):
        script.add(at_ms, ApiKey.METADATA, 9, {"topics": []}, ANSWER, took_ms=took_ms)
    anchors, gaps_ns = captured_anchors(load(script.capture(), script.shelf, settings()).items)
    assert (anchors.tolist(), gaps_ns.tolist()) == ([-1, -1, 1], [0, 2 * MS, 0])


def test_a_request_without_an_answer_anchors_nothing() -> None:
    script = Script()
    for at_ms in (0, 3):
        script.add(at_ms, ApiKey.METADATA, 9, {"topics": []})
    anchors, gaps_ns = captured_anchors(load(script.capture(), script.shelf, settings()).items)
    assert (anchors.tolist(), gaps_ns.tolist()) == ([-1, -1], [0, 3 * MS])
