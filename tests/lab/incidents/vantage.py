"""Known causes seen from another place: one client's host or one broker, cut packets, a capture that begins
late or ends early, hardly any load or much, two incidents in one capture.

No rule was written with these in sight, as with those of `variants`."""

from __future__ import annotations

from tests.lab.incidents.brokers import Broker
from tests.lab.incidents.first_packet import Mark
from tests.lab.incidents.groups import POLL_MS, fed_topic
from tests.lab.incidents.paths import blame_path
from tests.lab.incidents.scene import Scene, scenario
from tests.lab.incidents.servers import misadvertise

HEADERS = 96  # bytes of a packet: its headers and the first 30 bytes of what it carries
HERE = "c2"


def beside_client(s: Scene, topics: list[str], *libraries: str, per_second: float = 1.0) -> None:
    """Start producers and a consumer on one host of clients, and record there."""
    s.record_at = HERE
    for library in libraries:
        s.start("produce", library, HERE, topics=topics, per_second=per_second, linger_ms=0)
    s.start("consume", s.pick("kafkajs", "sarama", "rust"), HERE, topics=topics)


def beside_broker(s: Scene, *others: Broker) -> Broker:
    """Record at a broker that is none of the others; return it."""
    broker = s.pick(*(one for one in s.brokers.all if one not in others))
    s.record_at = broker.host
    return broker


# --- seen by one client ---


@scenario("frozen-seen-by-client", place="hosts", twin_of="path-dead")
def frozen_seen_by_client(s: Scene) -> None:
    """A broker stands still for four seconds; the capture is of one host that sends a record a second."""
    topics = s.background(producers=2, consumers=1)
    beside_client(s, topics, "rust", "kafkajs", "franz-go")
    s.roll(6)
    s.wait(11, 13)
    broker = s.broker()
    s.blame_broker("broker_frozen", broker, broker.freeze())
    s.later(broker.thaw)
    s.wait(4, 4.3)
    s.ended(broker.thaw())
    s.wait(10, 12)


@scenario("refused-seen-by-client", place="hosts", twin_of="wrong-advertised-listener")
def refused_seen_by_client(s: Scene) -> None:
    """A broker advertises a port where nothing listens; the capture is of one host of clients."""
    broker, topics = s.broker(), s.background(producers=1, consumers=1)
    wrong = f"{broker.ip}:9999"
    s.record_at = HERE
    misadvertise(s, broker, topics, wrong, [wrong])
    beside_client(s, topics, "kafkajs", "sarama", per_second=5)
    s.wait(22, 24)


@scenario("slow-consumer-seen-by-client", place="hosts", twin_of="session-timeout")
def slow_consumer_seen_by_client(s: Scene) -> None:
    """A Java consumer is too slow for max.poll.interval.ms; the capture is of its host, which is busy."""
    topic, group = fed_topic(s, 40), s.group()
    topics = s.background(producers=1, consumers=0)
    s.start("consume", "librdkafka", "c1", topics=[topic], group=group)
    for library in ("franz-go", "rust"):
        s.start("produce", library, HERE, topics=topics, per_second=300, value_bytes=400, linger_ms=5)
    s.record_at = HERE
    s.opening(6)
    s.wait(8, 9)
    own = {"topics": [topic], "group": group, "poll_ms": POLL_MS, "session_ms": 6000, "rest_ms": 9000}
    slow, _ = s.start("consume", "java", HERE, extra={"max.poll.records": 1}, **own)
    s.blame_started("slow_consumer", slow, also=[group], seen_later_s=14)
    s.wait(28, 30)


# --- seen by one broker ---


@scenario("killed-seen-by-broker", place="hosts", twin_of="broker-stopped")
def killed_seen_by_broker(s: Scene) -> None:
    """A broker is killed; the capture is of another broker."""
    topics = s.background(producers=2, consumers=1)
    s.start("produce", "rust", topics=topics, per_second=10)
    s.start("produce", "kafkajs", topics=topics, per_second=10)
    broker = s.broker()
    beside_broker(s, broker)
    s.opening(6)
    s.wait(10, 13)
    s.blame_broker("broker_killed", broker)
    broker.kill()
    s.wait(15, 17)


@scenario("dead-path-seen-by-broker", place="hosts", twin_of="host-gone")
def dead_path_seen_by_broker(s: Scene) -> None:
    """The way to a host of clients is dead for twelve seconds; the capture is of one broker."""
    way = s.way_to(HERE)
    topics = s.background(producers=2, consumers=1)
    for library in ("rust", "sarama", "franz-go"):
        s.start("produce", library, HERE, topics=topics, per_second=15)
    s.start("consume", "kafkajs", HERE, topics=topics)
    beside_broker(s)
    s.opening(6)
    s.wait(10, 12)
    blame_path(s, "path_dead", HERE, way.set(cut=True))
    s.wait(12)
    s.ended(way.set())
    s.wait(9, 11)


@scenario("large-responses-lost", place="hosts", twin_of="large-packets-lost")
def large_responses_lost(s: Scene) -> None:
    """Full segments to a host of consumers are lost; the capture is of one broker."""
    way, topic = s.way_to(HERE), s.topic(3)
    s.background(producers=1, consumers=1)
    s.start("produce", "franz-go", "c1", topics=[topic], per_second=60, value_bytes=900, linger_ms=20)
    s.start("produce", "rust", HERE, topics=[topic], per_second=3, value_bytes=100)
    beside_broker(s)
    s.opening(6)
    s.wait(7, 9)
    way.set(largest=1000)
    reader, _ = s.start("consume", s.pick("librdkafka", "sarama", "franz-go"), HERE, topics=[topic])
    address = s.place.address(HERE)
    subject = {"kind": "path", "host": address, "name": f"host {address}"}
    s.blame("large_packets_lost", subject, [address, reader.client_id], begins_with_loss=True)
    s.wait(21, 23)


# --- cut packets, other beginnings and ends ---


@scenario("frozen-before-capture", twin_of="broker-frozen")
def frozen_before_capture(s: Scene) -> None:
    """A broker stands still for eight seconds, and the capture begins when it does already."""
    topics = s.background(producers=2, consumers=2)
    s.start("produce", "rust", topics=topics, per_second=10)
    s.wait(8, 9)
    broker = s.broker()
    s.later(broker.thaw)
    broker.freeze()
    s.wait(2.5, 3)
    s.roll()
    s.blame_broker("broker_frozen", broker, s.truth["begin_ns"])
    s.wait(5)
    s.ended(broker.thaw())
    s.wait(11, 13)


@scenario("slow-cut-short", twin_of="broker-overloaded")
def slow_cut_short(s: Scene) -> None:
    """A broker becomes slow and stays so to the end; of each packet 96 bytes were kept."""
    s.snaplen = HEADERS
    topics = s.background(producers=2, consumers=2)
    s.start("produce", "sarama", topics=topics, per_second=10)
    s.opening(6)
    s.wait(11, 13)
    broker = s.broker()
    s.later(broker.thaw)
    s.blame_broker("broker_slow", broker)
    broker.stutter(s.between(0.06, 0.11), s.between(0.01, 0.02), s.between(12, 13))
    s.cut()


@scenario("hot-partition-cut-short", twin_of="burst")
def hot_partition_cut_short(s: Scene) -> None:
    """One partition takes nearly all of a heavy load; of each packet 200 bytes were kept."""
    s.snaplen = 200
    topic = s.topic(6)
    s.background(producers=1, consumers=1)
    s.start("produce", "sarama", topics=[topic], per_second=5, value_bytes=100)
    own = {"per_second": 400, "value_bytes": 600, "key": "tenant-1", "linger_ms": 10}
    hot, _ = s.start("produce", "franz-go", topics=[topic], **own)
    s.start("consume", "rust", topics=[topic])
    s.opening(6)
    subject = {"kind": "partition", "topic": topic, "name": topic}
    s.blame("hot_partition", subject, [topic, hot.client_id], s.truth["begin_ns"])
    s.wait(22, 24)


@scenario("retry-storm-under-way", twin_of="too-few-in-sync-replicas")
def retry_storm_under_way(s: Scene) -> None:
    """A broker is down and a topic takes no writes; the capture begins after that and ends before its end."""
    topics = s.background(producers=2, consumers=1)
    topic = s.topic(3, replicas=2, min_insync_replicas=2)
    own = {"retry.backoff.ms": 5, "retry.backoff.max.ms": 10, "message.send.max.retries": 1_000_000}
    storming, _ = s.start("produce", "rust", topics=[topic], per_second=20, extra=own)
    s.start("produce", "kafkajs", topics=topics, per_second=5)
    s.wait(6, 7)
    broker = s.broker()
    broker.stop()
    s.roll(4)
    names = [topic, broker.address, f"broker {broker.number}"]
    accepted = ["too_few_in_sync_replicas"]
    begin = s.truth["begin_ns"]
    s.blame_client("retry_storm", storming, begin, also=names, accepted=accepted)
    s.wait(17, 19)


# --- two incidents ---


@scenario("zombie-and-quota", twin_of="quota")
def zombie_and_quota(s: Scene) -> None:
    """A client runs into its quota; then a second producer takes a transactional.id, which is graver."""
    topics = s.background(producers=1, consumers=1)
    name = s.fresh(("tx", "transfer", "booking"), ("a", "b", "main", "0"))
    first, _ = s.start("transact", "franz-go", topics=topics, transactional_id=name, per_second=2)
    own = {"per_second": 120, "value_bytes": 500, "linger_ms": 30}
    greedy, _ = s.start("produce", s.pick("sarama", "rust"), topics=topics, **own)
    s.opening(6)
    s.wait(8, 9)
    s.brokers.limit_client(greedy.client_id, 5_000)
    s.wait(7, 8)
    second, _ = s.start("transact", "rust", topics=topics, transactional_id=name, per_second=2)
    subject = {"kind": "producer", "name": name, "client": first.client_id}
    s.blame("zombie_producer", subject, [name, first.client_id], beside=["quota", greedy.client_id])
    s.shown_by = Mark((second.client_id, name))
    s.wait(13, 15)


@scenario("killed-and-wrong-password", twin_of="wrong-password")
def killed_and_wrong_password(s: Scene) -> None:
    """A client has a wrong password all the time; then a broker is killed, which is graver."""
    topics = s.background(producers=3, consumers=2)
    s.opening(6)
    s.wait(5, 6)
    login = {"user": "bob", "password": "password1", "mechanism": "SCRAM-SHA-256"}
    sasl = s.brokers.bootstrap("SASL")
    wrong, _ = s.start("produce", s.pick("kafkajs", "franz-go"), topics=topics, bootstrap=sasl, **login)
    s.wait(9, 10)
    broker = s.broker()
    s.blame_broker("broker_killed", broker, beside=["wrong_password", wrong.client_id, "bob"])
    broker.kill()
    s.wait(15, 17)


# --- nothing is wrong ---


@scenario("healthy-seen-by-client", place="hosts", healthy=True, twin_of="frozen-seen-by-client")
def healthy_seen_by_client(s: Scene) -> None:
    """Clients of one host send a record a second; the capture is of that host."""
    topics = s.background(producers=2, consumers=1)
    beside_client(s, topics, "rust", "kafkajs", "franz-go")
    s.opening(6)
    s.wait(26, 28)


@scenario("healthy-seen-by-broker", place="hosts", healthy=True, twin_of="killed-seen-by-broker")
def healthy_seen_by_broker(s: Scene) -> None:
    """Clients write much, some in transactions, and a member comes and goes; one broker is seen."""
    topic, group = fed_topic(s, 200), s.group()
    s.background(producers=2, consumers=1)
    name = s.fresh(("tx", "transfer", "booking"), ("a", "b", "main", "0"))
    s.start("transact", "rust", topics=[topic], transactional_id=name, per_second=5)
    s.start("consume", "franz-go", topics=[topic], group=group)
    beside_broker(s)
    s.opening(6)
    s.wait(9, 10)
    late = s.start("consume", "sarama", topics=[topic], group=s.group())
    s.wait(9, 10)
    s.stop(late)
    s.wait(7, 8)


@scenario("healthy-cut-short", healthy=True, twin_of="slow-cut-short")
def healthy_cut_short(s: Scene) -> None:
    """All is well, a member joins and another one leaves; of each packet 96 bytes were kept."""
    s.snaplen = HEADERS
    topic, group = fed_topic(s), s.group()
    s.background(producers=3, consumers=2)
    first = s.start("consume", "kafkajs", topics=[topic], group=group)
    s.opening(6)
    s.wait(9, 10)
    s.start("consume", "kafkajs", topics=[topic], group=group)
    s.wait(8, 9)
    s.stop(first)
    s.wait(7, 8)


@scenario("healthy-under-way", healthy=True, twin_of="retry-storm-under-way")
def healthy_under_way(s: Scene) -> None:
    """Clients hardly do anything, joined long ago, and go on after the end of the capture."""
    topics = s.background(producers=0, consumers=2)
    for library in ("kafkajs", "rust", "sarama"):
        s.start("produce", library, topics=topics, per_second=0.7, linger_ms=0)
    s.roll(12)
    s.wait(22, 24)
    s.cut()
