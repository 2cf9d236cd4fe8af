"""The mock cluster answers real clients, and is gone afterwards."""

from __future__ import annotations

import socket

import pytest
from confluent_kafka import Consumer, Producer

from tests.lab.mock import MockCluster


@pytest.mark.slow
def test_mock_brokers_serve_a_producer_and_a_consumer() -> None:
    with MockCluster(brokers=2) as cluster:
        assert len(cluster.ports) == 2
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        for number in range(10):
            producer.produce("orders", b"%d" % number)
        assert producer.flush(10) == 0
        consumer = Consumer(
            {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["orders"])
        read: set[bytes] = set()
        for _ in range(200):
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                read.add(message.value() or b"")
            if len(read) == 10:
                break
        consumer.close()
        assert len(read) == 10


def test_mock_brokers_end_with_the_context() -> None:
    with MockCluster(brokers=1) as cluster:
        (port,) = cluster.ports
        socket.create_connection(("127.0.0.1", port), 2).close()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), 2)
