"""`replay.target.coordinators`, against a target on paper."""

from __future__ import annotations

import pytest

from kdissect.replay.effects import Answer
from kdissect.replay.handlers.replay_context import new_context
from kdissect.replay.load.analysis import load
from kdissect.replay.net.connection import Connection
from kdissect.replay.net.pool import ConnectionPool
from kdissect.replay.settings import Address
from kdissect.replay.target.coordinators import MOST_MOVES
from tests.helpers.paper_cluster import (
    ADD,
    Cluster,
    orders,
    transaction,
)
from tests.helpers.paper_target import MS, PaperTarget, Script, Tree, replay, settings, topology

OFFSETS, FIND, NOT_COORDINATOR, UNSTABLE = 9, 10, 16, 88


def test_who_waits_long_for_a_coordinator_asks_seldom() -> None:
    done = replay(transaction(1), Cluster(key24=[*[51] * 30, 0]), target=orders())
    times = [time for time, _, _ in done.sent(ADD)]
    assert done.buckets() == {"answered": 5}
    assert len(times) == 31
    assert times[-1] - times[0] >= (5 + 10 + 20 + 40 + 26 * 50) * MS


@pytest.mark.parametrize(("captured", "asked"), [(0, 3), (UNSTABLE, 1)])
def test_offsets_are_asked_for_until_the_transaction_that_commits_them_has_ended(
    captured: int, asked: int
) -> None:
    script, codes = Script(), [UNSTABLE, UNSTABLE, 0]

    def offsets(code: int) -> Tree:
        return {"groups": [{"group_id": "t-g", "topics": [], "error_code": code}]}

    def respond(key: int, version: int, body: Tree) -> Tree | None:
        return offsets(codes.pop(0)) if key == OFFSETS else Cluster()(key, version, body)

    group = {"group_id": "g", "member_id": None, "member_epoch": -1, "topics": None}
    script.add(0, OFFSETS, 9, {"groups": [group], "require_stable": True}, offsets(captured))
    done = replay(script, respond, target=orders())
    assert done.buckets() == {"answered": 1}
    assert len(done.sent(OFFSETS)) == asked


def test_a_coordinator_that_moves_all_the_time_is_not_followed_for_ever() -> None:
    """The attacker is a target that sends every question to another of its nodes."""
    moves = 0

    def respond(key: int, version: int, body: Tree) -> Tree:
        nonlocal moves
        if key == FIND:
            moves += 1
            found = {"error_code": 0, "error_message": None, "node_id": 1 + moves % 2}
            found |= {"key": "t-g", "host": "127.0.0.1", "port": 9092}
            return {"coordinators": [found]}
        return {"error_code": NOT_COORDINATOR}

    script, asked = Script(), settings()
    loaded = load(script.capture(), script.shelf, asked)
    paper, known = PaperTarget(respond), topology(leaders=2)
    pool = paper.board = ConnectionPool(asked, known, paper, lambda: "nonce")
    context = new_context(asked, loaded, known, lambda: paper.now_ns, script.shelf.get)
    body = {"group_id": "t-g", "generation_id": 1, "member_id": "m"}
    ends: list[Answer | None] = []
    pool.run(context.coordinators.ask(12, 4, body, None), "control", lambda answer, _: ends.append(answer))
    paper.run(None, 600_000 * MS, lambda: bool(ends))
    assert ends[0] is not None
    assert ends[0].first_error == NOT_COORDINATOR
    assert moves == MOST_MOVES + 1


def test_a_coordinator_out_of_reach_is_looked_for_again() -> None:
    """Node 2 refuses connections, and is named as coordinator until its cluster has noticed."""

    def respond(key: int, _version: int, _body: Tree) -> Tree:
        if key == FIND:
            node = 2 if paper.now_ns < 3_000 * MS else 1
            found = {"error_code": 0, "error_message": None, "node_id": node, "key": "t-g"}
            return {"coordinators": [found | {"host": "127.0.0.1", "port": 9091 + node}]}
        return {"error_code": 0}

    class HalfDead(PaperTarget):
        def connect(self, link: Connection, address: Address) -> None:
            self.refuse = link.node == 2
            super().connect(link, address)

    script, asked = Script(), settings()
    loaded = load(script.capture(), script.shelf, asked)
    paper, known = HalfDead(respond), topology(leaders=2)
    pool = paper.board = ConnectionPool(asked, known, paper, lambda: "nonce")
    context = new_context(asked, loaded, known, lambda: paper.now_ns, script.shelf.get)
    body = {"group_id": "t-g", "generation_id": 1, "member_id": "m"}
    ends: list[Answer | None] = []
    pool.run(context.coordinators.ask(12, 4, body, None), "control", lambda answer, _: ends.append(answer))
    paper.run(None, 600_000 * MS, lambda: bool(ends))
    assert ends[0] is not None
    assert (ends[0].frame is not None, ends[0].first_error) == (True, 0)
    assert 3_000 * MS <= paper.now_ns < 4_500 * MS
    assert pool.counters.refused < 10
