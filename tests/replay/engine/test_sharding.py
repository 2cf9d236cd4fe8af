"""`replay.engine.sharding`: what must stay together, why, and which process sends it."""

from __future__ import annotations

from kdissect.replay.engine.sharding import (
    BYTES_PER_REQUEST,
    Component,
    components_of,
    pack,
    shard_requests,
    worker_settings,
)
from kdissect.replay.load.analysis import load
from kdissect.replay.settings import Caps, Groups
from tests.helpers.paper_cluster import COMMIT, FETCH, INIT, PRODUCE, batch, issued, produce, took
from tests.helpers.paper_shares import Member
from tests.helpers.paper_target import Script, settings


def test_components_name_what_ties_them_together() -> None:
    script = Script()
    for number, topic in enumerate(("a", "a", "b")):
        body = produce(batch(-1, 900), topic=topic)
        writer = f"writer-{number}"
        script.add(number, PRODUCE, 9, body, took(0), connection=number + 1, client_id=writer)
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100}
    fetch = {"max_wait_ms": 1, "min_bytes": 1, "topics": [{"topic": "a", "partitions": [partition]}]}
    for connection in (4, 5):
        script.add(9, FETCH, 4, fetch, connection=connection, client_id="reader")
    tied, alone = components_of(load(script.capture(), script.shelf, settings()))
    assert (set(tied.connections), tied.requests) == ({1, 2, 4, 5}, 4)
    assert [(*each.tie, each.connections) for each in tied.ties] == [
        ("topic", "a", 4),
        ("client", "reader", 2),
    ]
    assert (alone.connections, alone.requests, alone.ties) == ((3,), 1, ())


def test_members_of_a_share_group_stay_with_those_who_write_what_they_read() -> None:
    member = Member()
    member.heartbeat(0, 0)
    member.fetch(10, 0)
    member.produce(20, 0, 70)
    write(member.script, 30, "other", 0, 7)
    shares = dealt(member.script, 9, groups=Groups.FULL)
    assert sorted(shares, key=min) == [{1, 9, 20}, {30}]


def test_bytes_weigh_as_well_as_requests() -> None:
    large = Component((1,), 10, 100 * BYTES_PER_REQUEST)
    small = [Component((number,), 55, 0) for number in (2, 3)]
    assert large.weight == 110
    owners = pack([large, *small], 2)
    assert owners[1] != owners[2] == owners[3]


FIND, NOT_THERE = 10, {"error_code": 15, "node_id": -1, "host": "", "port": -1}


def dealt(script: Script, processes: int, **how: object) -> list[set[int]]:
    asked = settings(processes=processes, **how)
    loaded = load(script.capture(), script.shelf, asked)
    shares = shard_requests(loaded, asked, components_of(loaded))
    return [{item.request.connection for item in share} for share in shares]


def write(script: Script, connection: int, topic: str, sequence: int = -1, producer: int = 900) -> None:
    body = produce(batch(sequence, producer), topic=topic)
    script.add(len(script.requests), PRODUCE, 9, body, took(0), connection=connection)


def test_what_shares_nothing_is_dealt_out_evenly() -> None:
    script = Script()
    for number in range(60):
        write(script, number % 6, f"topic-{number % 6}")
        script.add(number, FIND, 1, {"key": "group", "key_type": 0}, NOT_THERE, connection=number % 6)
    shares = dealt(script, 3)
    assert [len(share) for share in shares] == [2, 2, 2]
    assert set.union(*shares) == set(range(6))
    assert len(dealt(script, 0)) == 1  # so little is not worth a process
    assert len(dealt(script, 9, caps=Caps(connections=2))) == 2


def test_what_shares_a_producer_a_topic_or_a_client_stays_together() -> None:
    script = Script()
    script.add(
        0, INIT, 4, {"transactional_id": None, "transaction_timeout_ms": 1}, issued(7, 0), connection=1
    )
    write(script, 2, "a", 0, producer=7)
    write(script, 3, "b")
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100}
    fetch = {"max_wait_ms": 1, "min_bytes": 1, "topics": [{"topic": "b", "partitions": [partition]}]}
    script.add(5, FETCH, 4, fetch, connection=4, client_id="reader")
    commit = {
        "group_id": "g",
        "topics": [{"name": "c", "partitions": [{"partition_index": 0, "committed_offset": 5}]}],
    }
    script.add(6, COMMIT, 2, commit, connection=5, client_id="reader")
    write(script, 6, "d")
    shares = dealt(script, 9, groups=Groups.SIMPLE)
    assert sorted(shares, key=min) == [{1, 2}, {3, 4, 5}, {6}]


def test_caps_are_shared_out() -> None:
    asked = settings(caps=Caps(requests_per_second=100.0, connections=5))
    script = Script()
    for number in range(4):
        write(script, number, f"topic-{number}")
    items = load(script.capture(), script.shelf, asked).items
    shares = [items[:3], items[3:]]
    first, second = (worker_settings(asked, number, shares).caps for number in range(2))
    assert (first.requests_per_second, second.requests_per_second) == (75.0, 25.0)
    assert (first.connections, second.connections) == (3, 2)
