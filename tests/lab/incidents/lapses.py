"""Lapses: a producer gone in the middle of a transaction, a group's offsets deleted, nothing behind a proxy.

No rule was written with these in sight, as with those of `variants`."""

from __future__ import annotations

import sys
import time
from typing import Any

from tests.lab.incidents.groups import fed_topic
from tests.lab.incidents.requests import lone_producer
from tests.lab.incidents.scene import Scene, scenario
from tests.lab.process import Child

HOLD_S = 1.0


def transacting(s: Scene) -> tuple[list[str], dict[str, Any]]:
    """Start a reader of committed records; return its topics, and the words of a producer for them."""
    topics = [s.topic(partitions=3)]
    s.background(producers=1, consumers=1)
    name = s.fresh(("tx", "ledger", "booking"), ("north", "south", "late", "7"))
    library = s.pick("librdkafka", "java")
    s.start("consume", library, topics=topics, extra={"isolation.level": "read_committed"})
    own: dict[str, Any] = {
        "library": s.pick("librdkafka", "franz-go"),
        "host": s.host(),
        "client_id": s.client_id(),
    }
    own |= {"topics": topics, "transactional_id": name, "per_second": 5, "hold_s": HOLD_S}
    return topics, own


@scenario("transaction-abandoned", twin_of="transactions-handed-over")
def transaction_abandoned(s: Scene) -> None:
    """A producer is killed in the middle of a transaction; readers wait until the broker gives it up."""
    topics, own = transacting(s)
    s.start("produce", topics=topics, per_second=20)
    gone = s.start("transact", **own)
    s.opening(6)
    s.wait(10, 12)
    killed = s.stop(gone, orderly=False)
    name = str(own["transactional_id"])
    subject = {"kind": "producer", "name": name, "client": gone[0].client_id}
    onset = killed - int((HOLD_S + 0.3) * 1e9)
    s.blame("open_transaction", subject, [name, gone[0].client_id], onset, seen_later_s=HOLD_S + 0.3)
    s.wait(21, 23)


@scenario("transactions-handed-over", healthy=True, twin_of="transaction-abandoned")
def transactions_handed_over(s: Scene) -> None:
    """A producer is stopped in order, and another process goes on with its transactional id, twice."""
    topics, own = transacting(s)
    s.start("produce", topics=topics, per_second=20)
    producer = s.start("transact", **own)
    s.opening(6)
    for _ in range(2):
        s.wait(8, 9)
        s.stop(producer)
        s.wait(0.5, 1)
        producer = s.start("transact", **own)
    s.wait(9, 10)


@scenario("offsets-deleted", twin_of="offsets-reset")
def offsets_deleted(s: Scene) -> None:
    """While a consumer restarts, somebody deletes what its group has committed: it reads all once more."""
    topic, group, name = fed_topic(s, 60, partitions=3), s.group(), s.client_id()
    s.background(producers=1, consumers=1)
    own: dict[str, Any] = {
        "topics": [topic],
        "group": group,
        "client_id": name,
        "host": s.host(),
        "session_ms": 6000,
    }
    library = s.pick("librdkafka", "java", "franz-go")
    reader = s.start("consume", library, **own)
    s.opening(8)
    s.wait(13, 15)
    s.stop(reader)
    s.wait(1, 1.5)
    s.brokers.delete_group(group)
    subject = {"kind": "group", "name": group}
    s.start("consume", library, **own)
    s.blame("offsets_lost", subject, [group, name], time.time_ns(), seen_later_s=4)
    s.wait(15, 17)


@scenario("proxy-without-backend", place="hosts", twin_of="connection-limit")
def proxy_without_backend(s: Scene) -> None:
    """A client reaches the cluster by a proxy that has lost what is behind it, and closes at once."""
    topics, port = s.background(producers=2, consumers=1), "9092"
    address = s.place.address("c4")
    module = "tests.lab.incidents.closing_port"
    command = [*s.place.command("c4"), sys.executable, "-m", module, address, port]
    proxy = Child("proxy", command, s.folder / "proxy.log").start()
    s.later(proxy.kill)
    s.opening()
    s.wait(9, 11)
    library = s.pick("librdkafka", "java", "franz-go", "sarama")
    lost, host = lone_producer(s, library, topics=topics, bootstrap=f"{address}:{port}")
    also = [host, f"{address}:{port}"]
    accepted = ["connections_closed"]
    s.blame_started("backend_missing", lost, also=also, opened_to=(9092,), accepted=accepted)
    s.wait(17, 19)


def stretched(s: Scene) -> None:
    """Put 50 ms between two brokers for good, as between two sites, and start clients."""
    broker = s.broker()
    other = s.pick(*(one for one in s.brokers.all if one is not broker))
    way = s.way_to(broker.host)
    s.later(way.set)
    way.set(delay_s=0.05, peer=other.ip)
    s.background(producers=3, consumers=2)


@scenario("produce-timeout-short", place="hosts", twin_of="stretched-cluster")
def produce_timeout_short(s: Scene) -> None:
    """A producer gives a write less time than the replicas of a stretched cluster need, and tries again."""
    topic = s.topic(6)
    stretched(s)
    s.opening(6)
    s.wait(9, 11)
    hasty, _ = s.start("produce", "librdkafka", topics=[topic], per_second=10, timeout_ms=60)
    s.blame_started("request_timeout_short", hasty, also=[topic], seen_later_s=1)
    s.wait(17, 19)


@scenario("stretched-cluster", place="hosts", healthy=True, twin_of="produce-timeout-short")
def stretched_cluster(s: Scene) -> None:
    """Two brokers are 50 ms apart all the time; clients wait for their replicas, and one comes later."""
    topic = s.topic(6)
    stretched(s)
    s.opening(6)
    s.wait(11, 12)
    s.start("produce", s.pick("librdkafka", "java", "franz-go"), topics=[topic], per_second=10)
    s.wait(14, 16)
