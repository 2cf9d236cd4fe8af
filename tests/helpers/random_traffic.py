"""Random traffic for the tests of the capture front: many connections, all kinds of packets, made from a
seed."""

import random
import struct
from collections.abc import Iterator

from tests.helpers.crafted_packets import (
    ACK,
    FIN,
    RST,
    SYN,
    enhanced,
    ethernet,
    interface,
    ip,
    option,
    pcap,
    section,
    tcp,
)

HOSTS = ("10.0.0.1", "10.0.0.2", "192.168.7.9", "2001:db8::1", "2001:db8::2")


def packets(seed: int, count: int) -> Iterator[tuple[int, bytes]]:
    """Yield (time in microseconds, Ethernet frame): mostly TCP, with noise between."""
    chance = random.Random(seed)
    time_us = 1_700_000_000_000_000
    for _ in range(count):
        time_us += chance.randrange(-50, 2000)
        yield time_us, _frame(chance)


def _frame(chance: random.Random) -> bytes:
    kind = chance.random()
    if kind < 0.04:
        return ethernet(bytes(28), ethertype=0x0806)
    v6 = chance.random() < 0.3
    source, target = chance.sample(HOSTS[3:] if v6 else HOSTS[:3], 2)
    if kind < 0.08:
        return ethernet(ip(source, target, 17, bytes(20)))
    if kind < 0.1 and not v6:
        return ethernet(ip(source, target, 6, bytes(40), fragment=0x2001))
    if kind < 0.12:
        return ethernet(tcp(source, target)[: chance.randrange(1, 50)])
    ports = (40000 + chance.randrange(4), 9092)
    flags = chance.choice([ACK, ACK, ACK, ACK, ACK | 8, SYN, SYN | ACK, FIN | ACK, RST])
    payload = chance.randbytes(chance.choice([0, 0, 1, 30, 900])) if not flags & (SYN | RST) else b""
    segment = tcp(
        source,
        target,
        ports if chance.random() < 0.5 else ports[::-1],
        payload,
        seq=chance.randrange(1 << 32) if flags & SYN else 5000 + chance.randrange(3000),
        ack=chance.randrange(1 << 32) if flags & ACK else 0,
        flags=flags,
        window=chance.choice([0, 512]),
        options=bytes(chance.choice([0, 12])),
    )
    frame = ethernet(segment, tags=chance.choice([(), (), (0x8100,), (0x88A8, 0x8100)]))
    return frame + bytes(max(0, 60 - len(frame)))


def pcap_traffic(seed: int, count: int, order: str = "<", snap: int = 262144) -> bytes:
    """Return the traffic as a pcap file, packets cut to `snap` bytes."""
    out = [pcap([], order, snap=snap)]
    for time_us, frame in packets(seed, count):
        kept = frame[:snap]
        out += struct.pack(order + "IIII", *divmod(time_us, 10**6), len(kept), len(frame)), kept
    return b"".join(out)


def pcapng_traffic(seed: int, count: int) -> bytes:
    """Return the traffic as a pcapng file of three sections in both byte orders."""
    out = []
    frames = list(packets(seed, count))
    for part, order in enumerate("<><"):
        out += section(order), interface(order), interface(order, options=option(9, b"\x09", order))
        for number, (time_us, frame) in enumerate(frames[part::3]):
            ticks = time_us * 1000 if number % 2 else time_us
            out.append(enhanced(ticks, frame[:200], order, number % 2, len(frame)))
    return b"".join(out)
