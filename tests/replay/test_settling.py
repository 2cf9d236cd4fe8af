"""Nodes that learn of topics and leaders later than others, on paper: nothing is planned or sent before all of them know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from kdissect.protocol.schema.registry import APIS
from kdissect.replay.create_topics import (
    CREATED,
    NOT_SETTLED,
    CreatedTopic,
    MissingTopic,
    create_topics,
)
from kdissect.replay.effects import Coroutine
from kdissect.replay.handlers.replay_context import ReplayContext, new_context
from kdissect.replay.load.analysis import load
from kdissect.replay.load.captured_cluster import CapturedCluster, CapturedTopic
from kdissect.replay.net.connection import Connection
from kdissect.replay.net.pool import ConnectionPool
from kdissect.replay.settings import Pace
from kdissect.replay.target.cluster import TargetCluster
from kdissect.replay.target.discover import LEADERLESS_S, TargetDescription
from tests.helpers.paper_target import MS, TARGET, OnPaper, PaperTarget, Script, Tree, play, settings
from tests.replay.test_courses import PRODUCE, Cluster, batch, produce, took

METADATA, CREATE_TOPICS, DESCRIBE_CLUSTER = 3, 19, 60
S = 1000 * MS
NEVER = 1 << 62
UNKNOWN_TOPIC, LEADER_NOT_AVAILABLE = 3, 5
TOPIC = "t-orders"


def nothing(_key: int, _version: int, _body: Tree) -> Tree:
    return {}


@dataclass(eq=False)
class Lagging(PaperTarget):
    """Two nodes; each knows of the topic, and of its leaders, from its own time on."""

    knows_ns: dict[int, int] = field(default_factory=dict)
    leads_ns: dict[int, int] = field(default_factory=dict)

    def answer(self, link: Connection, key: int, version: int, body: Tree) -> Tree | None:
        if key == CREATE_TOPICS:
            return {"topics": [{"name": each["name"], "error_code": 0} for each in body["topics"]]}
        if key == DESCRIBE_CLUSTER:
            return {"cluster_id": "target"}
        if key != METADATA:
            return self.respond(key, version, body)
        node = link.node or 1  # 0: the address that was given, before nodes are known
        named = [{"name": each["name"], "error_code": UNKNOWN_TOPIC} for each in body["topics"] or ()]
        if self.now_ns >= self.knows_ns.get(node, 0):
            leader = 2 if self.now_ns >= self.leads_ns.get(node, 0) else -1
            error = 0 if leader > 0 else LEADER_NOT_AVAILABLE
            part = {"partition_index": 0, "error_code": error, "leader_id": leader, "replica_nodes": [2]}
            for topic in named:
                topic |= {"error_code": 0, "topic_id": b"id".ljust(16), "partitions": [part]}
        nodes = [{"node_id": each, "host": TARGET[0], "port": TARGET[1] + each} for each in (1, 2)]
        return {"cluster_id": "target", "brokers": nodes, "topics": named}


def do(paper: Lagging, coroutine: Callable[[ReplayContext], Coroutine[Any]]) -> tuple[Any, ReplayContext]:
    """Run a coroutine of a capture that names one topic to its end."""
    script, asked = Script(), settings(known_target="target")
    loaded = load(script.capture(), script.shelf, asked)
    loaded.source = CapturedCluster(topics={"orders": CapturedTopic(1, 1)})
    known = TargetCluster(lambda _address: None, lambda _address: None)
    board = paper.board = ConnectionPool(asked, known, paper, lambda: "nonce")
    outcome: list[Any] = []
    context = new_context(asked, loaded, known, lambda: paper.now_ns, script.shelf.get)
    board.wake(0)
    board.run(coroutine(context), "control", lambda value, failed: outcome.append((value, failed)))
    paper.run(None, 60 * S, lambda: bool(outcome))
    value, failed = outcome[0]
    assert failed is None, failed
    return value, context


@pytest.mark.parametrize("late", [1, 2])
@pytest.mark.parametrize("what", ["knows_ns", "leads_ns"])
def test_a_plan_waits_until_every_node_knows_the_leaders(what: str, late: int) -> None:
    paper = Lagging(nothing, **{what: {late: 3 * S, 3 - late: 0}})
    target, context = do(paper, _learn)
    assert context.cluster.leader(TOPIC, 0) == 2
    assert target.unsettled == []
    assert 3 * S <= paper.now_ns < 4 * S


def test_a_topic_that_never_gets_its_leader_is_said_so_and_one_that_is_nowhere_is_missing() -> None:
    target, context = do(Lagging(nothing, leads_ns={1: NEVER, 2: NEVER}), _learn)
    assert target.unsettled == [TOPIC]
    assert context.cluster.topics[TOPIC].leaders == {0: -1}
    paper = Lagging(nothing, knows_ns={1: NEVER, 2: NEVER})
    target, context = do(paper, _learn)
    assert (target.unsettled, context.cluster.topics) == ([], {})
    assert paper.now_ns < S


def test_a_node_that_stays_behind_does_not_unmake_what_another_knows() -> None:
    target, context = do(Lagging(nothing, leads_ns={2: NEVER}), _learn)
    assert target.unsettled == [TOPIC]
    assert context.cluster.leader(TOPIC, 0) == 2


@pytest.mark.parametrize(("knows_ns", "outcome"), [(5 * S, CREATED), (NEVER, NOT_SETTLED)])
def test_preparing_ends_when_every_node_knows_what_was_created(knows_ns: int, outcome: str) -> None:
    paper = Lagging(nothing, knows_ns={1: 0, 2: knows_ns})

    def prepare(context: ReplayContext) -> Coroutine[list[CreatedTopic]]:
        yield from context.leaders.learn_topics([])
        return (yield from create_topics(context, [MissingTopic(TOPIC, 1, 1)]))

    made, _ = do(paper, prepare)
    assert [each.outcome for each in made] == [outcome]
    assert paper.now_ns >= min(knows_ns, LEADERLESS_S * S)


@pytest.mark.parametrize("acks", [0, 1])
@pytest.mark.parametrize("prepared", [False, True])
def test_what_is_produced_waits_for_a_leader(acks: int, prepared: bool) -> None:
    done = produced(acks, prepared, late(3 * S))
    assert done.buckets() == {"answered" if acks else "no answer due": 5}
    assert all(3 * S <= at < 5 * S for at, _, _ in done.sent(PRODUCE))


def test_a_leader_that_never_comes_is_waited_for_once() -> None:
    done = produced(1, False, late(NEVER))
    assert done.buckets() == {"dependency": 5}
    assert {each.reason for each in done.player.results} == {"t-orders-0 has no leader on the target"}
    assert done.target.now_ns < 50 * S


@dataclass(eq=False)
class Moving(Lagging):
    """Node 2 leads no longer, which it says to acks = 0 by closing, as brokers do; both nodes know it by then."""

    took: list[int] = field(default_factory=list)  # nodes that were sent batches

    def answer(self, link: Connection, key: int, version: int, body: Tree) -> Tree | None:
        if key == PRODUCE:
            self.took.append(link.node)
            if link.node == 2:
                self.later(MS, lambda: self.board and self.board.lost(link))
            return None
        answer = super().answer(link, key, version, body)
        if key == METADATA and answer is not None and self.now_ns:
            for part in (part for topic in answer["topics"] for part in topic["partitions"]):
                part["leader_id"] = 1
        return answer


@pytest.mark.parametrize("prepared", [False, True])
def test_who_is_told_nothing_but_a_closed_connection_looks_for_the_leader(prepared: bool) -> None:
    paper = Moving(nothing)
    done = produced(0, prepared, paper, apart_ms=200, pace=Pace.SCHEDULE)
    assert done.buckets() == {"no answer due": 5}
    assert paper.took == [2, 1, 1, 1, 1]
    assert done.context.notes.counts["metadata refreshed"] == 1


def late(leads_ns: int) -> Lagging:
    """Give nodes that know the leader from some time on."""
    return Lagging(Cluster(), leads_ns={1: leads_ns, 2: leads_ns})


def produced(acks: int, prepared: bool, paper: Lagging, apart_ms: int = 1, pace: Pace = Pace.ASAP) -> OnPaper:
    """Replay five batches into a topic that is known as the nodes know it in the beginning."""
    script = Script()
    for number in range(5):
        script.add(number * apart_ms, PRODUCE, 9, produce(batch(), acks=acks), took(0) if acks else None)
    known = TargetCluster(lambda _address: None, lambda _address: None, "target")
    asked = settings(pace=pace)
    body = paper.answer(Connection("", 1, TARGET, paper, 0), METADATA, 12, {"topics": [{"name": TOPIC}]})
    assert body is not None
    known.versions = {key: (api.live.start, api.live.stop - 1) for key, api in APIS.items()}
    known.learn_metadata(body, load(script.capture(), script.shelf, asked).names)
    return play(script.capture(), script.shelf, paper, known, asked, prepared=prepared)


def _learn(context: ReplayContext) -> Coroutine[TargetDescription]:
    return context.discovery.learn()
