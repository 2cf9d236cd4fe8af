"""Strains: a coordinator without a replica, a host of clients that stands still, an assignor nobody has.

No rule was written with these in sight, as with those of `variants`."""

from __future__ import annotations

import itertools
import signal
import time
from typing import Any

from tests.lab.incidents.groups import SESSION_MS, fed_topic
from tests.lab.incidents.mishaps import blame_errand, send_on
from tests.lab.incidents.scene import Scene, scenario
from tests.lab.incidents.variants import CONSUMER_PROTOCOL, NEW_GROUPS
from tests.lab.incidents.work import Work
from tests.lab.process import Child

ONE_REPLICA = (("offsets.topic.replication.factor", "1"),)


@scenario("coordinator-unreplicated", settings=ONE_REPLICA, twin_of="partition-without-leader")
def coordinator_unreplicated(s: Scene) -> None:
    """Offsets have one replica, and its broker was down before anybody recorded: a group cannot work."""
    topic, group = fed_topic(s), s.group()
    s.background(producers=2, consumers=0)
    broker = s.brokers.broker(s.brokers.coordinator(group))
    broker.stop()
    s.later(s.brokers.revive)
    s.roll(3)
    s.wait(8, 9)
    names = [group, broker.address, f"broker {broker.number}"]
    lost, _ = s.start("consume", s.pick("librdkafka", "java", "franz-go"), topics=[topic], group=group)
    accepted = ["broker_down", "broker_stopped"]
    s.blame_started("coordinator_missing", lost, also=names, accepted=accepted)
    s.start("consume", "librdkafka", topics=[topic], group=group)
    s.wait(17, 19)


@scenario("group-in-use", twin_of="commit-from-outside")
def group_in_use(s: Scene) -> None:
    """A clean-up job wants to delete a group that has members, again and again."""
    topic, group = fed_topic(s), s.group()
    s.background(producers=1, consumers=1)
    for library in s.random.sample(("librdkafka", "java", "franz-go", "rust"), 2):
        s.start("consume", library, topics=[topic], group=group, strategy="range")
    s.opening(6)
    s.wait(9, 11)
    client_id, _ = send_on(s, "delete_group_in_use", group=group, pause_s=1.5)
    blame_errand(s, "group_in_use", client_id, [group])
    s.wait(15, 17)


@scenario("host-suspended", place="hosts", twin_of="path-dead")
def host_suspended(s: Scene) -> None:
    """All processes of a host of clients stand still for eleven seconds; its groups go on without them."""
    topics, group = s.background(producers=2, consumers=1), s.group()
    own = {"topics": topics, "group": group, "session_ms": SESSION_MS, "strategy": "range"}
    for host in ("c1", "c2", "c3"):
        s.start("consume", s.pick("librdkafka", "franz-go"), host, **own)
    s.start("consume", "librdkafka", "c2", **own)
    for library in ("franz-go", "librdkafka"):
        s.start("produce", library, "c2", topics=topics, per_second=12)
    s.opening(6)
    s.wait(11, 13)
    address = s.place.address("c2")
    here = {client["client_id"] for client in s.truth["clients"] if client["host"] == address}
    names = [address, group, *here]
    accepted = ["path_dead"]
    subject = {"kind": "path", "host": address, "name": f"host {address}"}
    s.blame("session_timeout", subject, names, accepted=accepted, seen_later_s=SESSION_MS / 1000 + 1)
    still = [child.process for work, child in s.clients if work.client_id in here and child.process]
    for process in still:
        process.send_signal(signal.SIGSTOP)
    s.wait(11, 12)
    s.ended()
    for process in still:
        process.send_signal(signal.SIGCONT)
    s.wait(9, 10)


@scenario("assignor-unknown", settings=NEW_GROUPS, twin_of="inconsistent-group-protocol")
def assignor_unknown(s: Scene) -> None:
    """A service wants an assignor that its brokers do not have, ends, and is started again each time."""
    topics, group, name = s.background(producers=2, consumers=1), s.group(), s.client_id()
    own = {"topics": topics, "group": group, "client_id": name, "host": s.host()}
    library = s.pick("librdkafka", "java")
    s.opening()
    s.wait(9, 11)
    end = time.monotonic() + s.between(20, 22)
    for number in itertools.count():
        extra = {**CONSUMER_PROTOCOL, "group.remote.assignor": "rack-first"}
        process = s.start("consume", library, extra=extra, **own)
        if number == 0:
            accepted = ["restart_loop", "rebalance_loop"]
            s.blame_started("assignor_unknown", process[0], also=[group], accepted=accepted)
        if time.monotonic() > end:
            break
        s.wait(3.5, 4)
        s.stop(process)


# --- nothing is wrong ---


@scenario("day-of-work", healthy=True, twin_of="burst")
def day_of_work(s: Scene) -> None:
    """Twelve minutes stand for a day: load comes and goes, a job runs, a service is rolled out."""
    topics, quiet = s.background(producers=3, consumers=2), s.topic(2)
    sasl = {"bootstrap": s.brokers.bootstrap("SASL"), "user": "alice", "password": "correct-horse-battery"}
    s.start("produce", "librdkafka", topics=topics, per_second=4, **sasl)
    s.start("consume", "java", topics=[quiet])
    group, service = s.group(), s.client_id()
    members = [s.start("consume", "librdkafka", topics=topics, group=group) for _ in range(2)]
    s.opening(4)
    for hour in range(12):
        load = []
        if 3 <= hour < 10:
            load = [s.start("produce", topics=topics, per_second=15 * (1 + hour % 3)) for _ in range(2)]
        if hour == 5:
            s.start("produce", "franz-go", topics=[quiet], per_second=300, records=4000, value_bytes=600)
        if hour == 7:
            members = [
                _replaced(s, member, topics=topics, group=group, client_id=f"{service}-{number}")
                for number, member in enumerate(members)
            ]
        if hour % 4 == 2:
            s.start("produce", "kafkajs", topics=[quiet], per_second=1, records=5)
        s.wait(55, 60)
        for one in load:
            s.stop(one)


def _replaced(s: Scene, member: tuple[Work, Child], **fields: Any) -> tuple[Work, Child]:
    """Stop a member in order, and start its successor."""
    s.stop(member)
    s.wait(1, 2)
    return s.start("consume", "librdkafka", **fields)
