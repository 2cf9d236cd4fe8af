"""The score counts a first line as right, a culprit as named and an onset as met by the truth alone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.lab.score import Line, Verdict, kept, page, recordings

TRUTH: dict[str, Any] = {
    "scenario": "broker-killed",
    "seed": 2,
    "healthy": False,
    "cause": "broker_killed",
    "names": ["10.1.0.3:9092"],
    "onset_ns": 5_000_000_000,
}
RIGHT = Line("broker_killed", "broker 3 (10.1.0.3:9092) died", 5_400_000_000)
OTHER = Line("refused_connections", "55 attempts refused by 10.1.0.3:9092", 6_000_000_000)


def test_first_line_with_the_cause_is_right() -> None:
    verdict = Verdict(TRUTH, (RIGHT, OTHER))
    assert (verdict.right, verdict.rank, verdict.culprit) == (True, 1, True)
    assert verdict.onset_error_s == pytest.approx(0.4)


def test_cause_behind_another_line_is_not_right() -> None:
    verdict = Verdict(TRUTH, (OTHER, RIGHT))
    assert (verdict.right, verdict.rank) == (False, 2)


def test_absent_cause_names_nobody() -> None:
    verdict = Verdict(TRUTH, (OTHER,))
    assert (verdict.right, verdict.rank, verdict.culprit, verdict.onset_error_s) == (False, None, False, None)


def test_other_broker_is_not_the_culprit() -> None:
    assert not Verdict(TRUTH, (Line("broker_killed", "broker 1 (10.1.0.1:9092) died", None),)).culprit


def test_accepted_cause_counts() -> None:
    assert Verdict({**TRUTH, "accepted": ["refused_connections"]}, (OTHER,)).right


def test_error_counts_as_the_cause_by_its_name() -> None:
    truth = {**TRUTH, "cause": "invalid_timestamp"}
    lines = [
        Line("errors_repeated", f"69 writes refused with {error}", None)
        for error in ("A", "INVALID_TIMESTAMP")
    ]
    assert not Verdict(truth, (lines[0],)).right
    assert Verdict(truth, (lines[1],)).right


def test_healthy_capture_is_right_if_the_report_is_quiet() -> None:
    healthy = {**TRUTH, "healthy": True, "cause": None}
    assert Verdict(healthy, ()).right
    assert not Verdict(healthy, (OTHER,)).right


def test_page_shows_the_seeds_apart() -> None:
    text = page([Verdict({**TRUTH, "seed": 4}, (OTHER, RIGHT)), Verdict({**TRUTH, "seed": 2}, (RIGHT,))])
    judged, tuned = text.split("## Tuned on")
    assert "0 of 1 first lines" in judged
    assert "1 of 1 first lines" in tuned
    assert "**refused_connections**" in judged
    assert "broker-killed-2" in tuned


def test_what_is_kept_is_what_is_right() -> None:
    verdicts = [Verdict(TRUTH, (RIGHT,)), Verdict({**TRUTH, "seed": 3}, (OTHER,))]
    assert kept(verdicts) == {"right": ["broker-killed-2"], "culprit": ["broker-killed-2"]}


def test_captures_without_truth_are_left_out(tmp_path: Any) -> None:
    for name in ("told-1.pcapng", "told-1.json", "lonely-1.pcapng", "score.json"):
        (tmp_path / name).write_text('{"seed": 1}')
    assert [capture.name for capture, _ in recordings([tmp_path])] == ["told-1.pcapng"]
