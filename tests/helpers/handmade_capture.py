"""A capture made by hand: one whole connection, a packet for each frame, one millisecond apart."""

import struct
from collections.abc import Container, Iterable
from pathlib import Path

from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.utils import EDecimal, PcapWriter

CLIENT, SERVER = ("10.0.0.1", 40000), ("10.0.0.2", 9092)
HANDSHAKE = 3  # packets


def write_capture(path: Path, talk: Iterable[tuple[bool, bytes]]) -> Path:
    """Write what client (true) and server say, frame by frame, without their lengths."""
    return write_payload(path, [(side, struct.pack(">i", len(body)) + body) for side, body in talk])


def write_payload(path: Path, talk: Iterable[tuple[bool, bytes]], left_out: Container[int] = ()) -> Path:
    """Write what client (true) and server say, packet by packet, but for the numbers `left_out`."""
    following = {True: 1000, False: 500}
    frames = [(True, "S", b""), (False, "SA", b""), (True, "A", b"")]
    frames += [(side, "PA", payload) for side, payload in talk]
    with PcapWriter(str(path)) as out:
        for number, (from_client, flags, payload) in enumerate(frames):
            ends = (CLIENT, SERVER) if from_client else (SERVER, CLIENT)
            tcp = TCP(sport=ends[0][1], dport=ends[1][1], seq=following[from_client], flags=flags)
            tcp.ack = following[not from_client] if "A" in flags else 0
            packet = Ether() / IP(src=ends[0][0], dst=ends[1][0]) / tcp / payload
            packet.time = EDecimal(1_330_000_000_000 + number) / 1000
            if number - HANDSHAKE not in left_out:
                out.write(packet)
            following[from_client] += len(payload) + ("S" in flags)
    return path
