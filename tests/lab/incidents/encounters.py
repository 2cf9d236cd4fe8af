"""Encounters of kinds that no other module has: a disk of several, another cluster, sessions that end, tools
that ask too much, connections that nobody closes, a broker that its controller has lost.

No rule was written with these in sight, as with those of `variants`."""

from __future__ import annotations

import contextlib
import subprocess
import time

from tests.lab.incidents.brokers import USERS, Broker
from tests.lab.incidents.first_packet import Mark
from tests.lab.incidents.groups import fed_topic
from tests.lab.incidents.limits import APART
from tests.lab.incidents.mishaps import blame_errand, send_on
from tests.lab.incidents.scene import Scene, scenario

SHORT_SESSIONS = (("listener.name.sasl.connections.max.reauth.ms", "5000"),)
TWO_DISKS = (("log.dir.failure.timeout.ms", "60000"),)  # named so that a cluster is started for it alone
FENCED_AFTER_S = 9.0  # broker.session.timeout.ms


def add_disk(s: Scene, broker: Broker, megabytes: int) -> None:
    """Add a second folder for logs, on a small disk of its own, to a broker until the recording has ended."""
    disk, first = broker.folder / "disk", broker.folder / "data"
    broker.stop()
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(disk)], check=True)

    def restore() -> None:
        broker.kill()
        subprocess.run(["umount", "-l", str(disk)], check=True)
        s.brokers.write_settings(broker)

    s.later(restore)
    s.brokers.write_settings(broker, log_dirs=f"{first},{disk}")
    s.brokers.formatter(broker, s.brokers.cluster_id()).wait()
    broker.start()
    s.brokers.wait_until_listening(broker)
    s.brokers.ready()


@scenario("log-directory-fails", place="hosts", settings=TWO_DISKS, twin_of="disk-full")
def log_directory_fails(s: Scene) -> None:
    """One of two disks of a broker is full: the broker goes on without it, and leads less."""
    broker = s.broker()
    add_disk(s, broker, 150)
    lone, shared = s.topic(6, replicas=1), s.topic(6)
    s.brokers.elect_preferred(lone, shared)
    s.background([shared], producers=2, consumers=1)
    for library in ("franz-go", "rust"):
        s.start("produce", library, topics=[lone], per_second=20)
    s.opening(6)
    s.wait(10, 12)
    names = [broker.address, f"broker {broker.number}", lone]
    accepted = ["partition_without_leader"]
    subject = {"kind": "server", "id": broker.number, "address": broker.address, "topic": lone}
    s.blame("log_directory_failed", subject, names, accepted=accepted, seen_later_s=2)
    with contextlib.suppress(OSError), (broker.folder / "disk" / "filled").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 12))
    s.wait(15, 17)


@scenario("clusters-mixed", place="hosts", twin_of="missing-topic")
def clusters_mixed(s: Scene) -> None:
    """One of the bootstrap servers of a service is a broker of another cluster."""
    stranger = s.brokers.stranger("c5")
    s.later(stranger.kill)
    topics = s.background(producers=2, consumers=1)
    s.opening(10)
    s.wait(9, 11)
    address = f"{s.place.address('c5')}:9092"
    subject = {"kind": "server", "address": address}
    s.blame("clusters_mixed", subject, [address], seen_later_s=2)
    s.shown_by = Mark(opened_from=s.place.address("c3"), ports=(9092,))
    mixed = f"{address},{s.brokers.all[0].address}"
    for library in ("librdkafka", "java", "franz-go", "sarama"):
        s.start("produce", library, "c3", topics=topics, bootstrap=mixed, per_second=8)
    s.wait(17, 19)


@scenario("session-expired", settings=SHORT_SESSIONS, twin_of="reauthentication")
def session_expired(s: Scene) -> None:
    """Sessions last five seconds, and clients of a library that cannot log in again are cut off each time."""
    topics = s.background(producers=2, consumers=1)
    sasl = {"bootstrap": s.brokers.bootstrap("SASL"), "user": "alice", "password": USERS["alice"]}
    s.start("produce", "librdkafka", topics=topics, per_second=8, **sasl)
    s.opening(6)
    s.wait(8, 9)
    library = "aiokafka"
    cut, _ = s.start("produce", library, topics=topics, per_second=10, **sasl)
    accepted = ["connections_reset", "connection_churn"]
    s.blame_started("session_expired", cut, also=["alice"], accepted=accepted, seen_later_s=7)
    s.wait(27, 29)


@scenario("response-too-large", twin_of="record-too-large")
def response_too_large(s: Scene) -> None:
    """A consumer takes responses of 20 kB; a larger record comes, and it closes the connection each time."""
    topic, group = s.topic(1), s.group()
    s.background(producers=1, consumers=1)
    s.start("produce", "sarama", topics=[topic], per_second=5)
    sizes = ("fetch.max.bytes", "fetch.message.max.bytes", "message.max.bytes")
    own: dict[str, object] = dict.fromkeys(sizes, 10_000)
    own["receive.message.max.bytes"] = 20_000
    reader, _ = s.start("consume", s.pick("librdkafka", "rust"), topics=[topic], group=group, extra=own)
    s.opening(6)
    s.wait(10, 12)
    large, _ = s.start("produce", "franz-go", topics=[topic], per_second=1, value_bytes=60_000)
    s.blame_client("response_too_large", reader, also=[group, topic], seen_later_s=2)
    s.shown_by = Mark((large.client_id,))
    s.wait(16, 18)


@scenario("admin-storm", twin_of="admin-lists")
def admin_storm(s: Scene) -> None:
    """A tool asks for the settings of topics and for groups, a hundred times a second."""
    topics = [*s.background(producers=2, consumers=2), *(s.topic(3) for _ in range(3))]
    s.opening(6)
    s.wait(10, 11)
    client_id, _ = send_on(s, "poll_settings", topics=topics, pause_s=0.005)
    blame_errand(s, "admin_storm", client_id, [], accepted=["metadata_storm"])
    s.wait(15, 17)


@scenario("connection-leak", twin_of="connection-storm")
def connection_leak(s: Scene) -> None:
    """An application makes a consumer for each piece of work, and closes none of them."""
    topics = s.background(producers=2, consumers=1)
    s.opening(6)
    s.wait(9, 10)
    client_id, _ = send_on(s, "leak_connections", topic=topics[0], pause_s=0.4)
    accepted = ["connection_storm", "connection_churn"]
    blame_errand(s, "connection_leak", client_id, [], accepted=accepted, seen_later_s=4)
    s.wait(24, 26)


@scenario("offsets-not-kept", twin_of="static-restart")
def offsets_not_kept(s: Scene) -> None:
    """A consumer never commits: after each restart it reads everything once more."""
    topic, group, name = fed_topic(s, 40, partitions=3), s.group(), s.client_id()
    s.background(producers=1, consumers=1)
    extra = {"enable.auto.commit": False, "auto.offset.reset": "earliest"}
    own = {"topics": [topic], "group": group, "client_id": name, "extra": extra}
    reader = s.start("consume", "librdkafka", **own)
    s.opening(8)
    s.wait(9, 10)
    s.stop(reader)
    s.wait(1)
    reader = s.start("consume", "librdkafka", **own)
    subject = {"kind": "client", "name": name, "group": group}
    s.blame("offsets_not_committed", subject, [name, group], time.time_ns(), seen_later_s=4)
    s.wait(9, 10)
    s.stop(reader)
    s.wait(1)
    s.start("consume", "librdkafka", **own)
    s.wait(9, 10)


@scenario("broker-fenced", place="hosts", settings=APART, twin_of="leader-election")
def broker_fenced(s: Scene) -> None:
    """A broker cannot reach its controller, which gives its partitions to others; clients still reach it."""
    broker = s.pick(*s.brokers.all[1:])  # the controller lives beside the first one
    way = s.way_to(broker.host)
    topics = s.background(producers=3, consumers=2)
    s.brokers.elect_preferred(*topics)
    s.opening(6)
    s.wait(10, 11)
    onset = way.set(cut=True, port=9093)
    s.blame_broker(
        "broker_fenced", broker, onset, accepted=["leader_election"], seen_later_s=FENCED_AFTER_S + 3
    )
    s.wait(26, 28)
