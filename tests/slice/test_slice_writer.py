"""Slices of recorded captures hold the same rows, packets and comments as what they were cut from."""

import gzip
import shutil
from collections import Counter
from pathlib import Path

import pytest
from scapy.compat import raw
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN
from scapy.utils import PcapReader, PcapWriter

from kdissect.protocol.codec.messages import encode_request, encode_response
from tests.helpers.crafted_packets import block, enhanced, interface, option, section
from tests.helpers.handmade_capture import write_capture
from tests.slice.sliced_capture import CAPTURES, make_slice, needs_tshark, of_connections, rows, tshark

CHOICES = {
    "pause": ("--api", "Produce"),
    "clock-step": ("--since", "+2s", "--until", "+5s"),
    "tls": (),
    "old-broker": ("--api", "Metadata"),
}


def talk(count: int) -> list[tuple[bool, bytes]]:
    """Return heartbeats with their responses."""
    made: list[tuple[bool, bytes]] = []
    for number in range(count):
        header = {
            "request_api_key": 12, "request_api_version": 0, "correlation_id": number, "client_id": "me",
        }  # fmt: skip
        body = {"group_id": "g", "generation_id": 4, "member_id": "m"}
        made += [
            (True, encode_request(header, body)),
            (False, encode_response(12, 0, {"correlation_id": number}, {"error_code": 27})),
        ]
    return made


def capture(name: str) -> Path:
    return next(path for path in CAPTURES.iterdir() if path.stem == name)


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.slow
def test_rows_are_those_of_the_capture(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = make_slice(tmp_path, capture(name), *CHOICES[name])
    chosen = rows(capfd, capture(name), *CHOICES[name])
    expected = of_connections(rows(capfd, capture(name)), chosen)
    assert expected
    if name == "tls":
        assert rows(capfd, path) == []
        path = make_slice(tmp_path, capture(name), "--with-secrets", name="open.pcapng")
    assert rows(capfd, path) == expected


@needs_tshark
@pytest.mark.parametrize("name", ["pause", "rough-link"])
def test_tshark_sees_the_packets_of_whole_connections(name: str, tmp_path: Path) -> None:
    path = make_slice(tmp_path, capture(name), "--api", "JoinGroup", "--api", "InitProducerId")
    fields = ("-T", "fields", "-e", "frame.time_epoch", "-e", "frame.len", "-e", "frame.cap_len")
    ends = ("-e", "ip.src", "-e", "tcp.srcport", "-e", "ip.dst", "-e", "tcp.dstport", "-e", "tcp.seq_raw")
    cut = [line.split("\t") for line in tshark(path, *fields, *ends)]
    tuples = {frozenset([(one[3], one[4]), (one[5], one[6])]) for one in cut}
    everything = [line.split("\t") for line in tshark(capture(name), *fields, *ends)]
    kept = [one for one in everything if frozenset([(one[3], one[4]), (one[5], one[6])]) in tuples]
    assert 0 < len(kept) < len(everything)
    assert cut == kept


@needs_tshark
def test_tshark_reads_the_comments(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    choice = ("--api", "Produce", "--error", "any")
    source = capture("broker-restart")
    path = make_slice(tmp_path, source, *choice)
    lines = tshark(path, "-Y", "frame.comment", "-T", "fields", "-E", "aggregator=|", "-e", "frame.comment")
    comments = [comment for line in lines for comment in line.split("|")]
    chosen = rows(capfd, source, *choice)
    requests = [one for one in comments if one.startswith("Produce v")]
    responses = [one for one in comments if one.startswith("Response to Produce v")]
    assert len(requests) == len(responses) == len(chosen) > 10
    numbers = Counter(f"v{one['api_version']} #{one['correlation_id']}" for one in chosen)
    assert Counter(" ".join(one.split()[1:3]) for one in requests) == numbers
    assert all("answered after" in one and ": " in one for one in requests)


def test_compressed_and_several_captures(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    packed = tmp_path / "steady.pcapng.gz"
    packed.write_bytes(gzip.compress(capture("pause").read_bytes(), 1))
    handmade = write_capture(tmp_path / "heartbeats.pcap", talk(3))
    sources = (packed, handmade)
    path = make_slice(tmp_path, *sources, "--api", "Heartbeat")
    chosen = rows(capfd, *sources, "--api", "Heartbeat")
    assert {one["client"] for one in chosen} > {"10.0.0.1:40000"}
    assert rows(capfd, path) == of_connections(rows(capfd, *sources), chosen)
    if shutil.which("tshark"):
        assert set(tshark(path, "-T", "fields", "-e", "frame.interface_id")) == {"0", "1"}


def test_only_packets_of_chosen_exchanges(tmp_path: Path) -> None:
    source = write_capture(tmp_path / "talk.pcap", talk(9))
    whole = make_slice(tmp_path, source, "--since", "+9ms", "--until", "+10ms")
    assert len(packets(whole)) == 3 + 18
    only = make_slice(tmp_path, source, "--since", "+9ms", "--until", "+10ms", "--only-exchanges")
    assert packets(only) == packets(source)[9:11]
    around = make_slice(tmp_path, source, "--since", "+9ms", "--until", "+10ms", "--around", "2ms")
    assert packets(around) == packets(source)[7:13]


def test_copies_and_tunnels_stay(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = write_capture(tmp_path / "talk.pcap", talk(4))
    tunnelled = tmp_path / "tunnelled.pcap"
    with PcapReader(str(source)) as plain, PcapWriter(str(tunnelled), linktype=1) as out:
        for packet in plain:
            outer = IP(src="172.16.0.1", dst="172.16.0.2") / UDP(sport=5, dport=4789) / VXLAN(vni=7)
            wrapped = Ether() / outer / packet
            other = Ether() / IP(src="10.0.0.1", dst="10.0.0.2") / UDP(sport=1, dport=2) / b"something else"
            for one in (packet, wrapped, other):
                one.time = packet.time
                out.write(one)
    path = make_slice(tmp_path, tunnelled)
    kept = packets(path)
    assert kept == [one for number, one in enumerate(packets(tunnelled)) if number % 3 != 2]
    assert rows(capfd, path) == rows(capfd, tunnelled)


def test_names_flags_and_hostile_texts(tmp_path: Path) -> None:
    source = write_capture(tmp_path / "talk.pcap", talk(1))
    names = b"\x01\0\x0c\0" + bytes([10, 0, 0, 2]) + b"bro\x1bke\0"
    names += b"\x01\0\x09\0" + bytes([10, 9, 9, 9]) + b"else\0" + bytes(3) + bytes(4)
    described = option(2, b"eth\x1b0") + bytes(4)
    flagged = [
        enhanced_with(number, one, option(2, b"\x01\0\0\0") + option(1, b"seen \xe2\x80\xae") + bytes(4))
        for number, one in enumerate(packets(source))
    ]
    made = tmp_path / "made.pcapng"
    made.write_bytes(b"".join([section(), interface(options=described), block(4, names), *flagged]))
    path = make_slice(tmp_path, made)
    assert packets(path) == packets(source)
    written = path.read_bytes()
    assert b"bro\\x1bke" in written
    assert b"else\0" not in written
    assert b"eth\\x1b0" in written
    assert b"eth\x1b" not in written
    assert b"bro\x1b" not in written
    assert written.count(b"seen \\u202e") == len(packets(source))


def enhanced_with(number: int, data: bytes, options: bytes) -> bytes:
    made = enhanced(1_330_000_000_000_000 + 1000 * number, data)
    body = made[8:-4] + options
    return block(6, body)


def packets(path: Path) -> list[bytes]:
    """Return the bytes of all packets, as scapy reads them."""
    with PcapReader(str(path)) as reader:
        return [raw(packet) for packet in reader]
