"""The way between one host and the switch: `python -m tests.lab.incidents.forwarder HOST-SIDE SWITCH-SIDE`.

Ethernet frames of one interface leave by the other. Lines of JSON on standard input set what happens to
IPv4 packets, from the moment they are read; ARP always passes, so that a dead way looks like silence:

    {"cut": true}           no packet passes
    {"delay_s": 0.05}       each takes so much longer, in both directions
    {"lost": 0.05}          the share that is lost
    {"largest": 600}        frames of more bytes are lost
    {"idle_s": 6}           a TCP connection that was silent for so long is forgotten: its packets are lost
    {"jitter_s": 0.04}      each takes longer by chance, up to so much, so that they overtake each other
    {"rate": 20000}         bytes that pass in a second; more wait in a queue, and those beyond it are lost
    {"reset_after_s": 4}    a TCP connection older than that is reset at both ends by its next data
    {"no_syn": true}        no attempt to connect passes; what is open goes on
    {"garbled": 0.5}        the share of large segments in which two words change places: checksums still fit
    {"peer": "10.1.0.3"}    only packets from or to this address are treated so
    {"source": "10.1.0.3"}  only packets from this address are
    {"port": 9093}          only packets from or to this TCP port are
"""

from __future__ import annotations

import heapq
import json
import random
import select
import socket
import struct
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import dpkt

LONGEST_QUEUE_S = 0.4
LARGE = 450  # bytes of a frame that carries records
ALL_PROTOCOLS, OUTGOING, IPV4, TCP, SYN = 3, 4, b"\x08\x00", 6, 2


@dataclass(slots=True)
class Treatment:
    """Present treatment of packets; `counted` has the treatment until now."""

    settings: dict[str, Any] = field(default_factory=dict)
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    counted: dict[str, int] = field(default_factory=lambda: {"passed": 0, "lost": 0})
    _seen: dict[bytes, float] = field(default_factory=dict)
    _forgotten: set[bytes] = field(default_factory=set)
    _opened: dict[bytes, float] = field(default_factory=dict)
    _free_at: float = 0.0  # when the queue of a limited rate is empty

    def delay_of(self, frame: bytes, now: float) -> float | None:
        """Return how much later the frame leaves, in seconds, or None if it is lost."""
        if frame[12:14] != IPV4 or not self._concerned(frame):
            return 0.0
        lost = (
            bool(self.settings.get("cut"))
            or len(frame) > self.settings.get("largest", 1 << 20)
            or self.chance.random() < self.settings.get("lost", 0.0)
            or self._idle(frame, now)
            or bool(self.settings.get("no_syn") and frame[23] == TCP and _flags(frame) & SYN)
        )
        queued = 0.0 if lost else self._queue(frame, now)
        lost = lost or queued > LONGEST_QUEUE_S
        self.counted["lost" if lost else "passed"] += 1
        if lost and _has_data(frame):
            self.counted.setdefault("first_lost_ns", time.time_ns())
        delay = self.settings.get("delay_s", 0.0) + self.chance.uniform(0, self.settings.get("jitter_s", 0.0))
        return None if lost else float(delay + queued)

    def _queue(self, frame: bytes, now: float) -> float:
        """Return how long a frame waits for its turn, which it takes unless the queue is too long."""
        if not (rate := self.settings.get("rate")):
            return 0.0
        wait = max(self._free_at - now, 0.0)
        if wait <= LONGEST_QUEUE_S:
            self._free_at = now + wait + len(frame) / rate
        return wait

    def _concerned(self, frame: bytes) -> bool:
        peer, source = self.settings.get("peer"), self.settings.get("source")
        if source is not None and socket.inet_aton(source) != frame[26:30]:
            return False
        port = self.settings.get("port")
        if port is not None and (frame[23] != TCP or port not in _ports(frame)):
            return False
        return peer is None or socket.inet_aton(peer) in (frame[26:30], frame[30:34])

    def garbled(self, frame: bytes) -> bytes:
        """Return the frame, by chance with two words of a large segment's end in each other's place."""
        share = self.settings.get("garbled", 0.0)
        concerned = share and frame[12:14] == IPV4 and frame[23] == TCP and self._concerned(frame)
        if not concerned or len(frame) < LARGE or self.chance.random() >= share:
            return frame
        at = len(frame) - 60 - len(frame) % 2
        return (
            frame[:at]
            + frame[at + 6 : at + 8]
            + frame[at + 2 : at + 6]
            + frame[at : at + 2]
            + frame[at + 8 :]
        )

    def _idle(self, frame: bytes, now: float) -> bool:
        limit = self.settings.get("idle_s")
        if limit is None or frame[23] != TCP:
            return False
        connection = _connection_of(frame)
        if _flags(frame) & SYN:
            self._forgotten.discard(connection)
        elif now - self._seen.get(connection, now) > limit:
            self._forgotten.add(connection)
        self._seen[connection] = now
        return connection in self._forgotten

    def resets(self, frame: bytes, now: float) -> bool:
        """Return whether the connection of this frame is so old that it is to be reset."""
        limit = self.settings.get("reset_after_s")
        if limit is None or frame[12:14] != IPV4 or frame[23] != TCP:
            return False
        connection = _connection_of(frame)
        if _flags(frame) & SYN:
            self._opened[connection] = now
        opened = self._opened.setdefault(connection, now)
        return now - opened > limit and _has_data(frame)


def reset_frames(frame: bytes) -> tuple[bytes, bytes]:
    """Return what resets the connection of a segment: one frame for its receiver, one for its sender."""
    ethernet = dpkt.ethernet.Ethernet(frame)
    ip, segment = ethernet.data, ethernet.data.data
    ends = ((ip.src, ip.dst, segment.sport, segment.dport), (ip.dst, ip.src, segment.dport, segment.sport))
    hardware = ((ethernet.src, ethernet.dst), (ethernet.dst, ethernet.src))
    numbers = ((segment.seq, segment.ack), (segment.ack, segment.seq + len(segment.data)))
    made = []
    for (source, target, sport, dport), (own, other), (sequence, acknowledged) in zip(
        ends, hardware, numbers, strict=True
    ):
        flags = dpkt.tcp.TH_RST | dpkt.tcp.TH_ACK
        reset = dpkt.tcp.TCP(
            sport=sport, dport=dport, seq=sequence, ack=acknowledged % (1 << 32), flags=flags
        )
        packet = dpkt.ip.IP(src=source, dst=target, p=TCP, ttl=64, data=reset)
        packet.len = len(packet)
        made.append(bytes(dpkt.ethernet.Ethernet(src=own, dst=other, data=packet)))
    return made[0], made[1]


def _flags(frame: bytes) -> int:
    return frame[14 + (frame[14] & 15) * 4 + 13]


def _ports(frame: bytes) -> tuple[int, int]:
    header = 14 + (frame[14] & 15) * 4
    first, second = struct.unpack_from(">HH", frame, header)
    return int(first), int(second)


def _connection_of(frame: bytes) -> bytes:
    """Return the addresses and ports of a segment, equal in both directions."""
    header = 14 + (frame[14] & 15) * 4
    ends = (frame[26:30] + frame[header : header + 2], frame[30:34] + frame[header + 2 : header + 4])
    return b"".join(sorted(ends))


def _has_data(frame: bytes) -> bool:
    """Return whether a TCP segment carries data: a lost keep-alive or acknowledgment harms nobody."""
    ip_bytes = (frame[14] & 15) * 4
    tcp_bytes = (frame[14 + ip_bytes + 12] >> 4) * 4
    return frame[23] != TCP or int.from_bytes(frame[16:18], "big") > ip_bytes + tcp_bytes


def pass_frames(names: list[str]) -> None:
    """Pass frames between two interfaces until standard input ends, then print what was counted."""
    ends = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_PROTOCOLS)) for _ in names]
    for end, name in zip(ends, names, strict=True):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        end.bind((name, 0))
    treatment = Treatment()
    due: list[tuple[float, int, int, bytes]] = []
    number = 0
    print("ready", flush=True)
    while True:
        wait = max(0.0, due[0][0] - time.monotonic()) if due else None
        readable = select.select([*ends, sys.stdin], [], [], wait)[0]
        if sys.stdin in readable:
            if not (line := sys.stdin.readline()):
                break
            treatment.settings = json.loads(line)
            print("set", flush=True)
        for end in ends:
            if end not in readable:
                continue
            frame, about = end.recvfrom(1 << 16)
            now = time.monotonic()
            if about[2] == OUTGOING or (delay := treatment.delay_of(frame, now)) is None:
                continue
            number += 1
            here = ends.index(end)
            if treatment.resets(frame, now):
                onward, back = reset_frames(frame)
                treatment.counted.setdefault("first_lost_ns", time.time_ns())
                ends[here].send(back)
                frame = onward
            heapq.heappush(due, (now + delay, number, 1 - here, treatment.garbled(frame)))
        while due and due[0][0] <= time.monotonic():
            _, _, out, frame = heapq.heappop(due)
            ends[out].send(frame)
    print(json.dumps(treatment.counted), flush=True)


if __name__ == "__main__":
    pass_frames(sys.argv[1:3])
