"""When a capture shows a fault first: the packet that dates an incident whose client was just started.

A process that is started takes 0.3 s (Go) to 8 s (Java on a busy machine) until its first packet. A report
can date what is in the capture only, so the truth of such an incident is the time of that packet. In: a
capture and what marks the packet. Out: its time."""

from __future__ import annotations

import socket
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import dpkt


@dataclass(frozen=True, slots=True)
class Mark:
    """Criterion for the packet: texts that are all in it, or a connection that is opened."""

    texts: Collection[str] = ()
    opened_from: str = ""  # the address that sends the SYN
    ports: Collection[int] = field(default_factory=tuple)  # one of which the SYN is sent to; none: any

    def of(self, ip: dpkt.ip.IP, tcp: dpkt.tcp.TCP) -> bool:
        """Return whether this is such a packet."""
        if self.opened_from:
            opening = tcp.flags & (dpkt.tcp.TH_SYN | dpkt.tcp.TH_ACK) == dpkt.tcp.TH_SYN
            from_there = ip.src == socket.inet_aton(self.opened_from)
            return bool(opening and from_there and (not self.ports or tcp.dport in self.ports))
        data = bytes(tcp.data)
        return all(text.encode() in data for text in self.texts)


def first_packet_ns(capture: Path, mark: Mark, after_ns: int) -> int | None:
    """Return the time of the first packet after that moment that has the mark, in ns, or None."""
    with capture.open("rb") as file:
        for seconds, frame in dpkt.pcap.UniversalReader(file):
            time_ns = round(float(seconds) * 1e9)
            if time_ns < after_ns:
                continue
            ip = dpkt.ethernet.Ethernet(frame).data
            if isinstance(ip, dpkt.ip.IP) and isinstance(ip.data, dpkt.tcp.TCP) and mark.of(ip, ip.data):
                return time_ns
    return None
