"""The plan of a capture for a broker that does nothing: every request is accounted for, with its reason."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from kdissect.exchanges.filter import ExchangeFilter
from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.engine.run import Replay
from kdissect.replay.plan import make_plan
from kdissect.replay.refused_sessions import SHORTEST_SESSION
from kdissect.replay.settings import Groups, ReplaySettings
from tests.helpers.null_target import null_target
from tests.helpers.recorded import CAPTURES


@pytest.fixture(scope="module")
def plans() -> dict[str, dict[str, Any]]:
    """Return plans of one capture by what was asked for."""
    asked: dict[str, dict[str, Any]] = {
        "all": {},
        "groups": {"groups": Groups.SIMPLE, "speed": 0.5},
        "one": {"filter": lambda _start_ns: ExchangeFilter(apis=frozenset({ApiKey.PRODUCE}))},
    }
    found = {}
    with null_target() as address:
        target = ("127.0.0.1", int(address.rpartition(":")[2]))
        for name, how in asked.items():
            with closing(
                Replay(ReplaySettings(target=(target,), **how), [str(CAPTURES / "transactions.pcapng")])
            ) as replay:
                replay.learn()
                found[name] = make_plan(replay)
    return found


@pytest.mark.slow
def test_every_captured_request_is_sent_or_skipped(plans: dict[str, dict[str, Any]]) -> None:
    for plan in plans.values():
        accounting = plan["accounting"]
        assert (
            accounting["captured"]
            == accounting["sent"] + accounting["skipped"]
            == plan["capture"]["requests"]
        )
        assert sum(each["requests"] for each in plan["skipped"]) == accounting["skipped"]
        assert sum(counts.get("sent", 0) for counts in plan["apis"].values()) == accounting["sent"]
        assert plan["accounting"]["sent_as"] == {"would be sent": accounting["sent"]}


def test_a_filter_is_a_reason(plans: dict[str, dict[str, Any]]) -> None:
    assert {name for name, counts in plans["one"]["apis"].items() if counts.get("sent")} == {"Produce"}
    assert "excluded by --api" in {each["reason"] for each in plans["one"]["skipped"]}


def test_names_topics_and_load_are_described(plans: dict[str, dict[str, Any]]) -> None:
    plan = plans["groups"]
    assert plan["names"]["topics"]["transfers"] == "replay-transfers"
    assert {topic["topic"] for topic in plan["topics"]} >= {"transfers", "audit"}
    assert plan["load"]["duration_s"] == pytest.approx(2 * plans["all"]["load"]["duration_s"], rel=0.2)
    assert sum(plan["load"]["processes"]) == plan["capture"]["requests"] - sum(
        each["requests"] for each in plan["skipped"] if each["bucket"] == "policy"
    )
    assert any(note.startswith("fetches wait 1/0.5") for note in plan["timers"])
    assert plans["all"]["timers"] == []


def test_what_the_operator_should_know_is_said(plans: dict[str, dict[str, Any]]) -> None:
    assert "consumer groups are not replayed (--groups simple or full)" in plans["all"]["warnings"]
    assert not any("consumer groups" in line for line in plans["groups"]["warnings"])


@pytest.mark.parametrize(("shortest_ms", "refused_ms"), [(6000, "2,000"), (2000, "")])
def test_sessions_that_the_target_refuses_come_first_of_the_warnings(
    shortest_ms: int, refused_ms: str
) -> None:
    with null_target() as address:
        target = ("127.0.0.1", int(address.rpartition(":")[2]))
        settings = ReplaySettings(target=(target,), groups=Groups.FULL)
        with closing(Replay(settings, [str(CAPTURES / "expired.pcapng")])) as replay:
            replay.learn()
            replay.target.session_bounds = {SHORTEST_SESSION: shortest_ms}
            plan = make_plan(replay)
    setting = f"its {SHORTEST_SESSION} is {shortest_ms:,}"
    named = [f"the target refuses sessions of {refused_ms} ms ({setting})"] if refused_ms else []
    assert plan["target"]["refused_sessions"] == named
    assert [each for each in plan["warnings"] if "refuses sessions" in each] == named
    assert plan["warnings"][: len(named)] == named


@pytest.mark.slow
def test_a_topic_that_access_rights_hide_may_be_there() -> None:
    with null_target() as address:
        target = ("127.0.0.1", int(address.rpartition(":")[2]))
        with closing(
            Replay(ReplaySettings(target=(target,)), [str(CAPTURES / "transactions.pcapng")])
        ) as replay:
            replay.learn()
            names = "replay-transfers", "replay-audit"
            for name in names:
                del replay.cluster.topics[name]
            replay.cluster.hidden.add(names[0])
            plan = make_plan(replay)
    differences = {topic["target"]: topic["differences"] for topic in plan["topics"]}
    assert [differences[name] for name in names] == [["missing, or hidden from this login"], ["missing"]]
    assert "access rights of the target hide 1 topic from this login: it may be there" in plan["warnings"]
