"""Captures that ask for more than anybody has. Each is a file that holds good traffic, what is hostile, and
good traffic again.

Good traffic are conversations of `GOOD` exchanges on connections of their own, with the client id `good`.
"""

import gzip
import struct
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import lz4.frame
import numpy as np
import snappy
import zstandard

from kdissect.protocol.codec.wire import write_uvarint
from tests.helpers.crafted_packets import ACK, SYN, ethernet, tcp

GOOD = 50
GOOD_HOST, GOOD_PORTS = "10.0.0.1", (40_000, 40_001)
HOSTILE_HOST = "10.1.0.1"
BROKER = "10.0.0.2"
HOSTILE_PORT = 50_000
SEGMENT = 60_000  # bytes
BOMB = 96 << 20  # bytes that a bomb becomes; 64 MiB of one records field are decompressed
NESTED = 10_000
SYNS = 500_000
CONNECTIONS = 100_000

Said = tuple[int, bytes]  # by the client (0) or the broker (1)


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def request(key: int, version: int, correlation: int, body: bytes, client: bytes = b"bad") -> Said:
    """Return a request; that of a flexible version brings the tags of its header in `body`."""
    return 0, frame(struct.pack(">hhih", key, version, correlation, len(client)) + client + body)


def response(correlation: int, body: bytes) -> Said:
    return 1, frame(struct.pack(">i", correlation) + body)


def talk(count: int, client: bytes = b"good") -> Iterator[Said]:
    """Ask for API versions, and be told that there are none, so many times."""
    for number in range(count):
        yield request(18, 0, number, b"", client)
        yield response(number, struct.pack(">hi", 0, 0))


def connection(said: Iterable[Said], host: str, port: int) -> Iterator[bytes]:
    """Yield the packets of a connection from its handshake on."""
    ends = ((host, BROKER, (port, 9092)), (BROKER, host, (9092, port)))
    position = [1, 1]

    def packet(side: int, payload: bytes, flags: int = ACK, back: int = 0) -> bytes:
        source, target, ports = ends[side]
        seq, ack = position[side] - back, position[1 - side]
        return ethernet(tcp(source, target, ports, payload, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, flags))

    yield packet(0, b"", SYN, 1)
    yield packet(1, b"", SYN | ACK, 1)
    for side, data in said:
        for start in range(0, len(data), SEGMENT):
            part = data[start : start + SEGMENT]
            yield packet(side, part)
            position[side] += len(part)


def bomb(codec: int) -> Iterator[Said]:
    """Send records that become far more than they are, as a batch and, but for zstd, as a message that wraps
    others."""
    zeros = bytes(BOMB)
    packed = {1: gzip.compress, 2: snappy.compress, 3: lz4.frame.compress, 4: zstandard.compress}[codec](
        zeros
    )
    batch = struct.pack(">iBihiqqqhii", 0, 2, 0, codec, 0, 0, 0, -1, -1, -1, 1) + packed
    sets = [struct.pack(">qi", 0, len(batch)) + batch]
    if codec != 4:
        sets.append(message(codec, packed))
    for number, data in enumerate(sets):
        yield produce(number, data)
        yield response(number, produced())
    yield from talk(GOOD, b"bad")


def message(codec: int, value: bytes) -> bytes:
    """Return a message of magic 1 without a key."""
    inside = struct.pack(">ibbqii", 0, 1, codec, 0, -1, len(value)) + value
    return struct.pack(">qi", 0, len(inside)) + inside


def produce(correlation: int, records: bytes) -> Said:
    """Ask to write to a partition of one topic, in version 3."""
    body = struct.pack(">hhiih", -1, 1, 1000, 1, 3) + b"bad" + struct.pack(">iii", 1, 0, len(records))
    return request(0, 3, correlation, body + records)


def produced() -> bytes:
    """Return the body of the answer."""
    return struct.pack(">ih", 1, 3) + b"bad" + struct.pack(">iihqqi", 1, 0, 0, 0, -1, 0)


def nested() -> Iterator[Said]:
    """Send message sets inside one another."""
    inner = message(0, b"at last")
    for _ in range(NESTED):
        inner = message(2, snappy.compress(inner))
    yield produce(0, inner)
    yield response(0, produced())
    yield from talk(GOOD, b"bad")


def huge_frames() -> Iterator[Said]:
    """Claim 2 GB on both sides, amid frames of the usual kind."""
    yield from talk(GOOD, b"bad")
    yield 0, struct.pack(">ihhih", 0x7FFFFFFF, 18, 0, 77, 3) + b"bad"
    yield 1, struct.pack(">ii", 0x7FFFFFFF, 77)
    yield from talk(GOOD, b"bad")


def huge_counts() -> Iterator[Said]:
    """Claim 2^31 entries in arrays of fixed and of variable counts, on both sides."""
    many = bytearray()
    write_uvarint(many, 1 << 31)
    yield request(3, 1, 0, struct.pack(">i", 0x7FFFFFFF) + b"\0\3bad")
    yield response(0, struct.pack(">i", 0x7FFFFFFF))
    yield request(3, 9, 1, b"\0" + bytes(many) + b"\4bad\0")
    yield response(1, b"\0" + bytes(4) + bytes(many))
    yield request(20, 1, 2, struct.pack(">i", 0x7FFFFFFF))
    yield response(2, struct.pack(">ii", 0, 0x7FFFFFFF))
    yield from talk(GOOD, b"bad")


def true_counts() -> Iterator[Said]:
    """Name a member's protocols, 3 bytes and an object each, 5 million times; then a topic's partitions, 4
    bytes and a row."""
    count = bytearray()
    write_uvarint(count, 5_000_001)
    member = (
        b"\0" + b"\2g" + bytes(8) + b"\1" + b"\0" + b"\2c" + bytes(count) + b"\1\1\0" * 5_000_000 + b"\1\0"
    )
    yield request(11, 9, 0, member)
    yield response(0, b"\0")
    partitions = np.arange(5_000_000, dtype=">i4").tobytes()
    yield request(
        9, 1, 1, b"\0\0" + struct.pack(">ih", 1, 3) + b"bad" + struct.pack(">i", 5_000_000) + partitions
    )
    yield response(1, struct.pack(">i", 0))
    yield from talk(GOOD, b"bad")


def long_names() -> Iterator[Said]:
    """Name a million partitions, 4 bytes each, of a topic with a name of 30,000: 30 GB as a column of
    text."""
    partitions = np.arange(1_000_000, dtype=">i4").tobytes()
    topic = struct.pack(">ih", 1, 30_000) + b"t" * 30_000 + struct.pack(">i", 1_000_000)
    yield request(9, 1, 0, b"\0\0" + topic + partitions)
    yield response(0, struct.pack(">i", 0))
    yield from talk(GOOD, b"bad")


def rows_of_many() -> Iterator[Said]:
    """Name 5,000 partitions, 4 bytes and a row each, in each of 200 messages."""
    partitions = struct.pack(">i", 5_000) + np.arange(5_000, dtype=">i4").tobytes()
    for number in range(200):
        yield request(9, 1, number, b"\0\0" + struct.pack(">ih", 1, 3) + b"bad" + partitions)
        yield response(number, struct.pack(">i", 0))
    yield from talk(GOOD, b"bad")


def behind_a_hole() -> Iterator[bytes]:
    """Lose one packet of the client for good, and go on for 18 MB, which nobody acknowledges."""
    packets = list(
        connection(
            [*talk(GOOD, b"bad"), (0, bytes(18_000_000)), *talk(GOOD, b"bad")], HOSTILE_HOST, HOSTILE_PORT
        )
    )
    del packets[2 + 2 * GOOD]
    yield from packets


def on_its_own(said: Callable[[], Iterator[Said]]) -> Callable[[], Iterator[bytes]]:
    return lambda: connection(said(), HOSTILE_HOST, HOSTILE_PORT)


HAZARDS: dict[str, Callable[[], Iterable[bytes]]] = {
    **{
        f"{name} bomb": on_its_own(partial(bomb, codec))
        for codec, name in enumerate(("gzip", "snappy", "lz4", "zstd"), 1)
    },
    "nested sets": on_its_own(nested),
    "huge frames": on_its_own(huge_frames),
    "huge counts": on_its_own(huge_counts),
    "true counts": on_its_own(true_counts),
    "long names": on_its_own(long_names),
    "rows of many": on_its_own(rows_of_many),
    "behind a hole": behind_a_hole,
}


def write(path: Path, hostile: Iterable[bytes], packed: Iterable[np.ndarray] = ()) -> None:
    """Write the capture: a packet every 10 µs."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 20, 1))
        number = 0
        for packets in (connection(talk(GOOD), GOOD_HOST, GOOD_PORTS[0]), hostile):
            for data in packets:
                number += 1
                file.write(struct.pack("<IIII", *divmod(number * 10, 1_000_000), len(data), len(data)) + data)
        for records in packed:
            file.write(records.tobytes())
            number += len(records)
        for data in connection(talk(GOOD), GOOD_HOST, GOOD_PORTS[1]):
            number += 1
            file.write(struct.pack("<IIII", *divmod(number * 10, 1_000_000), len(data), len(data)) + data)


def records_of(
    template: bytes, count: int, first: int, step: int, places: dict[int, np.ndarray]
) -> np.ndarray:
    """Return a packet so many times, as records of a capture: `places` says which two bytes differ."""
    head = np.dtype(
        [("seconds", "<u4"), ("rest", "<u4"), ("kept", "<u4"), ("size", "<u4"), ("data", "u1", len(template))]
    )
    out = np.zeros(count, head)
    number = first + np.arange(count) * step
    out["seconds"], out["rest"] = np.divmod(number * 10, 1_000_000)
    out["kept"] = out["size"] = len(template)
    out["data"] = np.frombuffer(template, np.uint8)
    for at, values in places.items():
        out["data"][:, at] = values >> 8 & 0xFF
        out["data"][:, at + 1] = values & 0xFF
    return out


SOURCE, TARGET, SOURCE_PORT, TARGET_PORT = 14 + 14, 14 + 18, 34, 36  # low halves of the addresses, and ports


def syns() -> Iterator[np.ndarray]:
    """Yield half a million attempts of ten hosts to connect."""
    number = np.arange(SYNS)
    template = ethernet(tcp("10.1.0.0", BROKER, (0, 9092), flags=SYN))
    yield records_of(template, SYNS, 1000, 1, {SOURCE: number // 50_000, SOURCE_PORT: 1024 + number % 50_000})


def connections() -> Iterator[np.ndarray]:
    """Yield a hundred thousand connections with one exchange each, none of which is closed."""
    number = np.arange(CONNECTIONS)
    to_broker = {SOURCE: number // 50_000, SOURCE_PORT: 1024 + number % 50_000}
    to_client = {TARGET: number // 50_000, TARGET_PORT: 1024 + number % 50_000}
    (_, ask), (_, told) = talk(1, b"bad")
    packets = (
        (to_broker, {"flags": SYN, "seq": 0}, b""),
        (to_client, {"flags": SYN | ACK, "seq": 0, "ack": 1}, b""),
        (to_broker, {"seq": 1, "ack": 1}, ask),
        (to_client, {"seq": 1, "ack": 1 + len(ask)}, told),
    )
    for at, (places, header, payload) in enumerate(packets):
        ends = ("10.1.0.0", BROKER, (0, 9092)) if places is to_broker else (BROKER, "10.1.0.0", (9092, 0))
        yield records_of(
            ethernet(tcp(*ends, payload, **header)), CONNECTIONS, 1000 + at * CONNECTIONS, 1, places
        )


CROWDS: dict[str, Callable[[], Iterator[np.ndarray]]] = {
    "half a million SYNs": syns,
    "100,000 connections": connections,
}


def make(name: str, path: Path) -> None:
    """Write one of them; of another name, the good traffic alone."""
    write(path, HAZARDS[name]() if name in HAZARDS else (), CROWDS[name]() if name in CROWDS else ())
