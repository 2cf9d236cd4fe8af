"""Refusals as signals: one for each client, kind and spell, with what was refused."""

from pathlib import Path

from kdissect.protocol.error_codes import ErrorCode
from tests.helpers.told_capture import Story
from tests.helpers.told_groups import analyzed, produce


def test_one_signal_has_all_topics_of_a_spell_and_two_spells_are_two_signals(tmp_path: Path) -> None:
    story = Story()
    line = story.connect("10.1.0.2", client_id="bad")
    for number, at_ms in enumerate((1_000, 2_000, 3_000, 60_000, 61_000)):
        produce(line, at_ms, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic=f"private-{number % 2}")
    found = [signal for signal in analyzed(story, tmp_path).signals if signal.kind == "right_missing"]
    assert [(signal.measures["count"], signal.topics) for signal in found] == [
        (3, ("private-0", "private-1")),
        (2, ("private-0", "private-1")),
    ]
    assert {signal.subject.name for signal in found} == {"bad at 10.1.0.2"}
    assert found[0].end_ns is not None
    assert found[1].end_ns is None


def test_a_quota_counts_what_clients_were_asked_to_wait(tmp_path: Path) -> None:
    story = Story()
    line = story.connect("10.1.0.2", client_id="greedy")
    for number in range(4):
        produce(line, 1_000 + 500 * number, throttle_ms=250)
    (signal,) = (one for one in analyzed(story, tmp_path).signals if one.kind == "quota_applied")
    assert (signal.measures["count"], signal.measures["waited_ms"], signal.wait_ns) == (4, 1000, 10**9)
