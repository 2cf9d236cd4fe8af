"""Blunders of new kinds: a limit of sockets, a whole cluster gone, a member that nobody misses.

No rule was written with these in sight, as with those of `variants`."""

from __future__ import annotations

from tests.lab.incidents.groups import SESSION_MS, fed_topic
from tests.lab.incidents.mishaps import blame_errand, send_on
from tests.lab.incidents.scene import Scene, scenario

SMALL_REQUESTS = (("socket.request.max.bytes", "200000"),)


@scenario("socket-limit", twin_of="record-too-large", settings=SMALL_REQUESTS)
def socket_limit(s: Scene) -> None:
    """A producer sends records that are larger than the requests that brokers take."""
    topics = s.background(producers=2, consumers=1)
    s.opening()
    s.wait(9, 11)
    large, _ = s.start(
        "produce", s.pick("librdkafka", "franz-go", "java"), topics=topics, per_second=2, value_bytes=300_000
    )
    accepted = ["record_too_large"]
    s.blame_started("request_size_limit", large, accepted=accepted)
    s.wait(15, 17)


@scenario("all-brokers-killed", twin_of="all-brokers-frozen")
def all_brokers_killed(s: Scene) -> None:
    """All brokers die at once, as when the power goes."""
    s.background(producers=3, consumers=2)
    s.opening(6)
    s.wait(10, 13)
    names = [name for broker in s.brokers.all for name in (broker.address, f"broker {broker.number}")]
    s.blame("broker_killed", {"kind": "cluster", "name": "all brokers"}, names, accepted=["broker_down"])
    for broker in s.brokers.all:
        broker.kill()
    s.wait(12, 14)


@scenario("static-member-lost", twin_of="static-restart")
def static_member_lost(s: Scene) -> None:
    """A static member is killed and stays away: nobody reads its partitions until its session ends."""
    topic, group = fed_topic(s), s.group()
    s.background(producers=1, consumers=1)
    library = s.pick("librdkafka", "java")
    fields = {"topics": [topic], "group": group, "session_ms": SESSION_MS}
    names = s.random.sample(("pod-0", "pod-1", "node-a", "node-b"), 2)
    s.start("consume", library, instance_id=f"{group}-{names[0]}", **fields)
    lost = s.start("consume", library, instance_id=f"{group}-{names[1]}", **fields)
    s.opening(6)
    s.wait(11, 13)
    s.blame_client("session_timeout", lost[0], also=[group], seen_later_s=8)
    s.stop(lost, orderly=False)
    s.wait(15, 17)


@scenario("commit-notes-too-long", twin_of="commit-from-outside")
def commit_notes_too_long(s: Scene) -> None:
    """A consumer commits offsets with more words beside them than brokers keep."""
    topic, group = fed_topic(s), s.group()
    s.background(producers=1, consumers=1)
    s.opening()
    s.wait(9, 11)
    client_id, _ = send_on(s, "commit_with_notes", group=group, topic=topic, note_bytes=6000, pause_s=1.0)
    blame_errand(s, "offset_metadata_too_large", client_id, [group, topic])
    s.wait(15, 17)


@scenario("requests-throttled", twin_of="quota")
def requests_throttled(s: Scene) -> None:
    """A producer may use a thousandth of a broker's threads, and sends many small requests."""
    topics = s.background(producers=2, consumers=1)
    own = {"per_second": 150, "value_bytes": 100, "linger_ms": 0}
    busy, _ = s.start("produce", s.pick("sarama", "librdkafka", "java"), topics=topics, **own)
    s.opening(6)
    s.wait(9, 11)
    s.brokers.limit_time(busy.client_id, 0.1)
    s.blame_client("quota", busy, seen_later_s=3)
    s.wait(15, 17)


# --- nothing is wrong ---


@scenario("one-dead-address", healthy=True, twin_of="bootstrap-refused")
def one_dead_address(s: Scene) -> None:
    """Clients have an address in their settings at which nobody listens, and good ones beside it."""
    topics = s.background(producers=2, consumers=1)
    good = s.brokers.bootstrap("CLIENT")
    dead = f"{s.brokers.all[0].ip}:9999"
    s.opening(2)
    s.wait(6, 7)
    for library in ("librdkafka", "franz-go", "java"):
        s.start("produce", library, topics=topics, bootstrap=f"{dead},{good}", per_second=6)
    s.wait(18, 20)


@scenario("topics-made-if-missing", healthy=True, twin_of="replication-factor-refused")
def topics_made_if_missing(s: Scene) -> None:
    """Three instances of an application create its topics when they start; the topics are there."""
    topics = s.background(producers=2, consumers=1)
    s.opening()
    s.wait(6, 7)
    for _ in range(3):
        send_on(s, "create_if_missing", topics=topics)
        s.start("produce", s.pick("librdkafka", "kafkajs"), topics=topics, per_second=5)
        s.wait(4, 5)
    s.wait(8, 9)
