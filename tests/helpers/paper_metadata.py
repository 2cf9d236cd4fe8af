"""Nodes on paper that learn of topics and leaders later than others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kdissect.protocol.schema.registry import APIS
from kdissect.replay.effects import Coroutine
from kdissect.replay.handlers.replay_context import ReplayContext, new_context
from kdissect.replay.load.analysis import load
from kdissect.replay.load.captured_cluster import CapturedCluster, CapturedTopic
from kdissect.replay.net.connection import Connection
from kdissect.replay.net.pool import ConnectionPool
from kdissect.replay.settings import Pace
from kdissect.replay.target.cluster import TargetCluster
from kdissect.replay.target.discover import TargetDescription
from tests.helpers.paper_cluster import PRODUCE, Cluster, batch, produce, took
from tests.helpers.paper_target import (
    MS,
    TARGET,
    Anywhere,
    OnPaper,
    PaperTarget,
    Script,
    Tree,
    play,
    settings,
)

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


def do(
    paper: Lagging, coroutine: Callable[[ReplayContext], Coroutine[Any]], **how: Any
) -> tuple[Any, ReplayContext]:
    """Run a coroutine of a capture that names one topic to its end."""
    script, asked = Script(), settings(known_target="target", **how)
    loaded = load(script.capture(), script.shelf, asked)
    loaded.source = CapturedCluster(topics={"orders": CapturedTopic(1, 1)})
    known = TargetCluster(Anywhere())
    board = paper.board = ConnectionPool(asked, known, paper, lambda: "nonce")
    outcome: list[Any] = []
    context = new_context(asked, loaded, known, lambda: paper.now_ns, script.shelf.get)
    board.wake(0)
    board.run(coroutine(context), "control", lambda value, failed: outcome.append((value, failed)))
    paper.run(None, 60 * S, lambda: bool(outcome))
    value, failed = outcome[0]
    assert failed is None, failed
    return value, context


@dataclass(eq=False)
class Moving(Lagging):
    """Node 2 leads no longer, which it says to acks = 0 by closing, as brokers do.

    Both nodes know it by then.
    """

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


def late(leads_ns: int) -> Lagging:
    """Return nodes that know the leader from some time on."""
    return Lagging(Cluster(), leads_ns={1: leads_ns, 2: leads_ns})


def produced(acks: int, prepared: bool, paper: Lagging, apart_ms: int = 1, pace: Pace = Pace.ASAP) -> OnPaper:
    """Replay five batches into a topic that is known as the nodes know it in the beginning."""
    script = Script()
    for number in range(5):
        script.add(number * apart_ms, PRODUCE, 9, produce(batch(), acks=acks), took(0) if acks else None)
    known = TargetCluster(Anywhere(), "target")
    asked = settings(pace=pace)
    body = paper.answer(Connection("", 1, TARGET, paper, 0), METADATA, 12, {"topics": [{"name": TOPIC}]})
    assert body is not None
    known.versions = {key: (api.live.start, api.live.stop - 1) for key, api in APIS.items()}
    known.learn_metadata(body, load(script.capture(), script.shelf, asked).names)
    return play(script.capture(), script.shelf, paper, known, asked, prepared=prepared)


def learn(context: ReplayContext) -> Coroutine[TargetDescription]:
    return context.discovery.learn()
