"""`replay.target.coordinators`, against a target on paper."""

from __future__ import annotations

from kdissect.replay.effects import Answer
from kdissect.replay.handlers.replay_context import new_context
from kdissect.replay.load.analysis import load
from kdissect.replay.net.pool import ConnectionPool
from kdissect.replay.target.coordinators import MOST_MOVES
from tests.helpers.paper_cluster import (
    ADD,
    Cluster,
    orders,
    transaction,
)
from tests.helpers.paper_target import MS, PaperTarget, Script, Tree, replay, settings, topology

FIND, NOT_COORDINATOR = 10, 16


def test_who_waits_long_for_a_coordinator_asks_seldom() -> None:
    done = replay(transaction(1), Cluster(key24=[*[51] * 30, 0]), target=orders())
    times = [time for time, _, _ in done.sent(ADD)]
    assert done.buckets() == {"answered": 5}
    assert len(times) == 31
    assert times[-1] - times[0] >= (5 + 10 + 20 + 40 + 26 * 50) * MS


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
