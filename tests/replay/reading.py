"""Contents of a cluster, as an independent client reads it.

Librdkafka, every partition from its first record to its last.
"""

import struct
import uuid
from collections import defaultdict

import confluent_kafka as ck

from tests.lab import broker_requests as wire
from tests.lab.cluster import Cluster
from tests.replay.truth import Sent


def read_all(bootstrap: str, topics: list[str], isolation: str = "read_uncommitted") -> dict[str, list[Sent]]:
    """Read topics to their ends; records of a partition stand in the order of their offsets."""
    consumer = ck.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-{uuid.uuid4()}",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    found: dict[str, list[Sent]] = defaultdict(list)
    try:
        metadata = consumer.list_topics(timeout=20)
        wanted = [
            ck.TopicPartition(topic, partition, ck.OFFSET_BEGINNING)
            for topic in topics
            for partition in metadata.topics[topic].partitions
        ]
        assert {where.topic for where in wanted} == set(topics)
        consumer.assign(wanted)
        ended: set[tuple[str, int]] = set()
        while len(ended) < len(wanted):
            message = consumer.poll(20)
            assert message is not None, "nothing came for 20 s"
            where = (str(message.topic()), int(message.partition()))
            error = message.error()
            if error is not None:
                assert error.code() == ck.KafkaError._PARTITION_EOF, error
                ended.add(where)
                continue
            headers = tuple((str(key), value) for key, value in message.headers() or ())
            found[where[0]].append(
                Sent(where[1], message.key(), message.value(), headers, message.timestamp()[1])
            )
    finally:
        consumer.close()
    return found


def _compact(text: str) -> bytes:
    return bytes([len(text) + 1]) + text.encode()


def share_starts(cluster: Cluster, group: str, topic: str, partitions: list[int]) -> list[int]:
    """Return where a share group begins in each partition.

    All in front of it is done with (DescribeShareGroupOffsets 0).
    """
    wanted, name = _compact(group), _compact(topic)
    numbers = bytes([len(partitions) + 1]) + b"".join(struct.pack(">i", each) for each in partitions)
    asked = b"\x02" + wanted + b"\x02" + name + numbers + b"\0\0\0"  # the zeros: no tags
    for port in cluster.client_ports:
        answer = wire.ask(port, struct.pack(">hhih3sB", 90, 0, 5, 3, b"lab", 0) + asked, 20.0)
        at = answer.find(name)
        if at >= 0:  # else another one is the coordinator
            at += len(name) + 17  # the id of the topic, and how many partitions follow, each in 20 bytes
            return [
                struct.unpack_from(">iq", answer, at + 20 * number)[1] for number in range(len(partitions))
            ]
    raise AssertionError(f"no broker knows the share group {group}")


def committed(bootstrap: str, group: str, topic: str, partitions: int) -> list[int]:
    """Return a group's committed offsets."""
    consumer = ck.Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})
    try:
        asked = [ck.TopicPartition(topic, partition) for partition in range(partitions)]
        return [each.offset for each in consumer.committed(asked, timeout=20)]
    finally:
        consumer.close()
