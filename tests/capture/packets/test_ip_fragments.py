"""IP fragments cut by scapy: in any order of the parts, the bytes of the stream are where they belong."""

import random
from pathlib import Path
from typing import Any

import pytest
from scapy.compat import raw
from scapy.layers.inet import IP, TCP, UDP, fragment
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment, fragment6
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw

from tests.capture.flow_tables import table_of
from tests.capture.outcome import outcome
from tests.helpers.crafted_packets import ethernet, pcap, tcp

BODY = random.Random(1).randbytes(4000)
BARE_ACK = 32


def segment(identification: int = 5, seq: int = 1000) -> Packet:
    return (
        IP(src="10.0.0.1", dst="10.0.0.2", id=identification)
        / TCP(sport=40000, dport=9092, seq=seq, flags="PA", options=[("Timestamp", (1, 2))])
        / Raw(BODY)
    )


def parts_of(kind: str, identification: int = 5, seq: int = 1000) -> list[bytes]:
    """Return the frames that hold BODY at `seq`."""
    whole = segment(identification, seq)
    if kind == "IPv4":
        parts = fragment(whole, 1000)
    elif kind == "IPv6":
        header = IPv6(src="2001:db8::1", dst="2001:db8::2") / IPv6ExtHdrFragment(id=identification)
        parts = fragment6(header / whole[TCP], 1280)
    else:
        tunnel = (
            IP(src="172.16.0.1", dst="172.16.0.2", id=identification)
            / UDP(sport=1, dport=4789)
            / VXLAN(vni=1, flags="Instance")
        )
        parts = fragment(tunnel / Ether() / whole, 1480)
    assert len(parts) > 2
    return [raw(Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / part) for part in parts]


def stream_of(path: Path, **options: int) -> tuple[dict[int, int], dict[str, Any]]:
    """Return the first byte seen of each sequence number, and the outcome."""
    seen = outcome(path, **options)
    data = path.read_bytes()
    stream: dict[int, int] = {}
    for described in seen["connections"].values():  # type: ignore[attr-defined]
        for one in described:
            for at in range(one[3]):
                stream.setdefault(one[5] + at, data[one[2] + at])
    return stream, seen


def write(path: Path, frames: list[bytes], step_us: int = 10) -> Path:
    path.write_bytes(
        pcap([(10 + number * step_us // 10**6, number * step_us % 10**6, data)
              for number, data in enumerate(frames)])
    )  # fmt: skip
    return path


def expected(seq: int = 1000) -> dict[int, int]:
    return {seq + at: byte for at, byte in enumerate(BODY)}


@pytest.mark.parametrize("order", ["in order", "last first", "shuffled", "each twice"])
@pytest.mark.parametrize("kind", ["IPv4", "IPv6", "VXLAN"])
def test_the_stream_is_whole(tmp_path: Path, kind: str, order: str) -> None:
    frames = parts_of(kind)
    if order == "last first":
        frames.reverse()
    elif order == "shuffled":
        random.Random(kind).shuffle(frames)
    elif order == "each twice":
        frames = [frame for frame in frames for _ in range(2)]
    path = write(tmp_path / "x", frames)
    stream, seen = stream_of(path)
    assert stream == expected()
    counts = seen["counts"]
    assert counts[:2] == [len(frames), len(frames)]
    assert counts[10] == (len(frames) // 2 if order == "each twice" else 0)
    assert sum(one[3] + one[4] for piece in seen["connections"].values() for one in piece) == len(BODY)
    for split_bytes in (1, 1500, 4000):
        again = outcome(path, split_bytes=split_bytes, bare=False)
        assert again["counts"] == counts
        assert stream_of(path, split_bytes=split_bytes)[0] == stream


@pytest.mark.parametrize("order", [1, -1], ids=["in order", "last first"])
@pytest.mark.parametrize("kind", ["IPv4", "IPv6", "VXLAN"])
def test_all_parts_belong_to_one_piece(kind: str, order: int) -> None:
    frames = []
    for number, part in enumerate(parts_of(kind)[::order]):
        frames += [ethernet(tcp(ports=(number + 1, 9092), payload=b"x")), part]
    flows = table_of(pcap([(1, number, frame) for number, frame in enumerate(frames)]))
    assert len(flows.pieces) == len(frames) // 2 + 1


@pytest.mark.parametrize("kind", ["IPv4", "IPv6", "VXLAN"])
def test_a_part_that_is_missing_is_missing(tmp_path: Path, kind: str) -> None:
    frames = parts_of(kind)
    for lost in range(1, len(frames)):
        stream, _ = stream_of(write(tmp_path / "x", frames[:lost] + frames[lost + 1 :]))
        assert stream.items() <= expected().items()
        assert 0 < len(BODY) - len(stream) <= 1480
    stream, seen = stream_of(write(tmp_path / "x", frames[1:]))
    assert stream == {}
    assert seen["counts"][4 if kind != "VXLAN" else 3] == len(frames) - 1


def test_overlapping_parts_first_seen_wins(tmp_path: Path) -> None:
    whole = raw(segment()[TCP])
    head = IP(src="10.0.0.1", dst="10.0.0.2", id=5, proto=6)

    def part(start: int, stop: int, forged: bool = False, more: bool = True) -> bytes:
        body = whole[start:stop]
        ip = head.copy()
        ip.flags, ip.frag = "MF" if more else 0, start // 8
        return raw(Ether() / ip / Raw(bytes(255 - byte for byte in body) if forged else body))

    frames = [part(0, 800), part(800, 1600), part(400, 1200, forged=True), part(1200, 2400, forged=True)]
    stream, _ = stream_of(write(tmp_path / "x", frames))
    right = expected()
    for at in range(1600 - 32, 2400 - 32):
        right[1000 + at] = 255 - right[1000 + at]
    assert stream == {seq: byte for seq, byte in right.items() if seq < 1000 + 2400 - 32}


def test_many_datagrams_at_once(tmp_path: Path) -> None:
    chance = random.Random(2)
    frames = []
    for number in range(40):
        frames += parts_of("IPv4", number, 1000 + number * len(BODY))
    near = [frames[at : at + 50] for at in range(0, len(frames), 50)]
    for some in near:
        chance.shuffle(some)
    stream, seen = stream_of(write(tmp_path / "x", [frame for some in near for frame in some]))
    wanted: dict[int, int] = {}
    for number in range(40):
        wanted |= expected(1000 + number * len(BODY))
    assert stream == wanted
    assert seen["counts"][4] == 0


def test_a_number_that_is_used_again_much_later_is_another_datagram(tmp_path: Path) -> None:
    frames = parts_of("IPv4")
    frames = [frames[0], frames[1], *parts_of("IPv4", 5, 90_000)[2:]]
    times = [10, 10, *([60] * (len(frames) - 2))]
    (tmp_path / "x").write_bytes(
        pcap([(second, 0, data) for second, data in zip(times, frames, strict=True)])
    )
    stream, seen = stream_of(tmp_path / "x")
    assert max(stream) < 1000 + len(BODY)
    assert seen["counts"][4] == len(frames) - 2


def test_first_parts_without_ports_are_malformed(tmp_path: Path) -> None:
    whole = raw(segment()[TCP])
    tiny = IP(src="10.0.0.1", dst="10.0.0.2", id=5, proto=6, flags="MF") / Raw(whole[:16])
    rest = IP(src="10.0.0.1", dst="10.0.0.2", id=5, proto=6, frag=2) / Raw(whole[16:400])
    _, seen = stream_of(write(tmp_path / "x", [raw(Ether() / tiny), raw(Ether() / rest)]))
    assert seen["counts"][1:7] == [0, 0, 0, 1, 0, 1]


def test_random_parts_never_break_anything(tmp_path: Path) -> None:
    chance = random.Random(9)
    frames = []
    for _ in range(1500):
        data = bytearray(
            chance.choice(parts_of(chance.choice(["IPv4", "IPv6", "VXLAN"])))
            if chance.random() < 0.02 or not frames
            else chance.choice(frames)
        )
        for _ in range(chance.randrange(3)):
            data[chance.randrange(14, 80)] = chance.randrange(256)
        frames.append(bytes(data))
    path = write(tmp_path / "x", frames)
    seen = outcome(path, bare=False)
    assert sum(seen["counts"][1:7]) == len(frames)
    for split_bytes in (3000, 50_000):
        again = outcome(path, bare=False, split_bytes=split_bytes)
        assert again == seen
