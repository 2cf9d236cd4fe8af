"""The words of a comparison."""

from __future__ import annotations

from typing import Any

import pytest

from kdissect.replay.engine.run_limits import CONNECTION_CAP, IN_FLIGHT_CAP, RATE_CAP
from kdissect.replay.net.connection import CONNECTING, THROTTLED
from kdissect.replay.results.glossary import (
    CAUSES,
    RULES,
    change_of,
    first_place,
    noise_note,
    pace_facts,
    used_rules,
)
from kdissect.replay.target.offsets import Rule


def test_every_cause_and_rule_has_a_meaning() -> None:
    engine = {IN_FLIGHT_CAP, CONNECTION_CAP, RATE_CAP, CONNECTING, THROTTLED}
    assert set(CAUSES) == {*engine, "on time", "self", "dependency"}
    assert set(RULES) == {rule.value for rule in Rule}


def test_only_rules_that_were_used_are_explained() -> None:
    assert used_rules({"a-0": {"identity": 3}, "a-1": {"produced": 1}}) == (
        "produced: after what this run wrote; identity: as captured"
    )
    assert used_rules({}) == ""


def test_a_pace_is_told_with_all_that_shapes_it() -> None:
    plain = {"pace": "think", "speed": 2.0}  # as runs have it that are older than the others
    assert pace_facts(plain) == pace_facts(plain | {"ramp_s": 0.0, "max_gap_s": None})
    assert pace_facts(plain) == ["pace think", "speed 2"]
    shaped = plain | {"ramp_s": 90.0, "max_gap_s": 0.0}
    assert pace_facts(shaped) == ["pace think", "speed 2", "ramp 90.0s", "pauses of at most 0ns"]


@pytest.mark.parametrize(
    ("error", "change"),
    [
        ({"kind": "same", "expected": True}, "same"),
        ({"kind": "new", "expected": False}, "new"),
        ({"kind": "new", "expected": True}, "new, of the cluster"),
        (
            {"kind": "new", "expected": True, "is_noise": True, "noise": 1200},
            "new, 1,200 in the noise run",
        ),
    ],
)
def test_a_change_says_whether_it_counts(error: dict[str, Any], change: str) -> None:
    assert change_of(error) == change


def test_a_place_is_found_again_by_since_and_by_pair() -> None:
    sample = {"captured_time_ns": 3_500_000_000, "connection": 7, "ordinal": 2, "where": ""}
    assert first_place({"sample": sample}, 1_000_000_000) == "+2.500s connection 7 #2"


def test_without_a_noise_run_there_is_no_note() -> None:
    assert noise_note({}) == ""
    assert noise_note({"noise": {"run": "b", "verdict": "pass"}}).startswith("Noise: run b (pass) ")
