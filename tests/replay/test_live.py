"""From a recording made here and now.

Clients write to a cluster of an earlier release, and their packets write to another one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka as ck
import pytest

from kdissect.replay.settings import Groups
from tests.lab import releases
from tests.lab.capture import Capture
from tests.lab.cluster import KraftCluster
from tests.lab.maven import LabUnavailable, jars
from tests.replay.conftest import SecuredCluster
from tests.replay.play import play, settings
from tests.replay.reading import committed, read_all
from tests.replay.test_end_to_end import assert_each_once_in_order, assert_sums, everything
from tests.replay.truth import writer_of

pytestmark = pytest.mark.broker

TOPICS = {"bills": 3, "notes": 5, "moves": 3}
PARTITIONS = {
    "bills": (0, 1, 2),
    "notes": (3, 4),
}  # a writer's partitions have different numbers in its topics
RECORDS = 120  # of each writer
BURST = 12  # records of a transaction
PRODUCERS = {
    "idempotent": ({"enable.idempotence": True, "compression.type": "zstd"}, ["bills", "notes"]),
    "plain": ({"acks": 1, "compression.type": "gzip"}, ["notes"]),
    "quick": ({"acks": 0, "compression.type": "lz4"}, ["bills"]),
}


@pytest.fixture(scope="module")
def source() -> Iterator[KraftCluster]:
    """A cluster of two brokers whose ids no broker of the target has."""
    try:
        jars(releases.EARLIER)
        cluster = KraftCluster(releases.EARLIER, brokers=2, request_log=False, first=11)
    except LabUnavailable as absent:
        pytest.skip(str(absent))
    with cluster:
        for name, count in TOPICS.items():
            cluster.create_topic(name, count, 2, {})
        yield cluster


def write(cluster: KraftCluster) -> Counter[str]:
    """Have every producer write; return how many records each had acknowledged."""
    done: Counter[str] = Counter()
    producers = [
        (
            name,
            ck.Producer(
                {"bootstrap.servers": cluster.bootstrap, "client.id": name, "linger.ms": 5, **config}
            ),
            topics,
        )
        for name, (config, topics) in PRODUCERS.items()
    ]
    for number in range(RECORDS):
        for name, producer, topics in producers:

            def note(error: object, _message: object, name: str = name) -> None:
                done[name] += error is None

            key, value = f"{name}-{number}".encode(), None if number % 40 == 7 else b"%d" % number * 20
            topic = topics[number % len(topics)]
            partition = PARTITIONS[topic][number % 7 % len(PARTITIONS[topic])]
            producer.produce(topic, value, key, partition, headers={"n": b"%d" % number}, on_delivery=note)
            if number % 10 == 9:
                producer.flush(20)
    for _, producer, _ in producers:
        assert producer.flush(20) == 0
        producer.close()
    return done


def transact(cluster: KraftCluster) -> set[int]:
    """Write transactions and abort every third; give the numbers of the committed records."""
    kept = set()
    producer = ck.Producer(
        {"bootstrap.servers": cluster.bootstrap, "client.id": "bank", "transactional.id": "bank"}
    )
    producer.init_transactions(20)
    for number in range(RECORDS):
        if number % BURST == 0:
            producer.begin_transaction()
        producer.produce("moves", b"%d" % number, f"bank-{number}".encode())
        if number % BURST == BURST - 1:
            if number // BURST % 3 == 2:
                producer.flush(20)
                producer.abort_transaction(20)
            else:
                producer.commit_transaction(20)
                kept |= set(range(number + 1 - BURST, number + 1))
    producer.close()
    return kept


def consume(cluster: KraftCluster) -> None:
    """Read a topic in a group to its end, and commit."""
    config = {
        "group.id": "readers",
        "client.id": "reader",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer = ck.Consumer({"bootstrap.servers": cluster.bootstrap, **config})
    consumer.subscribe(["moves"])
    seen, deadline = (
        0,
        time.monotonic() + 90,
    )  # the first group of a cluster waits for its coordinator to be made
    while seen < RECORDS * 2 // 3 and time.monotonic() < deadline:
        message = consumer.poll(1)
        seen += message is not None and message.error() is None
    consumer.commit(asynchronous=False)
    consumer.close()


def test_what_was_acknowledged_there_is_here_once(
    source: KraftCluster, target: SecuredCluster, tmp_path: Path
) -> None:
    path = tmp_path / "live.pcap"
    with Capture(path, source.client_ports):
        acknowledged = write(source)
        kept = transact(source)
        consume(source)
        time.sleep(2)  # the last connections close
    assert acknowledged == dict.fromkeys(PRODUCERS, RECORDS)
    asked = settings(target, "live-", groups=Groups.SIMPLE)
    first = play(asked, str(path), tmp_path / "first")
    assert_sums(first)
    assert first.unexpected() == []
    assert not {int(node) for node in first.plan["target"]["nodes"]} & {node.number for node in source.nodes}
    assert set(first.buckets) <= {"answered", "no answer due", "policy"}, first.buckets
    found = everything(target, "live-", list(TOPICS), sum(acknowledged.values()) + RECORDS)
    assert_each_once_in_order(str(path), found, {*PRODUCERS, "bank"})
    assert Counter(writer_of(each.key) for each in found) == acknowledged | {"bank": RECORDS}
    moved = read_all(target.bootstrap, ["live-moves"], isolation="read_committed")["live-moves"]
    assert {int(each.value or b"") for each in moved} == kept
    assert len(moved) == len(kept)

    second = play(asked, str(path), tmp_path / "second")
    assert_sums(second)
    assert second.report["records"]["fetched_replayed"] > 0
    assert second.unexpected() == []
    assert len(everything(target, "live-", list(TOPICS), 2 * len(found))) == 2 * len(found)
    assert all(offset > 0 for offset in committed(target.bootstrap, "live-readers", "live-moves", 3))
