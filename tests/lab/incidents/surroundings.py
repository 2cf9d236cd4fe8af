"""Surroundings of clients: names that lead nowhere, impatient settings, slips of operators, other frameworks.

No rule was written with these in sight, as with those of `variants`."""

from __future__ import annotations

from tests.lab.incidents.brokers import USERS
from tests.lab.incidents.groups import fed_topic
from tests.lab.incidents.paths import blame_pair, way_between_brokers
from tests.lab.incidents.requests import lone_producer
from tests.lab.incidents.scene import Scene, scenario
from tests.lab.incidents.servers import misadvertise
from tests.lab.incidents.variants import CONSUMER_PROTOCOL, NEW_GROUPS

# --- addresses ---


def misdirected(s: Scene, listener: str, advertised: str, **login: str) -> None:
    """Make one broker advertise another address, then start clients."""
    broker = s.broker()
    topics = s.background(producers=1, consumers=1)
    names = [f"broker {broker.number}", broker.address, advertised]
    misadvertise(s, broker, topics, advertised, names, listener)
    own = {"topics": topics, "bootstrap": s.brokers.bootstrap(listener), **login}
    for library in s.random.sample(("librdkafka", "java", "franz-go", "kafkajs", "sarama"), 3):
        s.start("produce", library, per_second=10, **own)
    s.start("consume", **own)
    s.wait(22, 24)


@scenario("advertised-unknown-name", place="loopback", twin_of="wrong-advertised-listener")
def advertised_unknown_name(s: Scene) -> None:
    """A broker advertises the name that it has in its own container network; no client can resolve it."""
    misdirected(s, "CLIENT", s.pick("kafka-2.kafka-headless.svc:9092", "broker-c.internal.example:9092"))


@scenario("advertised-localhost", place="hosts", twin_of="wrong-advertised-listener")
def advertised_localhost(s: Scene) -> None:
    """A broker advertises localhost: each client looks for it on its own machine."""
    misdirected(s, "SASL", "localhost:9094", user="alice", password=USERS["alice"])


@scenario("bootstrap-refused", twin_of="wrong-advertised-listener")
def bootstrap_refused(s: Scene) -> None:
    """A client has a port in its settings at which no broker listens."""
    topics = s.background(producers=2, consumers=1)
    s.opening()
    s.wait(9, 11)
    wrong = f"{s.brokers.all[0].ip}:9999"
    library = s.pick("librdkafka", "java", "franz-go", "sarama")
    lost, address = lone_producer(s, library, topics=topics, bootstrap=wrong)
    accepted = ["broker_down", "connections_refused"]
    s.blame_started("address_refused", lost, also=[address, wrong], opened_to=(9999,), accepted=accepted)
    s.wait(14, 15)


# --- settings of clients ---


@scenario("request-timeout-short", twin_of="broker-slow")
def request_timeout_short(s: Scene) -> None:
    """A consumer gives each request less time than it lets the broker wait for records."""
    topic = s.topic(3)
    s.background(producers=2, consumers=1)
    s.opening()
    s.wait(9, 11)
    impatient, _ = s.start("consume", "java", topics=[topic], extra={"request.timeout.ms": 300})
    s.blame_started("request_timeout_short", impatient, also=[impatient.group], seen_later_s=1)
    s.wait(14, 15)


@scenario("session-timeout-refused", twin_of="session-timeout")
def session_timeout_refused(s: Scene) -> None:
    """A consumer wants a session that is shorter than the brokers allow."""
    topic = fed_topic(s)
    s.background(producers=1, consumers=1)
    s.opening()
    s.wait(9, 11)
    library = s.pick("java", "franz-go", "sarama")
    hasty, _ = s.start("consume", library, topics=[topic], session_ms=700)
    s.blame_started("session_timeout_refused", hasty, also=[hasty.group])
    s.wait(14, 15)


@scenario("invalid-topic-name", twin_of="missing-topic")
def invalid_topic_name(s: Scene) -> None:
    """A producer writes to a topic whose name has a character that no topic may have."""
    topics = s.background(producers=2, consumers=1)
    s.opening()
    s.wait(9, 11)
    name = f"{topics[0]}/{s.pick('daily', 'new')}"
    library = s.pick("java", "franz-go", "sarama")
    naming, _ = s.start("produce", library, topics=[name], per_second=5)
    s.blame_started("invalid_topic_name", naming, also=[name], accepted=["missing_topic"])
    s.wait(14, 15)


# --- operators ---


@scenario("in-sync-replicas-raised", twin_of="too-few-in-sync-replicas")
def in_sync_replicas_raised(s: Scene) -> None:
    """An operator asks for three replicas in sync on a topic that has two."""
    topic = s.topic(3, replicas=2)
    s.background(producers=2, consumers=1)
    for library in s.random.sample(("librdkafka", "java", "franz-go", "sarama"), 2):
        s.start("produce", library, topics=[topic], per_second=10)
    s.opening()
    s.wait(10, 12)
    s.blame("too_few_in_sync_replicas", {"kind": "topic", "name": topic}, [topic])
    s.brokers.configure("topic", topic, min_insync_replicas=3)
    s.wait(13, 14)


@scenario("partition-without-leader", twin_of="leader-election")
def partition_without_leader(s: Scene) -> None:
    """The only replica of a topic is on a broker that was down before anybody recorded."""
    topic = s.topic(1, replicas=1)
    s.background(producers=2, consumers=1)
    broker = s.brokers.broker(s.brokers.leader(topic, 0))
    broker.stop()
    s.roll(2)
    s.wait(8, 9)
    library = s.pick("librdkafka", "java", "franz-go")
    writing, _ = s.start("produce", library, topics=[topic], per_second=10)
    names = [topic, broker.address, f"broker {broker.number}"]
    accepted = ["broker_down", "broker_stopped", "missing_topic"]
    s.blame_started("partition_without_leader", writing, also=names, accepted=accepted)
    s.wait(14, 15)


@scenario("replica-far", place="hosts", twin_of="path-slow")
def replica_far(s: Scene) -> None:
    """The way between two brokers becomes long: writes of acks=all wait for the replica behind it."""
    way, ends = way_between_brokers(s)
    onset = way.set(delay_s=s.between(0.08, 0.12), peer=ends[1])
    blame_pair(s, "path_slow", ends, onset, accepted=["follower_behind"])
    s.later(way.set)
    s.wait(14, 16)


# --- nothing is wrong ---


@scenario("stream-application", healthy=True, twin_of="open-transaction")
def stream_application(s: Scene) -> None:
    """A stream application reads a topic, keeps a changelog and writes results in transactions."""
    source, changes, results = fed_topic(s), s.topic(3, cleanup_policy="compact"), s.topic(3)
    s.background(producers=1, consumers=1)
    host, group = s.host(), s.group()
    for number in (1, 2):
        name = f"{group}-stream-thread-{number}"
        s.start("consume", "java", host, topics=[source], group=group, client_id=f"{name}-consumer")
        own = {"client_id": f"{name}-producer", "transactional_id": f"{group}-{number}"}
        s.start("transact", "java", host, topics=[changes, results], per_second=5, linger_ms=100, **own)
    s.start("consume", "java", topics=[results])
    s.opening()
    s.wait(24, 26)


@scenario("connector-batches", healthy=True, twin_of="burst")
def connector_batches(s: Scene) -> None:
    """A connector writes a few hundred records at once each few seconds, and rests; a sink reads them."""
    topic = s.topic(3)
    s.background(producers=1, consumers=1)
    s.start("produce", "java", topics=[topic], per_second=100, burst=400, linger_ms=50, value_bytes=600)
    s.start("consume", "java", topics=[topic], rest_ms=0.5)
    s.opening()
    s.wait(25, 27)


@scenario("new-group-deployment", settings=NEW_GROUPS, healthy=True, twin_of="new-group-member-killed")
def new_group_deployment(s: Scene) -> None:
    """The members of a KIP-848 group are replaced one by one."""
    topics, group = s.background(producers=2, consumers=0), s.group()
    library = s.pick("librdkafka", "java")
    own = {"topics": topics, "group": group, "extra": CONSUMER_PROTOCOL}
    members = [s.start("consume", library, **own) for _ in range(3)]
    s.opening(4)
    s.wait(8, 9)
    for member in members:
        s.stop(member)
        s.wait(0.5, 1)
        s.start("consume", library, **own)
        s.wait(3, 4)
    s.wait(5, 6)


@scenario("idle-members", healthy=True, twin_of="rebalance-loop")
def idle_members(s: Scene) -> None:
    """A group has more members than the topic has partitions; the rest stand by."""
    topic, group = s.topic(2), s.group()
    s.background(producers=1, consumers=1)
    s.start("produce", topics=[topic], per_second=20)
    s.opening()
    for library in s.random.choices(("java", "librdkafka"), k=4):
        s.start("consume", library, topics=[topic], group=group, strategy="range")
        s.wait(0.5, 1)
    s.wait(22, 24)
