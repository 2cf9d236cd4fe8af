"""Live traffic whose reads are easy to get wrong: behind transactions, in groups, with idle polls.

`converse` runs producers and consumers at once on a cluster for some seconds, all by librdkafka, and returns
what each group has committed. A capture of it is what tests replay.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

import confluent_kafka as ck

TOPICS = {"events": 3, "transfers": 3}
GROUPS = {"audit": ("transfers", "read_committed"), "watch": ("transfers", "read_uncommitted")}
GROUPS |= {"billing": ("events", "read_uncommitted")}
MEMBERS = 2  # of each group
PAUSE_S = 0.06  # between transactions: long enough for a long poll


def converse(bootstrap: str, seconds: float) -> dict[str, dict[int, int]]:
    """Have clients talk for so long. Return the committed offset of each partition, by group."""
    over = time.monotonic() + seconds
    writers = [threading.Thread(target=_write, args=(bootstrap, number, over)) for number in range(2)] + [
        threading.Thread(target=_transact, args=(bootstrap, number, over)) for number in range(2)
    ]
    readers = [
        threading.Thread(target=_read, args=(bootstrap, group, member, over + 3))
        for group in GROUPS
        for member in range(MEMBERS)
    ]
    for thread in readers + writers:
        thread.start()
    for thread in readers + writers:
        thread.join()
    return {group: committed(bootstrap, group, topic) for group, (topic, _) in GROUPS.items()}


def committed(bootstrap: str, group: str, topic: str, prefix: str = "") -> dict[int, int]:
    """Return the committed offset of each partition of a topic."""
    consumer = ck.Consumer({"bootstrap.servers": bootstrap, "group.id": prefix + group})
    try:
        asked = [ck.TopicPartition(prefix + topic, number) for number in range(TOPICS[topic])]
        return {each.partition: each.offset for each in consumer.committed(asked, timeout=20)}
    finally:
        consumer.close()


def _until(over: float, step: Callable[[int], None]) -> None:
    number = 0
    while time.monotonic() < over:
        step(number)
        number += 1


def _write(bootstrap: str, writer: int, over: float) -> None:
    producer = ck.Producer(
        {"bootstrap.servers": bootstrap, "client.id": f"writer-{writer}", "linger.ms": 5}
        | ({"enable.idempotence": True} if writer else {"acks": 1})
    )

    def burst(number: int) -> None:
        for record in range(5):
            producer.produce("events", b"%d" % number * 9, f"writer-{writer}-{number}-{record}".encode())
        producer.flush(10)
        time.sleep(0.03 if number % 40 else 1.0)  # now and then everybody waits

    _until(over, burst)
    producer.close()


def _transact(bootstrap: str, writer: int, over: float) -> None:
    name = f"bank-{writer}"
    producer = ck.Producer({"bootstrap.servers": bootstrap, "client.id": name, "transactional.id": name})
    producer.init_transactions(30)

    def transaction(number: int) -> None:
        producer.begin_transaction()
        for record in range(8):
            producer.produce("transfers", b"%d" % number * 20, f"{name}-{number}-{record}".encode())
        if number % 5 == 4:
            producer.flush(10)
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)
        time.sleep(PAUSE_S)

    _until(over, transaction)
    producer.close()


def _read(bootstrap: str, group: str, member: int, over: float) -> None:
    topic, isolation = GROUPS[group]
    consumer = ck.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": f"{group}-{member}",
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 10000,
            "heartbeat.interval.ms": 1000,
        }
    )
    consumer.subscribe([topic])

    def read(number: int) -> None:
        messages = consumer.consume(50, 0.2)
        if messages and number % 3 == 0:
            consumer.commit(asynchronous=True)

    _until(over, read)
    with contextlib.suppress(ck.KafkaException):  # nothing is left to commit
        consumer.commit(asynchronous=False)
    consumer.close()
