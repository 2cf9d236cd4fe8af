"""Just enough Kafka to ask a broker whether it is ready, to create topics and to set quotas, sent and read by
hand.

Kept apart from kdissect and from every client library on purpose, so that neither can hide a fault of the
other.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

CAPTURES = Path(__file__).parents[2] / "captures"
LOOPBACK = "127.0.0.1"
_METADATA = struct.pack(">hhih3si", 3, 1, 7, 3, b"lab", -1)


class Partition(NamedTuple):
    leader: int
    in_sync: tuple[int, ...]


class ClusterView(NamedTuple):
    """Facts of one broker about its cluster: broker ids to ports, and per topic its partitions by number."""

    brokers: dict[int, int]
    topics: dict[str, dict[int, Partition]]


def free_ports(count: int) -> list[int]:
    """Return `count` TCP ports that nothing on this machine listens on, below the ephemeral range; none of
    them twice, and none of a broker in a recorded capture: a replay sends nothing to these."""
    ports: list[int] = []
    with contextlib.ExitStack() as held:
        for port in _shuffled_ports():
            if port in _given or port in recorded_ports():
                continue
            listener = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                listener.bind((LOOPBACK, port))
                ports.append(port)
            if len(ports) == count:
                _given.update(ports)
                return ports
    raise RuntimeError("no free ports")


@cache
def recorded_ports() -> frozenset[int]:
    """Return the ports of the brokers in the captures of this repository."""
    manifest = json.loads((CAPTURES / "manifest.json").read_text(encoding="utf-8"))
    return frozenset(port for capture in manifest["captures"] for port in capture["server_ports"])


WORKERS, PORTS = 8, 1_500
_given: set[int] = set()  # a broker takes seconds before it listens on its own


def _shuffled_ports() -> Iterator[int]:
    # An ephemeral port could be taken by an outgoing connection before the broker binds it; and one of tests
    # that run in another process by their broker.
    first, count, start = 19_000, WORKERS * PORTS, time.monotonic_ns() // 1000
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):
        first, count = first + int(worker[2:]) % WORKERS * PORTS, PORTS
    yield from (first + (start + step) % count for step in range(count))


def view(port: int, timeout: float = 2.0) -> ClusterView | None:
    """Ask the broker on `port` for all it knows; None if it does not answer (yet)."""
    try:
        return _parse_metadata(ask(port, _METADATA, timeout))
    except (OSError, struct.error):
        return None


def create_topic(
    port: int, name: str, partitions: int, replicas: int, config: Mapping[str, str], version: int
) -> int:
    """Ask the broker on `port` to create a topic (CreateTopics `version`, 1 or 2); return its error code."""
    settings = b"".join(_text(key) + _text(value) for key, value in config.items())
    request = (
        struct.pack(">hhi", 19, version, 8)
        + _text("lab")
        + struct.pack(">i", 1)
        + _text(name)
        + struct.pack(">ihi", partitions, replicas, 0)
        + struct.pack(">i", len(config))
        + settings
        + struct.pack(">i?", 20_000, False)
    )
    answer = ask(port, request, timeout=30.0)
    # correlation id, since version 2 the throttle time, the count of topics, the name; then the code.
    start = (8 if version < 2 else 12) + len(_text(name))
    (code,) = struct.unpack_from(">h", answer, start)
    return int(code)


BYTE_RATES = ("producer_byte_rate", "consumer_byte_rate")


def limit(
    port: int, client_id: str, rate: float, host: str = LOOPBACK, quotas: Sequence[str] = BYTE_RATES
) -> None:
    """Set quotas of a client id at the broker on `port`, those of bytes a second or others
    (AlterClientQuotas 0)."""
    values = b"".join(_text(quota) + struct.pack(">d?", rate, False) for quota in quotas)
    entity = struct.pack(">i", 1) + _text("client-id") + _text(client_id)
    request = struct.pack(">hhi", 49, 0, 9) + _text("lab") + struct.pack(">i", 1) + entity
    request += struct.pack(">i", len(quotas)) + values + struct.pack(">?", False)
    answer = ask(port, request, timeout=30.0, host=host)
    # correlation id, throttle time and the count of entries come before the code.
    (code,) = struct.unpack_from(">h", answer, 12)
    if code:
        raise RuntimeError(f"quota of {client_id} was not set: {code}")


def ask(port: int, request: bytes, timeout: float, host: str = LOOPBACK) -> bytes:
    """Send one request, header and all, on a connection of its own; give the answer without its length."""
    with socket.create_connection((host, port), timeout) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _receive(connection, 4))
        return _receive(connection, size)


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def wait_for_brokers(ports: list[int], patience: float = 90.0) -> None:
    """Return when every broker of `ports` lists all of them; raise TimeoutError if that takes too long."""
    deadline = time.monotonic() + patience
    for port in ports:
        while True:
            seen = view(port)
            if seen is not None and set(seen.brokers.values()) >= set(ports):
                break
            if time.monotonic() > deadline:
                raise TimeoutError(f"broker on port {port} is not ready: {seen}")
            time.sleep(0.1)


def _receive(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise OSError("closed")
        data += more
    return bytes(data)


def _parse_metadata(frame: bytes) -> ClusterView:
    position = 4

    def take(layout: str) -> int:
        nonlocal position
        (value,) = struct.unpack_from(layout, frame, position)
        position += struct.calcsize(layout)
        return int(value)

    def text() -> str:
        nonlocal position
        size = max(take(">h"), 0)
        position += size
        return frame[position - size : position].decode()

    brokers = {}
    for _ in range(take(">i")):
        node, _host, port, _rack = take(">i"), text(), take(">i"), text()
        brokers[node] = port
    take(">i")
    topics = {}
    for _ in range(take(">i")):
        _error, name, _internal = take(">h"), text(), take(">b")
        partitions = {}
        for _ in range(take(">i")):
            _error, number, leader = take(">h"), take(">i"), take(">i")
            for _ in range(take(">i")):
                take(">i")
            partitions[number] = Partition(leader, tuple(take(">i") for _ in range(take(">i"))))
        topics[name] = partitions
    return ClusterView(brokers, topics)
