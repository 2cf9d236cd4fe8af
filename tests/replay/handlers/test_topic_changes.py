"""`replay.handlers.topic_changes`, against a target on paper."""

from __future__ import annotations

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.settings import Pace
from tests.helpers.paper_cluster import FETCH, PRODUCE, Cluster, batch, orders, produce, took
from tests.helpers.paper_fetches import VERSION, fetch
from tests.helpers.paper_metadata import CREATE_TOPICS, NEVER, Lagging, S
from tests.helpers.paper_target import MS, FarTarget, Script, play, settings, topology


def test_what_the_run_creates_is_written_to_when_every_node_knows_it() -> None:
    script = Script()
    topic = {"name": "orders", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    create = {"topics": [topic], "timeout_ms": 9, "validate_only": False}
    script.add(0, CREATE_TOPICS, 4, create, {"topics": [{"name": "orders", "error_code": 0}]})
    script.add(5, PRODUCE, 9, produce(batch()), took(0), connection=2)
    asked = settings(pace=Pace.ASAP, allowed_apis=frozenset({CREATE_TOPICS}))
    paper = Lagging(Cluster(), knows_ns={1: 50 * MS, 2: 80 * MS})
    done = play(script.capture(), script.shelf, paper, topology(leaders=2), asked)
    assert done.buckets() == {"answered": 2}
    assert [at_ns >= 80 * MS for at_ns, key, _, _ in done.target.asked if key == PRODUCE] == [True]


def test_a_small_target_has_fewer_replicas() -> None:
    script = Script()
    topics = [
        {"name": name, "num_partitions": 1, "replication_factor": replicas, "assignments": [], "configs": []}
        for name, replicas in (("orders", 3), ("audit", -1), ("payments", 2))
    ]
    create = {"topics": topics, "timeout_ms": 9, "validate_only": True}
    script.add(0, CREATE_TOPICS, 4, create, {"topics": []})
    asked = settings(allowed_apis=frozenset({CREATE_TOPICS}))
    done = play(script.capture(), script.shelf, Lagging(Cluster(), knows_ns={}), topology(leaders=2), asked)
    ((_, _, body),) = done.sent(CREATE_TOPICS)
    assert [topic["replication_factor"] for topic in body["topics"]] == [2, -1, 2]
    assert done.context.notes.counts["topics created with fewer replicas"] == 1


def test_topics_that_are_only_validated_are_not_waited_for() -> None:
    script = Script()
    topic = {"name": "orders", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    create = {"topics": [topic], "timeout_ms": 9, "validate_only": True}
    script.add(0, CREATE_TOPICS, 4, create, {"topics": [{"name": "orders", "error_code": 0}]})
    paper = Lagging(Cluster(), knows_ns={1: NEVER, 2: NEVER})
    asked = settings(allowed_apis=frozenset({CREATE_TOPICS}))
    done = play(script.capture(), script.shelf, paper, topology(leaders=2), asked)
    assert done.buckets() == {"answered": 1}
    assert done.context.loaded.created == set()
    assert paper.now_ns < S


def test_a_topic_is_deleted_after_what_was_written_to_it_before() -> None:
    script, slow = Script(), 1
    for at_ms in (0, 2):
        script.add(at_ms, PRODUCE, 9, produce(batch()), took(0, base=at_ms), connection=slow)
    for key, topic in (
        (ApiKey.DELETE_RECORDS, {"name": "orders", "partitions": [{"partition_index": 0, "offset": 1}]}),
        (ApiKey.DELETE_TOPICS, None),
    ):
        body = {"timeout_ms": 9} | ({"topics": [topic]} if topic else {"topic_names": ["orders"]})
        script.add(5, key, 1, body, {}, connection=2)
    script.add(9, PRODUCE, 9, produce(batch()), took(0, base=0), connection=3)
    allowed = frozenset({ApiKey.DELETE_RECORDS, ApiKey.DELETE_TOPICS})
    target = FarTarget(
        lambda key, version, body: {} if key in allowed else Cluster()(key, version, body),
        lag=lambda connection: 80 * MS if connection.owner == slow else MS,
    )
    asked = settings(pace=Pace.ASAP, allowed_apis=allowed)
    done = play(script.capture(), script.shelf, target, orders(), asked, prepared=True)
    keys = [key for _, key, _, _ in done.target.asked if key in allowed | {PRODUCE}]
    assert keys == [PRODUCE, PRODUCE, ApiKey.DELETE_RECORDS, ApiKey.DELETE_TOPICS, PRODUCE]
    assert done.context.loaded.connection_groups.groups([1, 2, 3]) == [[1, 2, 3]]


def test_a_topic_is_deleted_after_what_was_read_from_it_before() -> None:
    script, slow = Script(), 1
    script.add(0, PRODUCE, 9, produce(batch()), took(0, base=0), connection=slow)
    read = {"partition_index": 0, "error_code": 0, "high_watermark": 1, "records": batch()}
    answer = {"session_id": 0, "responses": [{"topic": "orders", "partitions": [read]}]}
    script.add(2, FETCH, VERSION, fetch(0, -1, {0: 0}), answer, connection=2)
    deleted = {"responses": [{"name": "orders", "error_code": 0}]}
    script.add(
        9, ApiKey.DELETE_TOPICS, 1, {"timeout_ms": 9, "topic_names": ["orders"]}, deleted, connection=3
    )
    script.add(12, PRODUCE, 9, produce(batch()), took(0, base=0), connection=4)  # created again by then
    target = FarTarget(
        lambda key, version, body: {} if key == ApiKey.DELETE_TOPICS else Cluster()(key, version, body),
        lag=lambda connection: 80 * MS if connection.owner == slow else MS,
    )
    asked = settings(pace=Pace.ASAP, allowed_apis=frozenset({ApiKey.DELETE_TOPICS}))
    done = play(script.capture(), script.shelf, target, orders(), asked, prepared=True)
    assert [key for _, key, _, _ in done.target.asked if key in (FETCH, PRODUCE, ApiKey.DELETE_TOPICS)] == [
        PRODUCE,
        FETCH,
        ApiKey.DELETE_TOPICS,
        PRODUCE,
    ]
    assert not done.context.notes.counts["reads that waited too long for what they read"]
