"""Makes large captures of small real ones: the same conversations again and again, with new ports, addresses
and times.

    python -m tests.bench.synthesis again  IN OUT --bytes 4g             every connection anew in each copy
    python -m tests.bench.synthesis single IN OUT --bytes 4g             one connection carries everything
    python -m tests.bench.synthesis many   IN OUT --connections 100000   all of them open at once

The source is a pcap file as tcpdump writes it on this machine: little-endian, Ethernet, IPv4. The messages
are those of the clients and brokers; `single` continues the sequence numbers of its longest connection from
copy to copy, so that TCP has no seam. Headers are rewritten in arrays, packets are never looked at one by
one. IP checksums go wrong.
"""

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kdissect.array_types import Bytes, Int64s
from kdissect.capture.formats import pcap
from kdissect.capture.formats.record_reader import (
    ReadOutcome,
    RecordLayout,
    RecordReader,
)
from kdissect.capture.formats.record_table import (
    AT,
    CAPTURED,
    START,
    STOP,
    TIME_NS,
)
from kdissect.capture.index.index import index_captures
from kdissect.capture.index.splits import CaptureFormat, interface_table
from kdissect.capture.inputs import CaptureFile
from kdissect.capture.storage import open_storage

ETHERNET, RECORD = 14, 16
FIN, SYN, RST = 1, 2, 4
PAUSE_NS = 1_000_000_000  # between two copies
FIRST_ADDRESS, ADDRESSES = 198 << 24 | 18 << 16, 200  # of clients: a network for benchmarks (RFC 2544)
FIRST_PORT, PORTS = (
    1024,
    64000,
)  # of clients in copies; the servers' ports lie elsewhere, or are kept out below
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}


@dataclass(frozen=True)
class Packets:
    """Some packets of a capture: their bytes in one array, and where the fields lie that change from copy to
    copy."""

    data: Bytes
    record: Int64s  # of each packet: position of its record header in `data`
    size: Int64s  # bytes of record header and packet
    time_ns: Int64s
    tcp: Int64s  # position of the TCP header
    flags: Int64s
    payload: Int64s  # bytes
    server_port: Int64s
    client_port: Int64s
    to_server: NDArray[np.bool_]

    def only(self, kept: NDArray[np.bool_]) -> "Packets":
        """Return some of the packets, packed together."""
        rows = np.flatnonzero(kept)
        size, old = self.size[rows], self.record[rows]
        new = np.cumsum(size) - size
        data = self.data[np.repeat(old - new, size) + np.arange(int(size.sum()))]
        fields = {
            name: getattr(self, name)[rows]
            for name in ("time_ns", "flags", "payload", "server_port", "client_port", "to_server")
        }
        return Packets(data=data, record=new, size=size, tcp=self.tcp[rows] - old + new, **fields)


def read_packets(path: Path) -> Packets:
    """Read the TCP packets of a capture."""
    data = np.fromfile(path, np.uint8)
    header = pcap.read_header(data[: pcap.HEADER_BYTES].tobytes())
    if (
        header is None
        or header.big_endian
        or header.record_header != RECORD
        or header.interface.link_type != 1
    ):
        raise SystemExit(f"{path} is not a little-endian pcap file of Ethernet packets")
    layout = RecordLayout(CaptureFormat.PCAP, False, RECORD, interface_table((header.interface,)))
    with open_storage(str(path)) as source:
        walk = RecordReader(source, pcap.HEADER_BYTES, len(data))
        parts, outcome = [], ReadOutcome.MORE
        while outcome in (ReadOutcome.MORE, ReadOutcome.FULL):
            outcome = walk.advance(layout)
            parts.append(walk.records.copy())
    records = np.concatenate(parts)
    at = records[:, AT]
    ipv4 = (at + 54 <= len(data)) & (data[at + 12] == 8) & (data[at + 13] == 0) & (data[at + 23] == 6)
    records, at = records[ipv4], at[ipv4]
    tcp = at + ETHERNET + (data[at + ETHERNET] & 15).astype(np.int64) * 4
    source, target = big16(data, tcp), big16(data, tcp + 2)
    longest = big16(data, at + ETHERNET + 2)
    payload = longest - (tcp - at - ETHERNET) - (data[tcp + 12] >> 4).astype(np.int64) * 4
    assert np.array_equal(records[:, CAPTURED] + RECORD, records[:, STOP] - records[:, START])
    to_server = target < source  # servers listen on the lower port
    everything = Packets(
        data,
        records[:, START],
        records[:, CAPTURED] + RECORD,
        records[:, TIME_NS],
        tcp,
        data[tcp + 13].astype(np.int64),
        payload,
        np.minimum(source, target),
        np.maximum(source, target),
        to_server,
    )
    return everything.only(np.ones(len(records), bool))


def again(packets: Packets, nano: bool) -> Iterator[Bytes]:
    """Yield copy after copy: every connection with a client port of its own, later than the copy before.

    When the ports are used up, clients get another address, and all ports once more.
    """
    clients, number = np.unique(packets.client_port, return_inverse=True)
    span = int(packets.time_ns.max() - packets.time_ns.min()) + PAUSE_NS
    servers = np.unique(packets.server_port)
    free = np.setdiff1d(np.arange(FIRST_PORT, FIRST_PORT + PORTS), servers)
    of_one_address = len(free) // len(clients)
    for copy in range(of_one_address * ADDRESSES):
        address, turn = divmod(copy, of_one_address)
        data = packets.data.copy()
        write_times(data, packets, copy * span, nano)
        port = free[turn * len(clients) + number]
        put16(data, packets.tcp + np.where(packets.to_server, 0, 2), port)
        if address:
            place = packets.record + RECORD + ETHERNET + np.where(packets.to_server, 12, 16)
            put32(data, place, np.full(len(place), FIRST_ADDRESS + address))
        yield data


def single(packets: Packets, nano: bool) -> Iterator[Bytes]:
    """Yield copy after copy of the longest connection, all of them one connection."""
    ports, payload = np.unique(packets.client_port, return_inverse=True)[0], packets.payload
    carried = [int(payload[packets.client_port == port].sum()) for port in ports]
    one = packets.only(packets.client_port == ports[int(np.argmax(carried))])
    one = one.only((one.flags & (FIN | RST)) == 0)
    opening = one.only((one.flags & SYN) != 0)
    one = one.only((one.flags & SYN) == 0)
    span = int(one.time_ns.max() - one.time_ns.min()) + PAUSE_NS
    seq, ack = big32(one.data, one.tcp + 4), big32(one.data, one.tcp + 8)
    ends = seq + one.payload
    length = {}
    for way in (False, True):
        rows = np.flatnonzero(one.to_server == way)
        start = seq[rows[0]]
        length[way] = int(((ends[rows] - start) & 0xFFFFFFFF).max())
    sent = np.where(one.to_server, length[True], length[False])
    heard = np.where(one.to_server, length[False], length[True])
    yield opening.data
    copy = 0
    while True:
        data = one.data.copy()
        write_times(data, one, copy * span, nano)
        put32(data, one.tcp + 4, seq + copy * sent)
        put32(data, one.tcp + 8, ack + copy * heard)
        yield data
        copy += 1


def endless(packets: Packets, nano: bool, copy_ns: int) -> Iterator[Bytes]:
    """Yield copy after copy in which all connections go on: each copy lasts `copy_ns`.

    Nobody opens or closes a connection after the first copy. The source must end with all requests answered.
    The array of a copy is written over by the next one.
    """
    key = packets.server_port << 16 | packets.client_port
    number = np.unique(key, return_inverse=True)[1]
    opening = (packets.flags & SYN) != 0
    kept = (packets.flags & (FIN | RST)) == 0
    seq, ack = big32(packets.data, packets.tcp + 4), big32(packets.data, packets.tcp + 8)
    lengths = np.zeros((int(number.max()) + 1, 2), np.int64)
    for way in (False, True):
        carried = (packets.to_server == way) & kept & ~opening
        first = np.zeros(len(lengths), np.int64)
        rows = np.flatnonzero(carried)[::-1]
        first[number[rows]] = seq[rows]
        ends = (seq[carried] - first[number[carried]] + packets.payload[carried]) & 0xFFFFFFFF
        np.maximum.at(lengths[:, int(way)], number[carried], ends)
    first_ns = int(packets.time_ns.min())
    scale = copy_ns / (int(packets.time_ns.max()) - first_ns + 1)
    time_ns = first_ns + ((packets.time_ns - first_ns) * scale).astype(np.int64)
    for chosen, copies in ((kept, range(1)), (kept & ~opening, count(1))):
        now, of = packets.only(chosen), number[chosen]
        ways = now.to_server.astype(np.int64)
        sent, heard = lengths[of, ways], lengths[of, 1 - ways]
        for copy in copies:
            put_times(now.data, now.record, time_ns[chosen] + copy * copy_ns, nano)
            put32(now.data, now.tcp + 4, seq[chosen] + copy * sent)
            put32(now.data, now.tcp + 8, ack[chosen] + copy * heard)
            yield now.data


def many(packets: Packets, nano: bool, connections: int, exchanges: int) -> Iterator[Bytes]:
    """Yield the first packets of one connection, each for all connections before the next."""
    opened = np.unique(packets.client_port[(packets.flags & SYN) != 0])
    one = packets.only(packets.client_port == opened[0])
    one = one.only(np.arange(len(one.record)) < 4 + 4 * exchanges)
    number = np.arange(connections)
    for packet in range(len(one.record)):
        size, at = int(one.size[packet]), int(one.record[packet])
        data = np.tile(one.data[at : at + size], (connections, 1))
        flat = data.reshape(-1)
        record = number * size
        address = record + RECORD + ETHERNET + (12 if one.to_server[packet] else 16)
        put32(flat, address, (10 << 24) + number // PORTS + 2)
        put16(
            flat,
            record + int(one.tcp[packet]) - at + (0 if one.to_server[packet] else 2),
            FIRST_PORT + number % PORTS,
        )
        time = one.time_ns[0] + packet * PAUSE_NS + number * (PAUSE_NS // (connections + 1))
        put_times(flat, record, time, nano)
        yield flat


def write_times(data: Bytes, packets: Packets, later_ns: int, nano: bool) -> None:
    """Write the times of all packets, `later_ns` after those of the source."""
    put_times(data, packets.record, packets.time_ns + later_ns, nano)


def put_times(data: Bytes, record: Int64s, time_ns: Int64s, nano: bool) -> None:
    """Write record times (little-endian)."""
    seconds, rest = time_ns // 10**9, time_ns % 10**9 // (1 if nano else 1000)
    for place in range(4):
        data[record + place] = seconds >> 8 * place
        data[record + 4 + place] = rest >> 8 * place


def big16(data: Bytes, at: Int64s) -> Int64s:
    """Read two bytes."""
    return data[at].astype(np.int64) << 8 | data[at + 1]


def big32(data: Bytes, at: Int64s) -> Int64s:
    """Read four bytes."""
    return big16(data, at) << 16 | big16(data, at + 2)


def put16(data: Bytes, at: Int64s, value: Int64s) -> None:
    """Write two bytes."""
    data[at], data[at + 1] = value >> 8 & 0xFF, value & 0xFF


def put32(data: Bytes, at: Int64s, value: Int64s) -> None:
    """Write four bytes."""
    put16(data, at, value >> 16)
    put16(data, at + 2, value)


def synthesise(how: str, source: Path, out: Path, size: int, connections: int, exchanges: int) -> int:
    """Write the capture, whole copies until it has `size` bytes; give its size."""
    header = source.read_bytes()[: pcap.HEADER_BYTES]
    kind = pcap.read_header(header)
    assert kind is not None
    nano, packets = kind.interface.resolution == 9, read_packets(source)
    copies = (
        many(packets, nano, connections, exchanges)
        if how == "many"
        else {"again": again, "single": single}[how](packets, nano)
    )
    part = out.with_suffix(".part")
    with part.open("wb") as file:
        written = file.write(header)
        for data in copies:
            written += file.write(data.data)
            if how != "many" and written >= size:
                break
    part.replace(out)
    return written


def bytes_of(text: str) -> int:
    """Read 4g, 500m …"""
    found = re.fullmatch(r"(\d+)([kmg]?)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no size")
    return int(found[1]) * UNITS[found[2]]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("how", choices=("again", "single", "many"))
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--bytes", type=bytes_of, default=10**9)
    parser.add_argument("--connections", type=int, default=100_000)
    parser.add_argument("--exchanges", type=int, default=10, help="of each connection, about, with `many`")
    chosen = parser.parse_args()
    written = synthesise(
        chosen.how, chosen.source, chosen.out, chosen.bytes, chosen.connections, chosen.exchanges
    )
    packets = index_captures([CaptureFile(str(chosen.out), chosen.out.name)]).packets
    print(f"{chosen.out}: {written:,} bytes, {packets:,} packets")


if __name__ == "__main__":
    main()
