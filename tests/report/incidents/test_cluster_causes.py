"""Causes that lie with the cluster: missing replicas, leaders and coordinators."""

from pathlib import Path

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode
from kdissect.report.incidents.join import find_incidents
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.make_signal import make_signal
from tests.helpers.told_capture import Story
from tests.helpers.told_cluster import cluster, end_together, name_of, refuse
from tests.helpers.told_groups import analyzed, produce
from tests.helpers.told_metadata import tell

SECOND = 10**9


def refused_writes(story: Story, begin_ms: int, topic: str = "audit") -> None:
    """Add a client whose writes are refused for want of replicas from a time on."""
    line = story.connect("10.1.0.8", ("10.0.0.1", 9092), client_id="auditor")
    for at_ms in range(50, 28_000, 400):
        error = ErrorCode.NOT_ENOUGH_REPLICAS if at_ms >= begin_ms else 0
        produce(line, at_ms, topic=topic, error=error, offset=at_ms)


def test_a_topic_that_wants_more_replicas_than_there_are(tmp_path: Path) -> None:
    story, _ = cluster(lambda node, at_ms: 3)
    refused_writes(story, 12_000)
    (incident,) = analyzed(story, tmp_path).incidents
    assert (incident.cause, incident.subject.name) == ("too_few_in_sync_replicas", "audit")
    assert "while" not in incident.headline


def test_a_broker_that_died_is_why_there_are_too_few_replicas(tmp_path: Path) -> None:
    story, lines = cluster(lambda node, at_ms: None if node == 3 and at_ms > 11_950 else 3)
    end_together(lines, 3, 12_000)
    refuse(story, 3, 12_020, 30_000)
    refused_writes(story, 12_100)
    (incident,) = analyzed(story, tmp_path).incidents
    assert (incident.cause, incident.subject.name) == ("broker_killed", name_of(3))
    assert "39 writes to audit refused since too few replicas are in sync" in incident.headline


def without_leader(story: Story, begin_ms: int, end_ms: int) -> None:
    """Add a client that asks for the metadata of a topic, which has no leader in some time."""
    line = story.connect("10.1.0.8", ("10.0.0.1", 9092), client_id="auditor")
    for at_ms in range(50, 28_000, 400):
        gone = begin_ms <= at_ms < end_ms
        tell(line, at_ms, "audit", {0: (-1 if gone else 1, 7, (1,))})


def test_a_topic_that_stays_without_a_leader(tmp_path: Path) -> None:
    story, _ = cluster(lambda node, at_ms: 3)
    without_leader(story, 12_000, 30_000)
    (incident,) = analyzed(story, tmp_path).incidents
    assert (incident.cause, incident.subject.name) == ("partition_without_leader", "audit")
    assert "to the end of the capture" in incident.headline


def test_a_topic_that_gets_a_leader_soon(tmp_path: Path) -> None:
    story, _ = cluster(lambda node, at_ms: 3)
    without_leader(story, 12_000, 14_000)
    assert "partition_without_leader" not in {row.cause for row in analyzed(story, tmp_path).incidents}


def searches(story: Story, begin_ms: int, end_ms: int) -> None:
    """Add a member that looks for the coordinator of its group, which has none in some time."""
    line = story.connect("10.1.0.8", ("10.0.0.1", 9092), client_id="searcher", at_ms=begin_ms - 50)
    for at_ms in range(begin_ms, 28_000, 400):
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE if at_ms < end_ms else 0
        found = {"error_code": error, "node_id": -1 if error else 1, "host": "b1", "port": 9092}
        line.call(at_ms, 1, ApiKey.FIND_COORDINATOR, 0, {"key": "readers"}, found)


def test_a_group_that_stays_without_a_coordinator(tmp_path: Path) -> None:
    story, _ = cluster(lambda node, at_ms: 3)
    searches(story, 12_000, 30_000)
    (incident,) = analyzed(story, tmp_path).incidents
    assert (incident.cause, incident.subject.name) == ("coordinator_missing", "readers")
    assert "Group readers has no coordinator since" in incident.headline
    assert incident.headline.endswith("refused with COORDINATOR_NOT_AVAILABLE, to the end of the capture")


def test_a_group_that_finds_its_coordinator_soon(tmp_path: Path) -> None:
    story, _ = cluster(lambda node, at_ms: 3)
    searches(story, 12_000, 15_000)
    assert analyzed(story, tmp_path).incidents == ()


def test_a_write_that_is_refused_once_is_no_incident(tmp_path: Path) -> None:
    story, _ = cluster(lambda node, at_ms: 3)
    refused_writes(story, 27_800)
    assert analyzed(story, tmp_path).incidents == ()


def test_the_missing_replica_is_learnt_from_metadata(tmp_path: Path) -> None:
    """Nobody sees the broker fail: it was behind before the capture began."""
    story, lines = cluster(lambda node, at_ms: 3)
    refused_writes(story, 12_000)
    tell(lines["writer-a", 1], 12_500, "audit", {0: (1, 7, (1,)), 1: (1, 7, (1,))})
    (incident,) = analyzed(story, tmp_path).incidents
    assert incident.cause == "too_few_in_sync_replicas"
    assert f"while {name_of(2)}, {name_of(3)} were missing" in incident.headline


def joined_with(left: Signal, kind: str, client: str) -> list[str]:
    """Return the causes of a signal and of another kind, which has to belong to it."""
    other = make_signal(kind, (SubjectKind.CLIENT, client), (left.begin_ns + 1, None), "…")
    incidents, signals = find_incidents((left, other), (0, 30 * SECOND), 100)
    assert [one.incident for one in signals] == [0, 0]
    return [one.cause for one in incidents]


def test_fetches_in_a_loop_follow_from_an_election() -> None:
    """A reader whose partition has another leader than it knows may ask in a loop until it learns that."""
    readers = ("reader at 10.1.0.8", "other at 10.1.0.9")
    left = make_signal(
        "leadership_left", (SubjectKind.SERVER, name_of(2)), (10 * SECOND, 11 * SECOND), "…",
        measures={"things": 2, "clients": 2, "partitions": 2}, clients=readers, topics=["orders"],
    )  # fmt: skip
    assert joined_with(left, "empty_fetch_loop", readers[0]) == ["leader_election"]


def test_who_is_sent_to_no_leader_meets_a_partition_without_one() -> None:
    writer = "writer at 10.1.0.8"
    measures = {"count": 12, "lasted_ns": 12 * SECOND, "code": int(ErrorCode.LEADER_NOT_AVAILABLE)}
    missing = make_signal("leader_missing", (SubjectKind.CLIENT, writer), (10 * SECOND, None), "…",
                          measures=measures, topics=["orders"])  # fmt: skip
    assert joined_with(missing, "leader_moved", writer) == ["partition_without_leader"]


@pytest.mark.parametrize(("others", "causes"), [(1, ["leader_election"]), (0, [])])
def test_an_election_of_which_clients_learn_one_partition_and_followers_the_others(
    others: int, causes: list[str]
) -> None:
    def left(node: int, clients: tuple[str, ...], replicas: int) -> Signal:
        return make_signal(
            "leadership_left", (SubjectKind.SERVER, name_of(node)), (10 * SECOND, 11 * SECOND), "…",
            measures={"things": 1, "clients": len(clients), "replicas": replicas, "partitions": 1},
            clients=clients, topics=["orders"],
        )  # fmt: skip

    told = [left(1, ("reader at 10.1.0.8", "other at 10.1.0.9"), 0), *[left(3, (), 1)] * others]
    assert [one.cause for one in find_incidents(told, (0, 30 * SECOND), 100)[0]] == causes
