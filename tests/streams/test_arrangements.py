"""One recorded capture, arranged differently: the same exchanges, as far as their bytes are there."""

import random
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import dpkt
import numpy as np
import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import CaptureFile
from kdissect.capture.scan import scan_split
from kdissect.jit.rows import array_of
from kdissect.protocol.schema.registry import highest_versions
from kdissect.streams.flow_state import (
    ANSWERED,
    NO_ANSWER,
    NO_RESPONSE_EXPECTED,
    ORPHAN_RESPONSE,
    REQUEST_SIDE,
    RESPONSE_SIDE,
)
from kdissect.streams.tls.decrypt_stage import new_flow_processor
from kdissect.tables.build import by_split
from tests.helpers.conversations import CAPTURES

MS = 1_000_000
MOST_PACKETS = 2500
LINK_HEADER = 14


class Packet(NamedTuple):
    time_ns: int
    data: bytes
    ports: tuple[int, int]
    wire_bytes: int


Arranged = Sequence[Sequence[Packet]]  # files, in the order in which they are given


@cache
def recorded() -> tuple[Packet, ...]:
    packets = []
    with (CAPTURES / "steady.pcapng").open("rb") as file:
        for seconds, data in dpkt.pcapng.Reader(file):
            tcp = dpkt.ethernet.Ethernet(data).data.data
            if isinstance(tcp, dpkt.tcp.TCP):
                packets.append(Packet(round(float(seconds) * 1e9), data, (tcp.sport, tcp.dport), len(data)))
    return tuple(sorted(packets[:MOST_PACKETS]))


def write(folder: Path, files: Arranged) -> list[CaptureFile]:
    written = []
    for number, packets in enumerate(files):
        path = folder / f"{number}.pcap"
        with path.open("wb") as file:
            file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 1 << 18, 1))
            for packet in packets:
                seconds, rest = divmod(packet.time_ns, 10**9)
                file.write(
                    struct.pack("<IIII", seconds, rest, len(packet.data), packet.wire_bytes) + packet.data
                )
        written.append(CaptureFile(str(path), path.name))
    return written


def found(folder: Path, files: Arranged, split_bytes: int = 1 << 26) -> Counter[tuple[int, ...]]:
    """Return the exchanges: ports, status, API, correlation id, latency, sizes."""
    splits = index_captures(write(folder, files), split_bytes).splits
    conversations = new_flow_processor(splits, np.array(highest_versions(), np.int64))
    rows: Counter[tuple[int, ...]] = Counter()

    def take(exchanges: np.ndarray) -> None:
        sizes = [
            exchanges[side]["frame_stop"] - exchanges[side]["start"] for side in (REQUEST_SIDE, RESPONSE_SIDE)
        ]
        latency = exchanges["response"]["first_byte_ns"] - exchanges["request"]["last_byte_ns"]
        latency[exchanges["status"] != ANSWERED] = 0
        columns = (exchanges["status"], exchanges["api_key"], exchanges["correlation_id"], latency, *sizes)
        ends = [conversations.endpoints[row] for row in exchanges["connection"]]
        for one, values in zip(ends, np.stack(columns, 1).tolist(), strict=True):
            rows[(one.a_port, one.b_port, *values)] += 1

    for pieces in by_split(scan_split(split) for split in splits):
        for harvest in conversations.feed(pieces):
            take(harvest.exchanges)
    for harvest in conversations.close():
        take(harvest.exchanges)
    return rows


def counted(folder: Path, packets: Sequence[Packet], split_bytes: int = 1 << 26) -> Counter[str]:
    """Return what the connections count, in all."""
    splits = index_captures(write(folder, [packets]), split_bytes).splits
    conversations = new_flow_processor(splits, np.array(highest_versions(), np.int64))
    for pieces in by_split(scan_split(split) for split in splits):
        for _ in conversations.feed(pieces):
            pass
    connections = array_of(conversations.state.connections)
    directions = array_of(conversations.state.directions)
    sums = {"packets": connections["packets"], "copies": connections["duplicates"],
            "sent again": directions["retransmitted"], "bytes": directions["payload_bytes"]}  # fmt: skip
    return Counter({name: int(column.sum()) for name, column in sums.items()})


def is_loaded(packet: Packet) -> bool:
    return bool(dpkt.ethernet.Ethernet(packet.data).data.data.data)


def to_server(packet: Packet) -> bool:
    return packet.ports[0] > packet.ports[1]


def late(packets: Sequence[Packet], is_late: Callable[[Packet], bool], by_ms: int) -> list[Packet]:
    """Return packets in the order of a capture that gets those of one interface late.

    Each has its own time.
    """
    return sorted(packets, key=lambda packet: packet.time_ns + by_ms * MS * is_late(packet))


def rotated(packets: Sequence[Packet]) -> list[list[Packet]]:
    files = [list(packets[start : start + 400]) for start in range(0, len(packets), 400)]
    random.Random(1).shuffle(files)
    return files


def copied(packet: Packet, tag: bool) -> Packet:
    """Return the packet as it is seen one router on, maybe in a VLAN."""
    data = packet.data
    data = data[:22] + bytes([data[22] - 1]) + data[23:]
    if tag:
        data = data[:12] + b"\x81\0\0\x05" + data[12:]
    return packet._replace(data=data, time_ns=packet.time_ns + 300_000, wire_bytes=len(data))


def renumbered(packet: Packet) -> Packet:
    """Return the packet as its sender would send it again."""
    return packet._replace(
        data=packet.data[:18] + bytes(b ^ 0x55 for b in packet.data[18:20]) + packet.data[20:]
    )


def much_later(packets: Sequence[Packet]) -> list[Packet]:
    """Return packets of another host, whose clock is ahead by more packets than pass one remembers."""
    return [copied(one, False)._replace(time_ns=one.time_ns + 700 * MS) for one in packets]


ARRANGEMENTS: dict[str, Callable[[Sequence[Packet]], Arranged]] = {
    "rotated, in any order": rotated,
    "two files": lambda packets: [packets[:1200], packets[1200:]],
    "an interface that is late": lambda packets: [late(packets, lambda one: sum(one.ports) % 2 == 0, 300)],
    "requests late": lambda packets: [late(packets, to_server, 10)],
    "responses late": lambda packets: [late(packets, lambda one: not to_server(one), 200)],
    "two places": lambda packets: [sorted([*packets, *(copied(one, False) for one in packets)])],
    "two clocks": lambda packets: [sorted([*packets, *much_later(packets)])],
    "with a VLAN and without": lambda packets: [sorted([*packets, *(copied(one, True) for one in packets)])],
}


@pytest.mark.parametrize("split_bytes", [30_000, 1 << 26])
@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_the_same_exchanges(tmp_path: Path, name: str, split_bytes: int) -> None:
    whole = found(tmp_path, [recorded()])
    assert sum(whole.values()) > 300
    assert found(tmp_path, ARRANGEMENTS[name](recorded()), split_bytes) == whole


@pytest.mark.parametrize("split_bytes", [30_000, 1 << 26])
def test_merged_captures_of_two_clocks_count_once(tmp_path: Path, split_bytes: int) -> None:
    """All that carries payload; bare acknowledgments only where pass one remembers them."""
    once = recorded()
    alone, loaded = counted(tmp_path, once), sum(is_loaded(one) for one in once)
    twice = counted(tmp_path, sorted([*once, *much_later(once)]), split_bytes)
    assert (twice["bytes"], twice["sent again"]) == (alone["bytes"], alone["sent again"])
    assert loaded <= twice["copies"] <= len(once)
    assert twice["copies"] + twice["packets"] == 2 * len(once)
    again = counted(tmp_path, sorted([*once, *map(renumbered, much_later(once))]), split_bytes)
    assert (again["copies"], again["sent again"]) == (0, alone["sent again"] + loaded)


def without_status_of_the_unanswered(rows: Counter[tuple[int, ...]]) -> Counter[tuple[int, ...]]:
    return Counter(
        (*row[:2], NO_ANSWER if row[2] == NO_RESPONSE_EXPECTED else row[2], *row[3:])
        for row in rows.elements()
    )


@pytest.mark.parametrize("snaplen", [64, 80, 96, 128, 256, 512])
def test_snap_lengths_keep_pairs_latencies_and_sizes(tmp_path: Path, snaplen: int) -> None:
    whole = found(tmp_path, [recorded()])
    cut = found(tmp_path, [[packet._replace(data=packet.data[:snaplen]) for packet in recorded()]])
    if snaplen < LINK_HEADER + 52 + 14:  # Ethernet, IP and TCP with its timestamps, a request's header
        assert sum(cut.values()) == 0
    else:
        # Only the first of several frames in one packet is to be seen, and acks=0 may lie behind the cut.
        whole, cut = (without_status_of_the_unanswered(rows) for rows in (whole, cut))
        assert sum((whole & cut).values()) > 0.85 * sum(whole.values())
        assert sum((cut - whole).values()) < 0.05 * sum(whole.values())


def test_one_direction(tmp_path: Path) -> None:
    whole = found(tmp_path, [recorded()])
    asked = found(tmp_path, [[packet for packet in recorded() if to_server(packet)]])
    assert Counter(row[4] for row in asked.elements()) == Counter(
        row[4] for row in whole.elements() if row[2] != ORPHAN_RESPONSE
    )
    assert {row[2] for row in asked} <= {NO_ANSWER, NO_RESPONSE_EXPECTED}
    told = found(tmp_path, [[packet for packet in recorded() if not to_server(packet)]])
    assert {row[2] for row in told} == {ORPHAN_RESPONSE}
    answers = Counter(row[4] for row in whole.elements() if row[2] in (ANSWERED, ORPHAN_RESPONSE))
    assert sum((answers & Counter(row[4] for row in told.elements())).values()) > 0.9 * sum(answers.values())
