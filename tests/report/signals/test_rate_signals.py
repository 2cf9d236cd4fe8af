"""Rates that change their level, and loads that only come and go."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from kdissect.protocol.error_codes import ErrorCode
from kdissect.report.model.findings import Severity
from kdissect.report.model.incidents import Signal
from tests.helpers.told_capture import T0_MS, Story
from tests.helpers.told_groups import analyzed, background, produce

MOMENT_MS = 14_000
Times = Iterable[int]


def pace(*spans: tuple[int, int, int]) -> list[int]:
    """Return times from a begin to an end, with a distance, for each span."""
    return [at_ms for begin, end, every in spans for at_ms in range(begin, end, every)]


def writers(times: list[Times], topics: Iterable[str] = ("orders",), error_since: int | None = None) -> Story:
    """Return a story of writers, each at its times."""
    story = Story()
    background(story)
    names = list(topics)
    for number, own in enumerate(times):
        line = story.connect(f"10.1.0.{20 + number}", client_id=f"writer-{number}")
        for at_ms in own:
            failed = error_since is not None and at_ms >= error_since
            error = ErrorCode.UNKNOWN_SERVER_ERROR if failed else 0
            produce(line, at_ms, topic=names[number % len(names)], error=error)
    return story


def changes(story: Story, tmp_path: Path) -> list[Signal]:
    kinds = ("rate_rose", "rate_fell", "errors_rose")
    return [one for one in analyzed(story, tmp_path).signals if one.kind in kinds]


@pytest.mark.parametrize(
    ("spans", "kind"),
    [
        (((100, MOMENT_MS, 200), (MOMENT_MS, 29_000, 30)), "rate_rose"),
        (((100, MOMENT_MS, 30), (MOMENT_MS, 29_000, 300)), "rate_fell"),
    ],
    ids=["more", "less"],
)
def test_a_client_whose_rate_changes_is_dated_within_a_second(
    spans: tuple[tuple[int, int, int], ...], kind: str, tmp_path: Path
) -> None:
    (signal,) = changes(writers([pace(*spans)]), tmp_path)
    assert (signal.kind, signal.subject.name) == (kind, "writer-0 at 10.1.0.20")
    assert abs(signal.begin_ns / 1e6 - T0_MS - MOMENT_MS) < 1_000
    assert signal.end_ns is None


def test_a_change_without_a_cause_is_told_as_a_note(tmp_path: Path) -> None:
    summary = analyzed(writers([pace((100, MOMENT_MS, 200), (MOMENT_MS, 29_000, 30))]), tmp_path)
    (incident,) = summary.incidents
    assert (incident.cause, incident.severity) == ("rate_changed", Severity.NOTE)
    assert incident.headline.startswith("writer-0 at 10.1.0.20 sends 3")


def test_errors_that_became_many_are_dated_to_their_rise(tmp_path: Path) -> None:
    times = pace((100, 29_000, 100))
    found = changes(writers([times], error_since=MOMENT_MS), tmp_path)
    assert found == []  # errors that begin are told by name: errors_repeated
    story = writers([times])
    line = story.connect("10.1.0.30", client_id="failing")
    for at_ms in pace((100, MOMENT_MS, 1_000), (MOMENT_MS, 29_000, 50)):
        produce(line, at_ms, error=ErrorCode.UNKNOWN_SERVER_ERROR)
    rises = [one for one in changes(story, tmp_path) if one.kind == "errors_rose"]
    assert [one.subject.name for one in rises] == ["failing at 10.1.0.30"]
    assert abs(rises[0].begin_ns / 1e6 - T0_MS - MOMENT_MS) < 1_000


def test_a_topic_that_several_clients_write_more_to(tmp_path: Path) -> None:
    """No client alone makes the change."""
    times = [pace((100 + 10 * n, MOMENT_MS, 600), (MOMENT_MS + 10 * n, 29_000, 150)) for n in range(4)]
    found = changes(writers(times, topics=["busy"]), tmp_path)
    assert ("topic", "busy") in {(one.subject.kind.value, one.subject.name) for one in found}


def comes_and_goes() -> Story:
    return writers([pace((10_000, 18_000, 20))])


def was_so_before() -> Story:
    return writers([pace((100, 8_000, 30), (8_000, 16_000, 400), (16_000, 29_000, 30))])


def is_scattered() -> Story:
    return writers([sorted(at_ms * 7919 % 29_000 for at_ms in range(400))])


@pytest.mark.parametrize("tell", [comes_and_goes, is_scattered], ids=lambda tell: tell.__name__)
def test_no_change(tell: Callable[[], Story], tmp_path: Path) -> None:
    assert changes(tell(), tmp_path) == []


def test_a_level_that_was_there_before_is_none_again(tmp_path: Path) -> None:
    assert [one.kind for one in changes(was_so_before(), tmp_path)] == ["rate_fell"]
