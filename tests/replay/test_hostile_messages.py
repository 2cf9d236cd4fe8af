"""A replay of hostile messages, to a hostile target, ends, accounts for every request, and raises nothing.

Requests, captured responses and responses of the target are random messages of the schema, whole or with some
bytes changed. The names and numbers in them are few, so that messages refer to each other.
"""

from random import Random
from typing import Any

import pytest

from kdissect.protocol.api_keys import ADMIN, DATA, GROUP_COMMITS, GROUP_MEMBERSHIP, READ, ApiKey
from kdissect.protocol.codec.messages import DecodeError, encode_response
from kdissect.protocol.records.batches import HEADER
from kdissect.protocol.schema.registry import APIS
from kdissect.replay.disposition import Disposition
from kdissect.replay.effects import Answer, Part
from kdissect.replay.handlers import HANDLERS
from kdissect.replay.net.throttle import throttle_of
from kdissect.replay.settings import Groups, Pace, Timestamps
from tests.helpers.kafka_python_records import record_set
from tests.helpers.paper_target import PaperTarget, Script, play, replay, settings, topology
from tests.helpers.random_messages import random_message

REPLAYED = sorted(READ | DATA | ADMIN | GROUP_MEMBERSHIP | GROUP_COMMITS)
NAMES = ("", "orders", "payments", "\udcff")
NUMBERS = (-1, 0, 1, 2, 3, 2**31 - 1, -(2**31))
Tree = dict[str, Any]


def narrowed(rng: Random, value: Any, name: str = "") -> Any:
    """Return a message with few different names and numbers, and most fields of errors without one."""
    if isinstance(value, dict):
        return {key: narrowed(rng, inner, key) for key, inner in value.items() if key != "_tags"}
    if isinstance(value, list):
        return [narrowed(rng, each, name) for each in value]
    if name.endswith("error_code") and rng.random() < 0.8:
        return 0
    if name == "throttle_time_ms":
        return rng.choice((0, 0, 50))
    if isinstance(value, bytes) and name == "records":
        return rng.choice((record_set(2, 0), record_set(1, 1), wild_batch(rng), value))
    if isinstance(value, str) and rng.random() < 0.8:
        return rng.choice(NAMES)
    if type(value) is int and abs(value) > 100 and rng.random() < 0.8:
        return rng.choice((0, 1, 2))
    return value


def wild_batch(rng: Random) -> bytes:
    """Return a batch with a header of extreme numbers, but its own size and magic."""
    batch = bytearray(record_set(2, 0))
    limits = (2**63 - 1, -(2**63), 0, -1)
    header = list(HEADER.unpack_from(batch))
    for index in (0, 7, 8, 9):
        header[index] = rng.choice(limits)
    header[10], header[11] = rng.choice((0, -1, 32767)), rng.choice((0, -1, 2**31 - 1))
    batch[: HEADER.size] = HEADER.pack(*header)
    return bytes(batch)


def hurt(rng: Random, data: bytes) -> bytes:
    """Return bytes of which some are changed, or the last ones missing."""
    wrong = bytearray(data)
    for _ in range(rng.choice((0, 1, 3))):
        if wrong:
            wrong[rng.randrange(len(wrong))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(wrong[: rng.randrange(len(wrong) + 1)] if rng.random() < 0.3 else wrong)


def _awake(answer: bytes, otherwise: bytes, key: int, version: int) -> bytes:
    """Return an answer, or another if it lets the client wait for days."""
    heard = Answer(Part(key, version, {}), Disposition.ANSWERED, bytes(4) + answer)
    return answer if throttle_of(heard) <= 50 else otherwise


class RandomTarget(PaperTarget):
    """Answers with random messages, some of them damaged."""

    rng: Random

    def take(self, link: Any, frame: bytes) -> None:
        """Answer at random, save for what opens a connection."""
        key = int.from_bytes(frame[:2], "big")
        version = int.from_bytes(frame[2:4], "big")
        if key == ApiKey.API_VERSIONS:
            return super().take(link, frame)
        acks_none = key == ApiKey.PRODUCE and self.rng.random() < 0.1
        body = narrowed(self.rng, random_message(self.rng, APIS[key].response, version))
        answer = encode_response(key, version, {"correlation_id": 0}, body)[4:]
        if self.rng.random() < 0.4:
            answer = _awake(hurt(self.rng, answer), answer, key, version)
        framed = (len(answer) + 4).to_bytes(4, "big") + frame[4:8] + answer
        if not acks_none:
            self.later(self.delay_ns, lambda: link.closed or link.received(framed, self.now_ns))
        return None


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("groups", list(Groups))
@pytest.mark.slow
def test_random_captures_and_random_targets(seed: int, groups: Groups) -> None:
    rng = Random(f"{seed} {groups}")
    script = Script(names={bytes(16): "orders", b"\1" * 16: "payments"})
    for number in range(60):
        key = rng.choice(REPLAYED)
        versions = APIS[key].live or APIS[key].versions
        version = rng.choice(versions)
        body = narrowed(rng, random_message(rng, APIS[key].request, version))
        answer = narrowed(rng, random_message(rng, APIS[key].response, version))
        script.add(
            number,
            key,
            version,
            body,
            answer if rng.random() < 0.8 else None,
            connection=rng.choice((1, 2, 3)),
        )
    target = RandomTarget(lambda *_: None)
    target.rng = rng
    asked = settings(
        groups=groups,
        pace=rng.choice(list(Pace)),
        timestamps=rng.choice(list(Timestamps)),
        allowed_apis=frozenset(ADMIN),
        allow_lossy=True,
        answer_deadline_s=1.0,
        dependency_deadline_s=1.0,
    )
    known = topology({"t-orders": 3, "t-payments": 2, "orders": 1}, leaders=2)
    done = play(
        script.capture(), script.shelf, target, known, asked, limit_s=3600.0, prepared=rng.random() < 0.5
    )
    assert sum(done.buckets().values()) == len(script.requests)


@pytest.mark.parametrize("wrong", [TypeError("a bug"), KeyError("a bug"), AttributeError("a bug")])
def test_a_mistake_in_a_handler_is_not_taken_for_hostile_bytes(
    monkeypatch: pytest.MonkeyPatch, wrong: Exception
) -> None:
    def broken(*_: Any) -> Any:
        raise wrong

    monkeypatch.setitem(HANDLERS, ApiKey.LIST_GROUPS, broken)
    script = Script()
    script.add(0, ApiKey.LIST_GROUPS, 3, {}, {"error_code": 0, "groups": []})
    with pytest.raises(type(wrong), match="a bug"):
        replay(script, lambda *_: None)


def test_a_response_that_a_handler_needs_and_that_cannot_be_decoded_is_said() -> None:
    """Version 2 of JoinGroup ends early: its member cannot go on, and its requests say so."""
    answer = Answer(Part(ApiKey.JOIN_GROUP, 2, {}), Disposition.ANSWERED, bytes(9))
    assert not answer.body
    assert answer.body.get("member_id") is None
    with pytest.raises(DecodeError, match="the response has no member_id"):
        answer.body["member_id"]
