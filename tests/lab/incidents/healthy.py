"""Healthy life: nothing here is wrong, and a report has to stay quiet."""

from __future__ import annotations

from tests.lab.incidents.scene import Scene, scenario
from tests.lab.incidents.work import Work
from tests.lab.process import Child
from tests.lab.releases import CURRENT, EARLIER


@scenario("steady", healthy=True)
def steady(s: Scene) -> None:
    s.background(producers=4, consumers=3)
    s.opening()
    s.wait(26, 30)


@scenario("joins-and-leaves", healthy=True, twin_of="rebalance-loop")
def joins_and_leaves(s: Scene) -> None:
    """Members of a group come one by one, and one leaves in order."""
    topics, group = s.background(producers=2, consumers=0), s.group()
    libraries = s.random.choice((["java"] * 3, ["franz-go"] * 3, ["librdkafka"] * 3, ["aiokafka"] * 3))
    s.opening()
    members = []
    for library in libraries:
        members.append(s.start("consume", library, topics=topics, group=group))
        s.wait(5, 7)
    s.stop(s.random.choice(members))
    s.wait(8, 10)


@scenario("rolling-deployment", healthy=True, twin_of="deployment")
def rolling_deployment(s: Scene) -> None:
    """Each instance of a service is stopped in order and replaced by one of the next version."""
    topics, group = s.background(producers=1, consumers=1), s.group()
    library = s.pick("franz-go", "java")
    versions = ({"name": "shop", "version": "2.0.1"}, {"name": "shop", "version": "2.0.2"})
    releases = (EARLIER, CURRENT)
    fields = {"topics": topics, "per_second": 15}
    names = [s.client_id() for _ in range(2)]
    running = [
        s.start("produce", library, "", releases[0], client_id=n, **fields, **versions[0]) for n in names
    ]
    readers = [
        s.start("consume", library, "", releases[0], topics=topics, group=group, **versions[0]) for _ in "ab"
    ]
    s.opening()
    s.wait(9, 11)
    for name, client in zip(names, running, strict=True):
        s.stop(client)
        s.start("produce", library, "", releases[1], client_id=name, **fields, **versions[1])
        s.wait(2, 3)
    for work, child in readers:
        s.stop((work, child))
        s.start("consume", library, "", releases[1], topics=topics, group=group, **versions[1])
        s.wait(3, 4)
    s.wait(8, 9)


@scenario("batch-job", healthy=True, twin_of="connection-storm")
def batch_job(s: Scene) -> None:
    """A job comes, writes some thousand records, and goes."""
    topics = s.background(producers=2, consumers=2)
    s.opening()
    s.wait(9, 11)
    job = s.start(
        "produce",
        s.pick("librdkafka", "java", "franz-go"),
        topics=topics,
        records=2500,
        per_second=600,
        burst=50,
        linger_ms=20,
    )
    s.wait(9, 10)
    s.stop(job)
    reader = s.start("consume", s.pick("librdkafka", "java", "franz-go"), topics=topics)
    s.wait(6, 7)
    s.stop(reader)
    s.wait(3)


@scenario("admin-lists", healthy=True, twin_of="metadata-storm")
def admin_lists(s: Scene) -> None:
    """Somebody lists the topics now and then, as a dashboard does."""
    s.background(producers=2, consumers=2)
    for _ in range(4):
        s.topic(6)
    s.opening()
    s.wait(5)
    for library in s.random.sample(("librdkafka", "franz-go", "sarama", "kafkajs"), 2):
        s.start("list", library, per_second=s.pick(0.3, 1))
    s.wait(21, 23)


@scenario("idle-consumers", healthy=True)
def idle_consumers(s: Scene) -> None:
    """Consumers wait for records that hardly ever come; their fetches are open when the recording ends."""
    topics = [s.topic(3), s.topic(6)]
    for library in s.random.sample(("librdkafka", "franz-go", "sarama", "java", "aiokafka", "kafkajs"), 4):
        s.start("consume", library, topics=[s.random.choice(topics)])
    s.start("produce", topics=topics, per_second=0.3)
    s.opening()
    s.wait(26, 29)


@scenario("many-kinds", healthy=True)
def many_kinds(s: Scene) -> None:
    """Clients of all libraries write, compressed and not, and read a compacted topic."""
    topics = [s.topic(3, cleanup_policy="compact"), s.topic(6)]
    for library in ("librdkafka", "kafka-python", "aiokafka", "franz-go", "sarama", "kafkajs", "java"):
        s.start("produce", library, topics=topics, per_second=8, compression=s.pick("none", "gzip"))
    for library in ("librdkafka", "franz-go", "kafkajs"):
        s.start("consume", library, topics=topics)
    s.opening()
    s.wait(25, 27)


@scenario("transactions", healthy=True, twin_of="open-transaction")
def transactions(s: Scene) -> None:
    """Producers commit transactions and abort some on purpose."""
    topics = s.background(producers=1, consumers=1)
    for number, library in enumerate(s.random.sample(("librdkafka", "java", "franz-go"), 2)):
        s.start(
            "transact",
            library,
            topics=topics,
            per_second=2,
            abort_every=3,
            transactional_id=s.fresh(("tx", "booking", "transfer"), ("x", "y", "z", "0", "1")) + f"-{number}",
        )
    s.start("consume", "librdkafka", topics=topics, extra={"isolation.level": "read_committed"})
    s.opening()
    s.wait(25, 27)


@scenario("planned-quiet", healthy=True, twin_of="broker-frozen")
def planned_quiet(s: Scene) -> None:
    """All producers are stopped in order for some seconds, and go on."""
    topics = s.background(producers=0, consumers=2)
    libraries = [s.pick("librdkafka", "franz-go", "java") for _ in range(3)]
    names = [s.client_id() for _ in libraries]

    def start_all() -> list[tuple[Work, Child]]:
        return [
            s.start("produce", library, topics=topics, per_second=15, client_id=name)
            for name, library in zip(names, libraries, strict=True)
        ]

    running = start_all()
    s.opening()
    s.wait(10, 12)
    for client in running:
        s.stop(client)
    s.wait(6, 8)
    start_all()
    s.wait(8, 10)


@scenario("burst", healthy=True, twin_of="growing-lag")
def burst(s: Scene) -> None:
    """Load rises to ten times for some seconds, and the cluster takes it."""
    topics = s.background(producers=2, consumers=2)
    s.opening()
    s.wait(9, 11)
    more = s.start(
        "produce",
        s.pick("librdkafka", "java", "franz-go"),
        topics=topics,
        per_second=200,
        burst=10,
        linger_ms=10,
    )
    s.wait(6, 8)
    s.stop(more)
    s.wait(9, 10)


@scenario("far-but-steady", healthy=True, place="hosts", twin_of="path-slow")
def far_but_steady(s: Scene) -> None:
    """One host is always 20 ms away, from the beginning to the end."""
    way = s.way_to("c2")
    way.set(delay_s=0.01)
    topics = s.background(producers=2, consumers=1)
    s.start("produce", host="c2", topics=topics, per_second=15)
    s.start("consume", s.pick("librdkafka", "franz-go", "java"), host="c2", topics=topics)
    s.opening()
    s.wait(25, 27)
