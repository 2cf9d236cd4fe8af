"""`replay.handlers.descriptions`: they do not overtake what they are about, however slow its connection."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import encode_response
from kdissect.protocol.error_codes import ErrorCode
from kdissect.replay.disposition import Disposition
from kdissect.replay.effects import Answer, Ask, Part, Pause
from kdissect.replay.handlers.descriptions import until_there
from kdissect.replay.net.connection import Connection
from tests.helpers.paper_cluster import INIT, Tree, issued, orders
from tests.helpers.paper_groups import CONSUMER_HEARTBEAT, FULL, ByHeartbeat
from tests.helpers.paper_target import MS, FarTarget, Script, play

NOT_FOUND = ErrorCode.GROUP_ID_NOT_FOUND
SLOW, OTHER = 1, 2  # captured connections


class Describing(ByHeartbeat):
    """A coordinator with nothing to say about what it is asked to describe."""

    def __call__(self, key: int, version: int, body: Tree) -> Tree | None:
        if key in (ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.DELETE_GROUPS):
            return {}
        return super().__call__(key, version, body)


def lag(connection: Connection) -> int:
    return 80 * MS if connection.owner == SLOW else MS


def arrived(script: Script) -> list[int]:
    """Replay a script as fast as the target answers; return the API keys in the order of their arrival."""
    done = play(script.capture(), script.shelf, FarTarget(Describing(), lag=lag), orders(), FULL)
    assert done.buckets() == {"answered": len(script.requests)}
    named = {INIT, CONSUMER_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.DESCRIBE_TRANSACTIONS}
    return [key for _, key, _, _ in done.target.asked if key in named]


@pytest.mark.parametrize("took_ms", [1, 90])
def test_a_group_is_described_after_the_members_that_were_in(took_ms: int) -> None:
    script = Script()
    beat = {"group_id": "g", "member_id": "m", "member_epoch": 0}
    told = {"error_code": 0, "member_id": "m", "member_epoch": 9, "heartbeat_interval_ms": 1}
    script.add(0, CONSUMER_HEARTBEAT, 1, beat, told, connection=SLOW, took_ms=took_ms)
    described = {"group_ids": ["g"], "include_authorized_operations": False}
    script.add(5, ApiKey.CONSUMER_GROUP_DESCRIBE, 1, described, {"groups": []}, connection=OTHER)
    came = arrived(script)[:2]
    joins_first = [CONSUMER_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE]
    assert came == (joins_first if took_ms < 5 else joins_first[::-1])


def test_a_group_is_deleted_after_its_members_have_left() -> None:
    script = Script()
    told = {"error_code": 0, "member_id": "m", "heartbeat_interval_ms": 1}
    for at_ms, epoch, answered in ((0, 0, 9), (3, -1, -1)):
        beat = {"group_id": "g", "member_id": "m", "member_epoch": epoch}
        script.add(at_ms, CONSUMER_HEARTBEAT, 1, beat, told | {"member_epoch": answered}, connection=SLOW)
    script.add(5, ApiKey.DELETE_GROUPS, 2, {"groups_names": ["g"]}, {"results": []}, connection=OTHER)
    asked = replace(FULL, allowed_apis=frozenset({ApiKey.DELETE_GROUPS}))
    done = play(script.capture(), script.shelf, FarTarget(Describing(), lag=lag), orders(), asked)
    keys = [key for _, key, _, _ in done.target.asked if key in (CONSUMER_HEARTBEAT, ApiKey.DELETE_GROUPS)]
    assert keys == [CONSUMER_HEARTBEAT, CONSUMER_HEARTBEAT, ApiKey.DELETE_GROUPS]


@pytest.mark.parametrize("took_ms", [1, 90])
def test_a_transaction_is_described_after_its_requests_that_were_answered(took_ms: int) -> None:
    script = Script()
    body = {"transactional_id": "bank", "transaction_timeout_ms": 60_000}
    script.add(0, INIT, 4, body, issued(900, 4), connection=SLOW, took_ms=took_ms)
    described = {"transactional_ids": ["bank", "unknown"]}
    script.add(5, ApiKey.DESCRIBE_TRANSACTIONS, 0, described, {}, connection=OTHER)
    begun_first = [INIT, ApiKey.DESCRIBE_TRANSACTIONS]
    assert arrived(script) == (begun_first if took_ms < 5 else begun_first[::-1])


def described(error: int) -> Answer:
    """Return an answer to a description of a group."""
    group = {"group_id": "t-g", "error_code": error}
    frame = encode_response(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, {"correlation_id": 1}, {"groups": [group]})
    return Answer(Part(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, {}), Disposition.ANSWERED, frame)


def test_a_group_whose_members_another_process_sends_is_described_when_the_target_knows_it() -> None:
    script = Script()
    for number in range(2):
        body = {"group_ids": ["g"], "include_authorized_operations": False}
        script.add(number, ApiKey.CONSUMER_GROUP_DESCRIBE, 1, body, {"groups": []}, connection=OTHER)
    done = play(script.capture(), script.shelf, FarTarget(Describing(), lag=lag), orders(), FULL)
    context, item, refused = done.context, done.loaded.items[1], described(NOT_FOUND)

    def run(answers: list[Answer]) -> tuple[list[object], list[Answer]]:
        effects, asking, reply = list[object](), until_there(context, item, [refused], [0]), None
        while True:
            try:
                effects.append(asking.send(reply))
            except StopIteration as stop:
                return effects, stop.value
            reply = [answers.pop(0)] if isinstance(effects[-1], Ask) else None

    assert run([]) == ([], [refused])  # all that it came after is sent here
    context.gates.limit_to(np.array([1]))
    good = described(0)
    effects, answers = run([described(NOT_FOUND), good])
    assert [type(each) for each in effects] == [Pause, Ask, Pause, Ask]
    assert answers == [good]
    item.error = NOT_FOUND  # as in the capture
    assert run([]) == ([], [refused])
