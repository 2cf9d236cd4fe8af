"""Answers of a broker to requests as they were captured, and to their replays.

Row by row of docs/replay-semantics.md.

Every captured request here is written by hand and holds what another cluster gave out. It goes to the brokers
twice: its bytes as they are, for the failure that copying brings about, and through a replay, which must not
have it.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import crc32c
import pytest
from kafka.record import MemoryRecordsBuilder

from kdissect.exchanges.filter import errors_of
from kdissect.protocol.codec.messages import (
    decode_response,
    encode_embedded,
    encode_request,
)
from kdissect.protocol.error_codes import error_name
from kdissect.protocol.schema.definition import (
    Field,
    Message,
    fields_at,
)
from kdissect.protocol.schema.registry import APIS
from kdissect.replay.engine import player, run
from kdissect.replay.settings import Groups, Timestamps
from tests.helpers.paper_cluster import batch, issued, produce, took
from tests.helpers.paper_target import Script, Tree
from tests.helpers.tiers import thorough_after
from tests.lab.broker_requests import view
from tests.replay.conftest import SecuredCluster
from tests.replay.play import Played, play, settings

pytestmark = pytest.mark.broker

PRODUCE, FETCH, LIST_OFFSETS, METADATA, COMMIT, COMMITTED, COORDINATOR, JOIN, HEARTBEAT, SYNC = (
    0,
    1,
    2,
    3,
    8,
    9,
    10,
    11,
    12,
    14,
)
INIT, EPOCHS, ADD, END, MARKERS, MEMBER, SHARE_MEMBER, SHARE_FETCH = 22, 23, 24, 26, 27, 68, 76, 78
TOPIC, FOREIGN = "meant", b"o" * 16  # a topic's id on the captured cluster
CLOSED = "closed"


class Connection:
    """One connection to a broker, on which bytes go out as they are.

    Answers are read in order, as every client does.
    """

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 10)
        self._files = self._socket.makefile("rb")
        self._count = 0

    def send(self, key: int, version: int, body: Tree, client_id: str = "client") -> None:
        self._count += 1
        header = {
            "request_api_key": key,
            "request_api_version": version,
            "correlation_id": self._count,
            "client_id": client_id,
        }
        frame = encode_request(header, pruned(APIS[key].request, version, body))
        self._socket.sendall(len(frame).to_bytes(4, "big") + frame)

    def receive(self) -> bytes | None:
        """Return a frame; None if the broker has closed."""
        try:
            size = self._files.read(4)
            return self._files.read(int.from_bytes(size, "big")) if size else None
        except ConnectionResetError:
            return None

    def ask(self, key: int, version: int, body: Tree, client_id: str = "client") -> Tree | None:
        self.send(key, version, body, client_id)
        frame = self.receive()
        if frame is None:
            return None
        found = decode_response(frame, key, version)
        assert found.body is not None, found.fault
        return found.body

    def close(self) -> None:
        self._files.close()
        self._socket.close()


class World:
    """The target, as rows need it."""

    def __init__(self, cluster: SecuredCluster, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.cluster, self._folder, self._patch = cluster, folder, patch
        self._open: list[Connection] = []
        self._runs = 0
        seen = view(cluster.client_ports[0])
        assert seen is not None
        self.ports = {node: seen.brokers[node] for node in sorted(seen.brokers)}
        self.leaders = {number: each.leader for number, each in seen.topics[TOPIC].items()}

    def connection(self, port: int = 0) -> Connection:
        """Connect: to the leader of the first partition, if nothing else is said."""
        made = Connection(port or self.ports[self.leaders[0]])
        self._open.append(made)
        return made

    def close(self) -> None:
        for each in self._open:
            each.close()

    def coordinator(self, key: str, kind: int = 0) -> Connection:
        """Connect to the coordinator of a group (0) or a transactional id (1)."""
        asking = self.connection()
        for _ in range(100):
            said = asking.ask(COORDINATOR, 1, {"key": key, "key_type": kind})
            assert said is not None
            if not said["error_code"]:
                return self.connection(said["port"])
            time.sleep(0.1)
        raise TimeoutError(f"no coordinator of {key}")

    def replay(
        self, requests: list[Captured], prefix: str = "", client_id: str = "client", **more: Any
    ) -> Played:
        """Replay requests of one captured connection; names stay as they are."""

        def read(_paths: object, _ports: object, _spool: object, shelf: Any, *_more: object) -> Any:
            script = Script(shelf, names={FOREIGN: TOPIC})
            for number, (key, version, body, answer) in enumerate(requests):
                said = None if answer is None else pruned(APIS[key].response, version, answer)
                body = pruned(APIS[key].request, version, body)
                script.add(number, key, version, body, said, client_id=client_id)
            return script.capture()

        self._patch.setattr(run, "read", read)
        known = self.connection().ask(METADATA, 2, {"topics": []})
        assert known is not None
        asked = settings(
            self.cluster, prefix, known_target=known["cluster_id"], answer_deadline_s=15.0, **more
        )
        self._runs += 1
        return play(asked, "by hand", self._folder / f"run-{self._runs}")


class Captured(NamedTuple):
    """A request and the answer that the captured cluster gave."""

    key: int
    version: int
    body: Tree
    answer: Tree | None = None


@pytest.fixture(scope="module")
def _topic(target: SecuredCluster) -> None:
    target.create_topic(TOPIC, 2, 2, {"retention.ms": "-1"})


@pytest.fixture
def world(
    target: SecuredCluster, _topic: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    made = World(target, tmp_path, monkeypatch)
    yield made
    made.close()


def pruned(owner: Message | Field, version: int, tree: Tree) -> Tree:
    """Leave out what a version does not have, so that one body can be sent in all of them."""
    known = {field.name: field for field in fields_at(owner, version)}
    return {
        name: [pruned(known[name], version, each) for each in value]
        if isinstance(value, list) and value and isinstance(value[0], dict)
        else value
        for name, value in tree.items()
        if name in known
    }


def said_by(key: int, version: int, body: Tree | None) -> set[str]:
    """Name the errors of an answer."""
    if body is None:
        return {CLOSED}
    return {error_name(code) for code in errors_of(key, version, body) if code} - {"NONE"}


def replayed(played: Played) -> set[str]:
    """Name the errors that a replay's answers ended with."""
    return {
        error_name(each["error"])
        for pair in played.pairs
        for answer in pair["answers"]
        for each in answer["digest"]
        if each["error"]
    }


# Contents of fetches and other requests


def fetch(
    where: Tree | None = None, session: tuple[int, int] = (0, -1), topic: bytes = b"", **more: Any
) -> Tree:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20} | (where or {})
    named = {"topic_id": topic} if topic else {"topic": TOPIC}
    body = {"max_wait_ms": 100, "min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": 0, "rack_id": ""}
    topics = [named | {"partitions": [partition]}]
    return (
        body
        | {
            "session_id": session[0],
            "session_epoch": session[1],
            "topics": topics,
            "forgotten_topics_data": [],
        }
        | more
    )


def fetched(session: int = 0, start: int = 0, records: bytes = b"") -> Tree:
    partition = {
        "partition_index": 0,
        "error_code": 0,
        "high_watermark": start + 5,
        "last_stable_offset": start + 5,
        "log_start_offset": start,
        "records": records,
    }
    named = {"topic": TOPIC, "topic_id": FOREIGN, "partitions": [partition]}
    return {"error_code": 0, "session_id": session, "responses": [named]}


def commit(group: str, generation: int = -1, member: str = "", epoch: int = -1) -> Tree:
    partition = {
        "partition_index": 0,
        "committed_offset": 0,
        "committed_leader_epoch": epoch,
        "committed_metadata": "",
    }
    return {
        "group_id": group,
        "generation_id_or_member_epoch": generation,
        "member_id": member,
        "topics": [{"name": TOPIC, "partitions": [partition]}],
    }


COMMIT_TAKEN = {"topics": [{"name": TOPIC, "partitions": [{"partition_index": 0, "error_code": 0}]}]}


def member(group: str, epoch: int) -> Tree:
    body = {
        "group_id": group,
        "member_id": "EVwWWo5MTUaHsWDyv26xqg",
        "member_epoch": epoch,
        "rebalance_timeout_ms": 60_000,
    }
    return body | (
        {"subscribed_topic_names": [TOPIC], "topic_partitions": []}
        if epoch == 0
        else {"rebalance_timeout_ms": -1}
    )


def heard(epoch: int) -> Tree:
    return {
        "error_code": 0,
        "member_id": "EVwWWo5MTUaHsWDyv26xqg",
        "member_epoch": epoch,
        "heartbeat_interval_ms": 5000,
    }


def records(magic: int = 2, timestamp_ms: int = 7, value: bytes = b"v") -> bytes:
    builder = MemoryRecordsBuilder(magic=magic, compression_type=0, batch_size=1 << 16)
    builder.append(timestamp=timestamp_ms, key=None, value=value)
    builder.close()
    return bytes(builder.buffer())


def written(*data: bytes) -> Tree:
    return produce(*data, topic=TOPIC)


def by_id(body: Tree) -> Tree:
    return body | {
        "topic_data": [
            {"topic_id": FOREIGN, "partition_data": each["partition_data"]} for each in body["topic_data"]
        ]
    }


def init(transaction: str | None, producer: int = -1, epoch: int = -1) -> Tree:
    return {
        "transactional_id": transaction,
        "transaction_timeout_ms": 60_000,
        "producer_id": producer,
        "producer_epoch": epoch,
    }


def questions(**more: int) -> Tree:
    partition = {"partition_index": 0, "timestamp": -1} | more
    return {"replica_id": -1, "isolation_level": 0, "topics": [{"name": TOPIC, "partitions": [partition]}]}


LATER_MS = 2 * 3_600_000


class Row(NamedTuple):
    """Captured request, and the error of copying it."""

    requests: Callable[[], list[Captured]]
    error: str
    more: dict[str, Any] = {}  # noqa: RUF012 - settings of the replay


LOUD = {
    "leaders": Row(
        lambda: [Captured(PRODUCE, 9, written(records(), records()), took(0, 0))], "NOT_LEADER_OR_FOLLOWER"
    ),
    "coordinators": Row(
        lambda: [Captured(COMMIT, 8, commit("nobody"), COMMIT_TAKEN)],
        "NOT_COORDINATOR",
        {"groups": Groups.SIMPLE},
    ),
    "topic ids to read": Row(
        lambda: [Captured(FETCH, 13, fetch(topic=FOREIGN), fetched())], "UNKNOWN_TOPIC_ID"
    ),
    "topic ids to write": Row(lambda: [Captured(PRODUCE, 13, by_id(written(records())))], "UNKNOWN_TOPIC_ID"),
    "leader epochs ahead": Row(
        lambda: [Captured(FETCH, 12, fetch({"current_leader_epoch": 99}), fetched())], "UNKNOWN_LEADER_EPOCH"
    ),
    "leader epochs of questions": Row(
        lambda: [Captured(LIST_OFFSETS, 7, questions(current_leader_epoch=99))], "UNKNOWN_LEADER_EPOCH"
    ),
    "epochs of records": Row(
        lambda: [Captured(FETCH, 12, fetch({"last_fetched_epoch": 99}), fetched())], "OFFSET_OUT_OF_RANGE"
    ),
    "fetch sessions": Row(
        lambda: [
            Captured(FETCH, 12, fetch(session=(0, 0)), fetched(77)),
            Captured(FETCH, 12, fetch(session=(77, 1)), fetched(77)),
        ],
        "FETCH_SESSION_ID_NOT_FOUND",
    ),
    "positions": Row(
        lambda: [Captured(FETCH, 12, fetch({"fetch_offset": 10**6}), fetched(start=10**6))],
        "OFFSET_OUT_OF_RANGE",
    ),
    "sequences": Row(
        lambda: (
            [Captured(INIT, 4, init(None), issued(900, 4))]
            + [Captured(PRODUCE, 9, written(batch(number)), took(0)) for number in (17, 19)]
        ),
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
    ),
    "one batch": Row(
        lambda: [Captured(PRODUCE, 9, written(records() + records()), took(0))], "INVALID_RECORD"
    ),
    "message sets": Row(lambda: [Captured(PRODUCE, 2, written(records(magic=1)), took(0))], CLOSED),
    "versions of Fetch": Row(lambda: [Captured(FETCH, 3, fetch(), fetched())], CLOSED),
    "versions of OffsetCommit": Row(
        lambda: [Captured(COMMIT, 1, commit("nobody"), COMMIT_TAKEN)], CLOSED, {"groups": Groups.SIMPLE}
    ),
    "times to come": Row(
        lambda: [
            Captured(PRODUCE, 9, written(records(timestamp_ms=int(time.time() * 1000) + LATER_MS)), took(0))
        ],
        "INVALID_TIMESTAMP",
        {"timestamps": Timestamps.NOW},
    ),
    "producers of transactions": Row(
        lambda: [Captured(INIT, 4, init("till", 900, 4), issued(900, 5))], "PRODUCER_FENCED"
    ),
    "generations": Row(
        lambda: [Captured(COMMIT, 8, commit("empty", 5, "m"), COMMIT_TAKEN)],
        "ILLEGAL_GENERATION",
        {"groups": Groups.SIMPLE},
    ),
    "member epochs": Row(
        lambda: [
            Captured(MEMBER, 1, member("newest", 0), heard(40)),
            Captured(MEMBER, 1, member("newest", 40), heard(40)),
        ],
        "FENCED_MEMBER_EPOCH",
        {"groups": Groups.FULL},
    ),
    "members older than the capture": Row(
        lambda: [
            Captured(
                HEARTBEAT, 3, {"group_id": "elder", "generation_id": 9, "member_id": "m-1"}, {"error_code": 0}
            ),
            Captured(FETCH, 12, fetch(), fetched()),
        ],
        "UNKNOWN_MEMBER_ID",
        {"groups": Groups.FULL},
    ),
}


@pytest.mark.parametrize("name", thorough_after(3, LOUD))
def test_as_captured_it_fails_and_replayed_it_does_not(world: World, name: str) -> None:
    row = LOUD[name]
    requests, errors = row.requests(), set[str]()
    world.coordinator("nobody")
    world.coordinator("till", 1).ask(INIT, 4, init("till"))
    for port in world.ports.values():
        connection = world.connection(port)
        for key, version, body, _ in requests:
            errors |= said_by(key, version, connection.ask(key, version, body))
    assert row.error in errors
    played = world.replay(requests, **row.more)
    assert played.buckets == {"answered": len(requests)}
    assert row.error not in replayed(played)
    assert played.unexpected() == []


def test_copied_share_sessions_are_not_found(world: World) -> None:
    batch_of = [{"first_offset": 70, "last_offset": 71, "acknowledge_types": [1]}]
    topics = [
        {"topic_id": FOREIGN, "partitions": [{"partition_index": 0, "acknowledgement_batches": batch_of}]}
    ]
    asked = {
        "group_id": "sharing",
        "member_id": "EVwWWo5MTUaHsWDyv26xqg",
        "share_session_epoch": 7,
        "max_wait_ms": 100,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "max_records": 9,
        "batch_size": 9,
        "topics": topics,
        "forgotten_topics_data": [],
    }
    joining = Captured(SHARE_MEMBER, 1, member("sharing", 0), heard(40))
    assert said_by(SHARE_FETCH, 1, world.connection().ask(SHARE_FETCH, 1, asked)) == {
        "SHARE_SESSION_NOT_FOUND"
    }
    played = world.replay([joining, Captured(SHARE_FETCH, 1, asked)], groups=Groups.FULL)
    assert played.buckets == {"answered": 2}
    # The first share group of a cluster may find that the topic with its state is still being made.
    assert replayed(played) <= {"UNKNOWN_SERVER_ERROR"}


# Differences that no error code tells


def test_a_foreign_leader_epoch_has_no_end(world: World) -> None:
    asked = {
        "replica_id": -1,
        "topics": [
            {"topic": TOPIC, "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 99}]}
        ],
    }
    told = {
        "topics": [
            {
                "topic": TOPIC,
                "partitions": [{"error_code": 0, "partition": 0, "leader_epoch": 99, "end_offset": 12}],
            }
        ]
    }
    said = world.connection().ask(EPOCHS, 4, asked)
    assert said is not None
    (answer,) = said["topics"][0]["partitions"]
    assert (answer["error_code"], answer["end_offset"]) == (0, -1)
    played = world.replay([Captured(EPOCHS, 4, asked, told)])
    assert [entry["known"] for entry in played.pairs[0]["answers"][0]["digest"]] == [True]
    assert played.unexpected() == []


def test_a_rack_of_the_captured_cluster_gets_nothing(world: World) -> None:
    leader = world.leaders[0]
    other = next(node for node in world.ports if node != leader)
    world.connection().ask(PRODUCE, 9, written(records()))
    asked, deadline = fetch(rack_id=f"rack-{other}"), time.monotonic() + 30
    while True:  # until the leader knows that the other replica has it, too
        said = world.connection().ask(FETCH, 12, asked)
        assert said is not None
        (answer,) = said["responses"][0]["partitions"]
        if answer["preferred_read_replica"] == other or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    assert (answer["error_code"], answer["preferred_read_replica"], answer["records"]) == (0, other, b"")
    played = world.replay([Captured(FETCH, 12, asked, fetched())])
    (pair,) = played.pairs
    assert pair["answers"][0]["digest"][0]["records"] > 0
    assert played.unexpected() == []


def test_asking_for_a_topic_makes_it(world: World) -> None:
    def question(name: str) -> Tree:
        return {"topics": [{"name": name}], "allow_auto_topic_creation": True}

    world.replay([Captured(METADATA, 9, question("asked-for-by-replay"))])
    world.connection().ask(METADATA, 9, question("asked-for-by-copy"))
    deadline = time.monotonic() + 30
    while True:
        seen = view(world.cluster.client_ports[0])
        assert seen is not None
        if "asked-for-by-copy" in seen.topics:
            break
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert "asked-for-by-replay" not in seen.topics


def join(group: str, name: str = "", instance: str | None = None) -> Tree:
    metadata = encode_embedded("ConsumerProtocolSubscription", 0, {"topics": [TOPIC], "user_data": None})
    body = {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": name,
    }
    protocols = [{"name": "range", "metadata": metadata}]
    return body | {"group_instance_id": instance, "protocol_type": "consumer", "protocols": protocols}


def sync(group: str, generation: int, name: str, assigned: str) -> Tree:
    parts = {"assigned_partitions": [{"topic": TOPIC, "partitions": [0, 1]}], "user_data": None}
    given = {"member_id": assigned, "assignment": encode_embedded("ConsumerProtocolAssignment", 0, parts)}
    return {"group_id": group, "generation_id": generation, "member_id": name, "assignments": [given]}


class Live(NamedTuple):
    """A member that is in its group."""

    at: Connection
    group: str
    name: str
    generation: int

    def heartbeat(self, instance: str | None = None) -> set[str]:
        body = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.name,
            "group_instance_id": instance,
        }
        return said_by(HEARTBEAT, 3, self.at.ask(HEARTBEAT, 3, body))


def joined(world: World, group: str, instance: str | None = None) -> Live:
    at = world.coordinator(group)
    said = at.ask(JOIN, 5, join(group, "", instance))
    assert said is not None
    if said_by(JOIN, 5, said) == {"MEMBER_ID_REQUIRED"}:
        said = at.ask(JOIN, 5, join(group, said["member_id"], instance))
    assert said is not None
    assert said_by(JOIN, 5, said) == set()
    return Live(at, group, said["member_id"], said["generation_id"])


def captured_membership(group: str, instance: str | None = None) -> list[Captured]:
    answer = {
        "error_code": 0,
        "generation_id": 9,
        "protocol_name": "range",
        "leader": "m-1",
        "member_id": "m-1",
    }
    members = [{"member_id": "m-1", "group_instance_id": instance, "metadata": b""}]
    return [
        Captured(JOIN, 5, join(group, "", instance), answer | {"members": members}),
        Captured(SYNC, 3, sync(group, 9, "m-1", "m-1"), {"error_code": 0, "assignment": b""}),
    ]


def test_copied_members_are_assigned_nothing(world: World) -> None:
    live = joined(world, "copied")
    said = live.at.ask(SYNC, 3, sync("copied", live.generation, live.name, "m-1"))
    assert said is not None
    assert (said["error_code"], said["assignment"]) == (0, b"")
    played = world.replay(captured_membership("carried"), groups=Groups.FULL)
    assert played.pairs[1]["answers"][0]["digest"][0]["assigned"] == 2


@pytest.mark.parametrize(
    ("instance", "error"), [(None, "REBALANCE_IN_PROGRESS"), ("i", "FENCED_INSTANCE_ID")]
)
def test_a_live_group_is_disturbed_without_another_name(
    world: World, instance: str | None, error: str
) -> None:
    group = f"live-{instance}"
    live = joined(world, group, instance)
    live.at.ask(SYNC, 3, sync(group, live.generation, live.name, live.name))
    world.replay(
        captured_membership(group, instance), prefix="copy-", groups=Groups.FULL, topic_map={TOPIC: TOPIC}
    )
    assert live.heartbeat(instance) == set()
    intruder, name = world.coordinator(group), ""
    if instance is None:
        asked = intruder.ask(JOIN, 5, join(group))
        assert asked is not None
        name = asked["member_id"]
    intruder.send(JOIN, 5, join(group, name, instance))
    deadline = time.monotonic() + 20
    while not (found := live.heartbeat(instance)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert found == {error}


def test_epochs_of_commits_would_be_given_to_the_next_consumer(world: World) -> None:
    asked = commit("rows", epoch=7)

    def epoch() -> int:
        question = {"group_id": "rows", "topics": [{"name": TOPIC, "partition_indexes": [0]}]}
        said = world.coordinator("rows").ask(COMMITTED, 5, question)
        assert said is not None
        return int(said["topics"][0]["partitions"][0]["committed_leader_epoch"])

    world.coordinator("rows").ask(COMMIT, 8, asked)
    assert epoch() == 7
    world.replay([Captured(COMMIT, 8, asked, COMMIT_TAKEN)], groups=Groups.SIMPLE)
    assert epoch() == -1


def test_whoever_waits_for_an_answer_without_acks_takes_that_of_the_next_request(world: World) -> None:
    quiet = written(records()) | {"acks": 0}
    question = {"key": "rows", "key_type": 0}
    connection = world.connection()
    connection.send(PRODUCE, 9, quiet)
    connection.send(COORDINATOR, 1, question)
    first = connection.receive()
    assert first is not None
    assert int.from_bytes(first[:4], "big") == 2
    connection.send(
        PRODUCE,
        9,
        quiet | {"topic_data": [{"name": "nowhere", "partition_data": [{"index": 0, "records": records()}]}]},
    )
    assert connection.receive() is None  # an error without an answer closes the connection
    played = world.replay([Captured(PRODUCE, 9, quiet), Captured(COORDINATOR, 1, question)])
    assert played.buckets == {"no answer due": 1, "answered": 1}


# Requests that brokers take from anybody, and that therefore are never sent


def checksummed(data: bytes, attributes: int) -> bytes:
    changed = bytearray(data)
    changed[22] |= attributes
    changed[17:21] = crc32c.crc32c(bytes(changed[21:])).to_bytes(4, "big")
    return bytes(changed)


def test_what_brokers_take_from_anybody_is_never_sent(world: World) -> None:
    leader = world.leaders[0]
    follower = next(node for node in world.ports if node != leader)
    marker = {
        "producer_id": 123_456,
        "producer_epoch": 0,
        "transaction_result": False,
        "coordinator_epoch": 0,
    }
    markers = {"markers": [marker | {"topics": [{"name": TOPIC, "partition_indexes": [0]}]}]}
    copied = Captured(FETCH, 12, fetch(replica_id=follower), fetched())
    marking = Captured(MARKERS, 1, markers)
    for key, version, body, _ in (copied, marking):
        assert said_by(key, version, world.connection().ask(key, version, body)) == set()
    assert world.replay([copied, marking]).buckets == {"inter-broker": 2}

    inside = written(records())
    inside["topic_data"][0]["name"] = "__consumer_offsets"
    errors = [
        set[str]().union(
            *(
                said_by(PRODUCE, 9, world.connection(port).ask(PRODUCE, 9, inside, name))
                for port in world.ports.values()
            )
        )
        for name in ("client", "__admin_client")
    ]
    assert errors[0] == {"INVALID_TOPIC_EXCEPTION"}
    assert "INVALID_RECORD" in errors[1]  # only a record without a key is no good there
    assert world.replay([Captured(PRODUCE, 9, inside)]).buckets == {"policy": 1}
    harmless = Captured(PRODUCE, 9, written(records()))
    assert world.replay([harmless], client_id="__admin_client").buckets == {"policy": 1}

    control = written(checksummed(records(), 0x20))
    assert said_by(PRODUCE, 9, world.connection().ask(PRODUCE, 9, control)) == {"INVALID_RECORD"}
    assert world.replay([Captured(PRODUCE, 9, control, took(0))]).buckets == {"policy": 1}


def transaction(name: str, ended: bool) -> list[Captured]:
    key = {"transactional_id": name, "producer_id": 900, "producer_epoch": 4}
    add = {f"v3_and_below_{part}": value for part, value in key.items()}
    add["v3_and_below_topics"] = [{"name": TOPIC, "partitions": [0]}]
    data = written(batch(0)) | {"transactional_id": name}
    data["topic_data"][0]["partition_data"][0]["records"] = checksummed(batch(0), 0x10)
    return [
        Captured(INIT, 4, init(name), issued(900, 4)),
        Captured(ADD, 3, add, {"results_by_topic_v3_and_below": []}),
        Captured(PRODUCE, 9, data, took(0)),
        *([Captured(END, 4, key | {"committed": True}, {"error_code": 0})] if ended else []),
    ]


def open_records(world: World) -> int:
    """Return how many records of the first partition readers of committed ones have to wait for."""
    said = world.connection().ask(FETCH, 12, fetch({"fetch_offset": 0}, isolation_level=1))
    assert said is not None
    (answer,) = said["responses"][0]["partitions"]
    return int(answer["high_watermark"] - answer["last_stable_offset"])


def test_a_live_producer_is_fenced_without_another_name(world: World) -> None:
    at = world.coordinator("mine", 1)
    said = at.ask(INIT, 4, init("mine"))
    assert said is not None

    def adds() -> set[str]:
        key = {
            "v3_and_below_transactional_id": "mine",
            "v3_and_below_producer_id": said["producer_id"],
            "v3_and_below_producer_epoch": said["producer_epoch"],
        }
        body = key | {"v3_and_below_topics": [{"name": TOPIC, "partitions": [1]}]}
        return said_by(ADD, 3, at.ask(ADD, 3, body))

    played = world.replay(transaction("mine", ended=True), prefix="copy-", topic_map={TOPIC: TOPIC})
    assert played.buckets == {"answered": 4}
    end = {
        "transactional_id": "mine",
        "producer_id": said["producer_id"],
        "producer_epoch": said["producer_epoch"],
        "committed": False,
    }
    assert said_by(END, 4, at.ask(END, 4, end)) == {"INVALID_TXN_STATE"}  # nothing was added before
    assert adds() == set()
    deadline = time.monotonic() + 20
    while said_by(INIT, 4, at.ask(INIT, 4, init("mine"))) and time.monotonic() < deadline:
        time.sleep(0.1)  # what it added is aborted first
    assert adds() & {"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"}


def test_a_transaction_that_stays_open_holds_readers_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = world.replay(transaction("tail", ended=False))
    assert played.buckets == {"answered": 3}
    deadline = time.monotonic() + 20
    while open_records(world) and time.monotonic() < deadline:
        time.sleep(0.1)  # a coordinator answers before its markers are written
    assert open_records(world) == 0
    monkeypatch.setattr(player, "abort_open", lambda _context: iter(()))
    left = world.replay(transaction("tail", ended=False))
    assert open_records(world) > 0
    assert [each["check"] for each in left.report["checks"] if not each["holds"]] == [
        "no transaction is left open"
    ]
    world.coordinator("tail", 1).ask(INIT, 4, init("tail"))  # aborts it
