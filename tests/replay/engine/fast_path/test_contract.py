"""The contract of the fast path: it sends the bytes that the handler of a request would send.

Every scenario is replayed twice on paper, once with all that can be prepared ahead and once without, and the
frames that the target gets on each captured connection are compared: all of them, in their order, byte for
byte.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

import pytest

from kdissect.protocol.api_keys import READ, ApiKey
from kdissect.protocol.schema.registry import APIS
from kdissect.replay.engine.fast_path import prepared_requests
from kdissect.replay.load.requests import Capture, read
from kdissect.replay.load.spool import Spool
from kdissect.replay.net.connection import Connection
from kdissect.replay.settings import Groups, ReplaySettings
from tests.bench.null_broker import topic_id
from tests.bench.replay_traffic import KINDS
from tests.helpers.paper_cluster import Cluster
from tests.helpers.paper_target import OnPaper, PaperTarget, Responder, Script, Tree, play, settings, topology
from tests.helpers.random_messages import random_message
from tests.helpers.recorded import CAPTURES

CORRELATION_ID = slice(8, 12)  # in a frame with its length
METADATA, FETCH = ApiKey.METADATA, ApiKey.FETCH
ANSWERED = {
    ApiKey.PRODUCE,
    ApiKey.FIND_COORDINATOR,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
}


@dataclass(eq=False)
class Recorder(PaperTarget):
    """Keeps what it gets on each connection, without correlation ids."""

    frames: dict[tuple[object, int], list[bytes]] = field(default_factory=lambda: defaultdict(list))

    def send(self, link: Connection, data: bytes) -> None:
        self.frames[link.owner, link.node].append(data[: CORRELATION_ID.start] + data[CORRELATION_ID.stop :])
        super().send(link, data)


class Willing(Cluster):
    """A target that takes everything, and answers what is no question about batches with empty responses."""

    def __call__(self, key: int, version: int, body: Tree) -> Tree | None:
        return super().__call__(key, version, body) if key in ANSWERED else {}


@contextmanager
def counted() -> Iterator[list[int]]:
    """Collect the requests that were prepared when their turn came."""
    found: list[int] = []
    take = prepared_requests.PreparedRequests.take

    def counting(self: prepared_requests.PreparedRequests, index: int) -> object:
        prepared = take(self, index)
        if prepared is not None:
            found.append(index)
        return prepared

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepared_requests.PreparedRequests, "take", counting)
        yield found


def both(
    capture: Callable[[], Capture],
    spool: Spool,
    respond: Callable[[], Responder],
    asked: ReplaySettings,
    topics: dict[str, int],
    leaders: int,
) -> tuple[OnPaper, int]:
    """Replay on both paths and compare the frames.

    Return one of the replays, and how many requests were prepared.
    """
    replays = []
    for prepared in (True, False):
        recorder = Recorder(respond(), delay_ns=0)  # or connections that are opened early would tell
        known = topology(topics, leaders)
        for name, topic in known.topics.items():
            known.topics[name] = topic._replace(identity=topic_id(name))
        with counted() as found:
            done = play(capture(), spool, recorder, known, asked, prepared=prepared)
        assert bool(found) == prepared
        replays.append((done, recorder, len(found)))
    (fast, fast_recorder, count), (slow, slow_recorder, _) = replays
    assert fast.buckets() == slow.buckets()
    assert fast_recorder.frames.keys() == slow_recorder.frames.keys()
    for connection, frames in slow_recorder.frames.items():
        assert fast_recorder.frames[connection] == frames, connection
    assert fast.context.notes.by_request == slow.context.notes.by_request
    return fast, count


@pytest.mark.parametrize("leaders", [1, 2])
@pytest.mark.parametrize("kind", ["mixed", "fetches", "transactions"])
def test_synthetic_traffic_is_the_same_bytes_on_both_paths(kind: str, leaders: int) -> None:
    script = KINDS[kind](200, 1, 4)
    topics = {f"t-topic-{number}": 6 for number in range(4)}
    _, count = both(script.capture, script.shelf, Willing, settings(groups=Groups.SIMPLE), topics, leaders)
    assert count > 90


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "topics"),
    [
        ("broker-restart.pcapng", {"orders": 6, "payments": 6}),
        ("transactions.pcapng", {"transfers": 6, "audit": 6, "booked": 6}),
        ("limping.pcapng", {"right": 6, "left": 6}),
    ],
)
def test_captured_traffic_is_the_same_bytes_on_both_paths(name: str, topics: dict[str, int]) -> None:
    spool = Spool()
    with tempfile.TemporaryDirectory() as scratch:
        capture = read([str(CAPTURES / name)], (), scratch, spool)
        known = {f"t-{topic}": count for topic, count in topics.items()}
        asked = settings(groups=Groups.SIMPLE, speed=20.0)
        _, count = both(lambda: capture, spool, Willing, asked, known, 2)
    assert count > 50
    spool.close()


def test_random_reads_of_every_api_are_the_same_bytes_on_both_paths() -> None:
    chance, script = Random(5), Script()
    keys = sorted({*(key for key in prepared_requests.READS), METADATA, FETCH} & APIS.keys())
    assert set(keys) <= {*READ, FETCH}
    for number, key in enumerate(keys * 6):
        version = chance.choice(list(APIS[key].live))
        body = random_message(chance, APIS[key].request, version, tame=True)
        script.add(number * 10, key, version, body, connection=number % 5)

    def respond(key: int, version: int, _body: Tree) -> Tree:
        return random_message(Random(key), APIS[key].response, version, tame=True) | _harmless(key, version)

    asked = settings(allow_lossy=True)
    _, count = both(script.capture, script.shelf, lambda: respond, asked, {"t-orders": 4}, 2)
    assert count > len(keys)


def _harmless(key: int, version: int) -> Tree:
    """Return fields of a response that keep a target usable: it does not throttle, and its nodes stay."""
    fields: Tree = {}
    message = APIS[key].response
    if any(each.name == "throttle_time_ms" and version in each.versions for each in message.fields):
        fields["throttle_time_ms"] = 0
    if key == METADATA:
        fields |= {"brokers": [], "topics": []}
    return fields
