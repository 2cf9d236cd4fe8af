"""`replay.target.discover`, against a target on paper."""

from __future__ import annotations

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.visitor import TOPIC_RESOURCE
from kdissect.replay.effects import Coroutine
from kdissect.replay.handlers.replay_context import ReplayContext, new_context
from kdissect.replay.load.analysis import load
from kdissect.replay.net.pool import ConnectionPool
from kdissect.replay.refused_sessions import LONGEST_SESSION, SHORTEST_SESSION
from kdissect.replay.settings import Groups
from tests.helpers.paper_cluster import orders
from tests.helpers.paper_metadata import (
    NEVER,
    TOPIC,
    Lagging,
    S,
    do,
    learn,
    nothing,
)
from tests.helpers.paper_order import begun, numbered
from tests.helpers.paper_target import (
    PaperTarget,
    Tree,
    settings,
)


def test_bounds_are_asked_again_while_a_leader_moves() -> None:
    script, asked = begun(), settings()
    numbered(script, b"a")
    loaded, known = load(script.capture(), script.shelf, asked), orders(2)
    codes = [78, 6]

    def respond(_key: int, _version: int, body: Tree) -> Tree:
        if "allow_auto_topic_creation" in body:
            return {"brokers": [{"node_id": 1, "host": "127.0.0.1", "port": 9092}], "topics": []}
        return {
            "topics": [
                {
                    "name": topic["name"],
                    "partitions": [
                        {
                            "partition_index": each["partition_index"],
                            "error_code": codes.pop() if codes else 0,
                            "offset": 7,
                        }
                        for each in topic["partitions"]
                    ],
                }
                for topic in body["topics"]
            ]
        }

    paper = PaperTarget(respond)
    paper.board = board = ConnectionPool(asked, known, paper, lambda: "nonce")
    context = new_context(asked, loaded, known, lambda: paper.now_ns, script.shelf.get)
    ended: list[object] = []
    board.run(context.discovery.learn_bounds(), "control", lambda *_: ended.append(1))
    paper.run(None, 10**10, lambda: bool(ended))
    places = [context.positions.translate(("orders", each), 1000).offset for each in range(4)]
    assert places == [7, 7, 7, 7]


@pytest.mark.parametrize("late", [1, 2])
@pytest.mark.parametrize("what", ["knows_ns", "leads_ns"])
def test_a_plan_waits_until_every_node_knows_the_leaders(what: str, late: int) -> None:
    paper = Lagging(nothing, **{what: {late: 3 * S, 3 - late: 0}})
    target, context = do(paper, learn)
    assert context.cluster.leader(TOPIC, 0) == 2
    assert target.unsettled == []
    assert 3 * S <= paper.now_ns < 4 * S


def test_a_topic_that_never_gets_its_leader_is_said_so_and_one_that_is_nowhere_is_missing() -> None:
    target, context = do(Lagging(nothing, leads_ns={1: NEVER, 2: NEVER}), learn)
    assert target.unsettled == [TOPIC]
    assert context.cluster.topics[TOPIC].leaders == {0: -1}
    paper = Lagging(nothing, knows_ns={1: NEVER, 2: NEVER})
    target, context = do(paper, learn)
    assert (target.unsettled, context.cluster.topics) == ([], {})
    assert paper.now_ns < S


@pytest.mark.parametrize(("partitions", "unsettled"), [(1, []), (2, [TOPIC])])
def test_partitions_that_no_node_knows_yet_are_waited_for(partitions: int, unsettled: list[str]) -> None:
    def wait(context: ReplayContext) -> Coroutine[list[str]]:
        yield from context.leaders.learn_topics([])
        return (yield from context.discovery.until_settled([TOPIC], {TOPIC: partitions}))

    found, _ = do(Lagging(nothing), wait)
    assert found == unsettled


def test_a_node_that_stays_behind_does_not_unmake_what_another_knows() -> None:
    target, context = do(Lagging(nothing, leads_ns={2: NEVER}), learn)
    assert target.unsettled == [TOPIC]
    assert context.cluster.leader(TOPIC, 0) == 2


def test_the_strictest_bounds_of_all_nodes_count_and_nobody_asks_without_members() -> None:
    shortest = {1: "6000", 2: "9000"}

    def respond(key: int, version: int, body: Tree) -> Tree:
        if key != ApiKey.DESCRIBE_CONFIGS:
            return nothing(key, version, body)
        (named,) = body["resources"]
        if named["resource_type"] == TOPIC_RESOURCE:
            return {"results": []}
        configs = [
            {"name": SHORTEST_SESSION, "value": shortest[int(named["resource_name"])]},
            {"name": LONGEST_SESSION, "value": None},
        ]
        told = {name: named[name] for name in ("resource_type", "resource_name")}
        return {"results": [told | {"error_code": 0, "configs": configs}]}

    target, _ = do(Lagging(respond), learn, groups=Groups.FULL)
    assert target.session_bounds == {SHORTEST_SESSION: 9000}
    target, _ = do(Lagging(respond), learn, groups=Groups.SIMPLE)
    assert target.session_bounds == {}
