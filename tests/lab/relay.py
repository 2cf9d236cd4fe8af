"""A relay that counts frames: whatever clients and brokers say through it is known, whoever captures it.

    python -m tests.lab.relay brokers        a mock cluster, heard on the far address; prints its ports
    python -m tests.lab.relay clients PORT…  clients, and the brokers on loopback; prints the counts

The mock cluster tells everybody that its brokers are on loopback, so either end has a relay there. The
bytes are kept, and cut into frames by their lengths, in the plainest way, when all is over.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable

from confluent_kafka import Consumer, Producer

from tests.lab.mock import MockCluster
from tests.lab.rough_link import FAR

LOOPBACK = "127.0.0.1"
MESSAGES = 3000


def frames_in(stream: bytes) -> int:
    """Count the whole frames of one direction of a connection."""
    at = count = 0
    while at + 4 <= len(stream):
        at += 4 + struct.unpack_from(">i", stream, at)[0]
        count += at <= len(stream)
    return count


class Relay:
    """Listens at `here` and goes on to `there`; keeps what passed, by the port that it spoke to `there`
    from."""

    def __init__(self, here: tuple[str, int], there: tuple[str, int]) -> None:
        self.said: dict[int, tuple[bytearray, bytearray]] = {}
        self._there = there
        self._server = socket.create_server(here)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near, _ = self._server.accept()
            far = socket.create_connection(self._there)
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            kept = self.said[far.getsockname()[1]] = (bytearray(), bytearray())
            for source, target, into in ((near, far, kept[0]), (far, near, kept[1])):
                threading.Thread(target=_pass, args=(source, target, into.extend), daemon=True).start()


def _pass(source: socket.socket, target: socket.socket, keep: Callable[[bytes], None]) -> None:
    try:
        while data := source.recv(1 << 16):
            keep(data)
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        source.close()
        target.close()


def brokers() -> None:
    """Run a mock cluster until interrupted."""
    with MockCluster(2) as cluster:
        relays = [Relay((FAR, port), (LOOPBACK, port)) for port in cluster.ports]
        print(json.dumps(cluster.ports), flush=True)
        while relays:
            time.sleep(60)


def clients(ports: list[int]) -> None:
    """Produce and consume; print what passed on each connection, and how many messages were delivered and
    read."""
    relays = [Relay((LOOPBACK, port), (FAR, port)) for port in ports]
    common = {"bootstrap.servers": ",".join(f"{LOOPBACK}:{port}" for port in ports)}
    delivered = []
    producer = Producer(common | {"client.id": "rough-producer", "acks": "all", "linger.ms": 2})
    for number in range(MESSAGES):
        body = b"%06d" % number * (1 + number % 90)
        producer.produce("rough", body, on_delivery=lambda error, _: delivered.append(error))
        if number % 20 == 0:
            producer.poll(0.005)
    producer.flush(60)
    consumer = Consumer(
        common | {"client.id": "rough-consumer", "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["rough"])
    read, deadline = 0, time.monotonic() + 60
    while read < MESSAGES and time.monotonic() < deadline:
        read += sum(one.error() is None for one in consumer.consume(500, timeout=1))
    consumer.close()
    del producer
    time.sleep(1)  # the last acknowledgements
    connections = {
        port: [frames_in(bytes(one)) for one in said] for relay in relays for port, said in relay.said.items()
    }
    print(json.dumps({"delivered": delivered.count(None), "read": read, "connections": connections}))


if __name__ == "__main__":
    if sys.argv[1] == "brokers":
        brokers()
    else:
        clients([int(port) for port in sys.argv[2:]])
