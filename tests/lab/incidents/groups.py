"""Incidents of consumer groups and transactions."""

from __future__ import annotations

import itertools
import signal
import time

from tests.lab.incidents.first_packet import Mark
from tests.lab.incidents.scene import Scene, scenario
from tests.lab.incidents.work import Work

SESSION_MS = POLL_MS = 6000


def fed_topic(s: Scene, per_second: float = 15, partitions: int = 6) -> str:
    """Create a topic and a producer that fills it."""
    topic = s.topic(partitions)
    s.start("produce", topics=[topic], per_second=per_second, linger_ms=10)
    return topic


@scenario("slow-consumer", twin_of="session-timeout")
def slow_consumer(s: Scene) -> None:
    """One member rests longer between two polls than max.poll.interval.ms allows, again and again."""
    topic, group = fed_topic(s), s.group()
    s.background(producers=1, consumers=1)
    s.start("consume", s.pick("librdkafka", "java"), topics=[topic], group=group)
    slow, _ = s.start(
        "consume",
        "librdkafka",
        topics=[topic],
        group=group,
        poll_ms=POLL_MS,
        session_ms=6000,
        rest_ms=s.between(8500, 9500),
    )
    s.opening(2)
    s.wait(28, 32)
    s.blame_client("slow_consumer", slow, last_poll_ns(s, slow), also=[group], seen_later_s=7)


def last_poll_ns(s: Scene, slow: Work) -> int:
    """Return when a member of librdkafka polled last before it was too late, by the first line that says so.

    %4|1795362768.202|MAXPOLL|… Application maximum poll interval (6000ms) exceeded by 88ms
    """
    moments = (float(line.split("|")[1]) for line in s.log_of(slow) if "MAXPOLL" in line)
    return int((next(moments) - POLL_MS / 1000) * 1e9)


@scenario("session-timeout", twin_of="slow-consumer")
def session_timeout(s: Scene) -> None:
    """A member's process is killed: nobody leaves the group, the coordinator notices later."""
    topic, group = fed_topic(s), s.group()
    s.background(producers=1, consumers=1)
    fields = {"topics": [topic], "group": group, "session_ms": SESSION_MS}
    library = s.pick("librdkafka", "franz-go", "sarama", "kafkajs", "java")
    s.start("consume", library, **fields)
    gone = s.start("consume", library, **fields)
    s.opening()
    s.wait(12, 15)
    s.blame_client("session_timeout", gone[0], also=[group], seen_later_s=SESSION_MS / 1000 + 1)
    s.stop(gone, orderly=False)
    s.wait(13, 15)


@scenario("member-frozen", twin_of="slow-consumer")
def member_frozen(s: Scene) -> None:
    """A member's process hangs: no heartbeat for longer than its session, then it comes back."""
    topic, group = fed_topic(s), s.group()
    s.background(producers=1, consumers=1)
    fields = {"topics": [topic], "group": group, "session_ms": SESSION_MS}
    library = s.pick("librdkafka", "aiokafka", "kafka-python", "franz-go")
    s.start("consume", library, **fields)
    work, child = s.start("consume", library, **fields)
    s.opening()
    s.wait(11, 13)
    assert child.process is not None
    s.blame_client("session_timeout", work, also=[group], seen_later_s=SESSION_MS / 1000 + 1)
    child.process.send_signal(signal.SIGSTOP)
    s.wait(9, 11)
    s.ended()
    child.process.send_signal(signal.SIGCONT)
    s.wait(6, 8)


@scenario("rebalance-loop", twin_of="joins-and-leaves")
def rebalance_loop(s: Scene) -> None:
    """A member dies some seconds after each start, and is started again each time."""
    topic, group = fed_topic(s), s.group()
    s.background(producers=1, consumers=1)
    library, name, host = s.pick("librdkafka", "franz-go", "aiokafka", "sarama"), s.client_id(), s.host()
    for _ in range(2):
        s.start("consume", library, topics=[topic], group=group)
    s.opening()
    s.wait(8, 10)
    onset = time.time_ns()
    end = time.monotonic() + s.between(20, 23)
    orderly = s.pick(True, False)
    for number in itertools.count():
        member = s.start(
            "consume", library, host, topics=[topic], group=group, client_id=name, session_ms=6000
        )
        if number == 0:
            s.blame_started("rebalance_loop", member[0], onset, also=[group])
        if time.monotonic() > end:
            break
        s.wait(2.2, 3.2)
        s.stop(member, orderly)


@scenario("duplicate-instance-id", twin_of="rebalance-loop")
def duplicate_instance_id(s: Scene) -> None:
    """Two members were given one group.instance.id and fence each other."""
    topic, group = fed_topic(s), s.group()
    s.background(producers=1, consumers=1)
    name = s.fresh(("pod", "node", "member", "instance"), ("0", "1", "7", "main"))
    library = s.pick("java", "librdkafka", "aiokafka") if s.seed % 2 else s.pick("librdkafka", "kafka-python")
    s.start("consume", library, topics=[topic], group=group, instance_id=name)
    s.opening()
    s.wait(8, 11)
    second, _ = s.start("consume", library, topics=[topic], group=group, instance_id=name)
    s.blame("duplicate_instance_id", {"kind": "group", "name": group, "instance": name}, [name])
    s.shown_by = Mark((second.client_id, name))
    end = time.monotonic() + s.between(16, 18)
    while time.monotonic() < end:
        s.wait(4)
        # A member that was put out is started again, as a supervisor does.
        s.start("consume", library, topics=[topic], group=group, instance_id=name, client_id=second.client_id)


@scenario("zombie-producer")
def zombie_producer(s: Scene) -> None:
    """A second producer with the transactional id of one that still runs, which is fenced."""
    topic = s.topic()
    s.background(producers=1, consumers=1)
    name = s.fresh(("tx", "transfer", "booking"), ("a", "b", "main", "0"))
    library = s.pick("librdkafka", "java", "franz-go")
    first, _ = s.start("transact", library, topics=[topic], transactional_id=name, per_second=2)
    s.start("consume", "librdkafka", topics=[topic], extra={"isolation.level": "read_committed"})
    s.opening()
    s.wait(11, 14)
    again = s.pick("librdkafka", "franz-go")
    second, _ = s.start("transact", again, topics=[topic], transactional_id=name, per_second=2)
    subject = {"kind": "producer", "name": name, "client": first.client_id}
    s.blame("zombie_producer", subject, [name, first.client_id])
    s.shown_by = Mark((second.client_id, name))
    s.wait(13, 15)


@scenario("open-transaction", twin_of="transactions")
def open_transaction(s: Scene) -> None:
    """A producer leaves a transaction open; readers of committed records stand still."""
    topic = s.topic(partitions=3)
    s.background(producers=1, consumers=1)
    s.start("produce", topics=[topic], per_second=20)
    name = s.fresh(("tx", "ledger", "booking"), ("c", "d", "main", "1"))
    s.start(
        "consume",
        s.pick("librdkafka", "java"),
        topics=[topic],
        extra={"isolation.level": "read_committed"},
    )
    s.opening()
    s.wait(10, 12)
    holder, _ = s.start(
        "transact",
        s.pick("librdkafka", "franz-go"),
        topics=[topic],
        transactional_id=name,
        hold_s=60,
        in_transaction=6,
    )
    s.blame(
        "open_transaction",
        {"kind": "producer", "name": name, "client": holder.client_id},
        [name, holder.client_id],
    )
    s.shown_by = Mark((holder.client_id,))
    s.wait(17, 19)


@scenario("inconsistent-group-protocol")
def inconsistent_group_protocol(s: Scene) -> None:
    """A member that knows other assignment strategies than its group is refused, again and again."""
    topic, group = fed_topic(s), s.group()
    s.background(producers=1, consumers=1)
    s.start("consume", s.pick("java", "librdkafka"), topics=[topic], group=group, strategy="range")
    s.opening()
    s.wait(9, 12)
    library = s.pick("librdkafka", "franz-go", "sarama")
    stranger, _ = s.start("consume", library, topics=[topic], group=group, strategy="roundrobin")
    s.blame_started("inconsistent_group_protocol", stranger, also=[group])
    s.wait(16, 18)


@scenario("growing-lag", twin_of="burst")
def growing_lag(s: Scene) -> None:
    """A consumer takes longer for each record than there is between two."""
    topic, group = s.topic(partitions=3), s.group()
    s.background(producers=1, consumers=1)
    s.start("produce", topics=[topic], per_second=s.pick(60, 100), linger_ms=10)
    slow, _ = s.start(
        "consume",
        s.pick("librdkafka", "java", "sarama", "aiokafka"),
        topics=[topic],
        group=group,
        rest_ms=s.between(60, 90),
    )
    s.opening()
    s.blame_client("growing_lag", slow, s.truth["begin_ns"], also=[group, topic])
    s.wait(31, 34)


@scenario("coordinator-moved", twin_of="leader-election")
def coordinator_moved(s: Scene) -> None:
    """Leadership of the group's partition of __consumer_offsets moves while all brokers live."""
    broker = s.broker()
    broker.stop()
    broker.start()
    s.brokers.wait_until_listening(broker)
    s.brokers.ready()
    topic = fed_topic(s)
    s.background(producers=1, consumers=1)
    groups = [s.group() for _ in range(4)]
    for group in groups:
        s.start("consume", s.pick("librdkafka", "franz-go", "java", "sarama"), topics=[topic], group=group)
    s.opening()
    s.wait(12, 14)
    before = {group: s.brokers.coordinator(group) for group in groups}
    onset = s.brokers.elect_preferred("__consumer_offsets")
    s.wait(12, 14)
    moved = [group for group in groups if s.brokers.coordinator(group) != before[group]]
    if not moved:
        raise RuntimeError("no coordinator moved")
    subject = {"kind": "group", "name": moved[0], "all": moved, "to": broker.name}
    s.blame("coordinator_moved", subject, [*moved, broker.address, f"broker {broker.number}"], onset)
