"""An own ring has every packet of its stream, in files that are captures of their own."""

import os
import time
from pathlib import Path

import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.live import own_ring
from kdissect.live.own_ring import OwnRing
from kdissect.live.packet_stream import PacketStream
from tests.helpers.rings import CAPTURES, packets_of
from tests.live.test_packet_stream import pcapng

PCAP = CAPTURES / "old-broker.pcap"


def ring_of(data: bytes, folder: Path, waits: bool = True, most_bytes: int = 1 << 30) -> OwnRing:
    reader, writer = os.pipe()
    ring = OwnRing(reader, folder, "input", waits=waits, most_bytes=most_bytes)
    for at in range(0, len(data), 20_000):
        os.write(writer, data[at : at + 20_000])
        time.sleep(0.005)
    os.close(writer)
    return ring


def wait(ring: OwnRing) -> None:
    until = time.monotonic() + 20
    while not ring.has_ended and time.monotonic() < until:
        time.sleep(0.01)
    assert ring.has_ended


def packets_in(folder: Path) -> int:
    return index_captures(open_inputs([str(folder)], "").files).packets


@pytest.mark.parametrize("capture", [PCAP, pcapng()], ids=["pcap", "pcapng"])
def test_files_have_all_packets(capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_ring, "FILE_BYTES", 30_000)
    monkeypatch.setattr(own_ring, "READ_BYTES", 10_000)
    ring = ring_of(capture.read_bytes()[:400_000], tmp_path)
    wait(ring)
    assert (ring.failure, ring.skipped) == (None, 0)
    assert len(list(tmp_path.iterdir())) > 1
    whole = tmp_path.parent / f"whole-{capture.name}"
    whole.write_bytes(capture.read_bytes()[:400_000])
    assert packets_in(tmp_path) == index_captures(open_inputs([str(whole)], "").files).packets
    ring.free(str(path) for path in tmp_path.iterdir())
    assert not list(tmp_path.iterdir())
    ring.close()


@pytest.mark.parametrize(("file_seconds", "files"), [(1000, 1), (0, 40)])
def test_files_are_as_long_as_is_asked_for(
    file_seconds: float, files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One read of the stream is a file if files are as short as can be."""
    monkeypatch.setattr(own_ring, "READ_BYTES", 10_000)
    reader, writer = os.pipe()
    ring = OwnRing(reader, tmp_path, "input", waits=True, file_seconds=file_seconds)
    os.write(writer, PCAP.read_bytes()[:60_000])
    os.close(writer)
    wait(ring)
    assert len(list(tmp_path.iterdir())) == min(files, 6)
    ring.close()


def test_a_full_ring_skips_packets_that_cannot_wait(tmp_path: Path) -> None:
    ring = ring_of(PCAP.read_bytes(), tmp_path, waits=False, most_bytes=30_000)
    wait(ring)
    assert ring.skipped > 0
    assert packets_in(tmp_path) + ring.skipped == len(packets_of(PCAP)[1])
    ring.close()


@pytest.mark.slow
def test_a_full_ring_lets_a_pipe_wait(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    ring = OwnRing(reader, tmp_path, "input", waits=True, most_bytes=50_000, file_seconds=0)
    os.write(writer, PCAP.read_bytes()[:60_000])
    time.sleep(0.3)
    os.write(writer, PCAP.read_bytes()[60_000:90_000])
    os.close(writer)
    time.sleep(0.3)
    assert not ring.has_ended
    before = packets_in(tmp_path)
    ring.free(str(path) for path in tmp_path.iterdir())
    wait(ring)
    ring.close()
    with PCAP.open("rb") as file:
        whole = PacketStream("input")
        whole.feed(file.read(90_000))
    assert 0 < before < whole.packets
    assert before + packets_in(tmp_path) == whole.packets


def test_what_was_read_is_kept_for_a_while(tmp_path: Path) -> None:
    ring = ring_of(PCAP.read_bytes()[:60_000], tmp_path)
    wait(ring)
    count = packets_in(tmp_path)
    ring.keep_seconds = 60.0
    ring.free(map(str, tmp_path.iterdir()))
    assert packets_in(tmp_path) == count > 0
    ring.keep_seconds = 0.0
    ring.free([])
    assert not list(tmp_path.iterdir())
    ring.close()


def test_what_was_read_makes_room_for_what_comes(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    ring = OwnRing(reader, tmp_path, "input", waits=False, most_bytes=50_000, file_seconds=0)
    ring.keep_seconds = 60.0
    data = PCAP.read_bytes()
    for at in range(0, 120_000, 20_000):
        os.write(writer, data[at : at + 20_000])
        time.sleep(0.1)
        ring.free(map(str, tmp_path.glob("ring-*")))
    os.close(writer)
    wait(ring)
    left = sorted(tmp_path.glob("ring-*"))
    assert ring.skipped == 0
    assert 0 < sum(path.stat().st_size for path in left) <= 75_000  # with headers, and what came last
    assert left[0].name > "ring-00000000.pcap"  # the oldest went first
    assert left[-1].name == f"ring-{len(left) + int(left[0].stem[-8:]) - 1:08}.pcap"
    ring.close()


def test_what_came_before_damage_is_kept(tmp_path: Path) -> None:
    header, records = packets_of(PCAP)
    bad = bytearray(records[5])
    bad[8:12] = b"\xff\xff\xff\x7f"
    ring = ring_of(header + b"".join(records[:5]) + bytes(bad), tmp_path)
    wait(ring)
    assert "damaged after 5 packets" in str(ring.failure)
    assert packets_in(tmp_path) == 5
    ring.close()


def test_closing_ends_a_ring_that_waits(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    ring = OwnRing(reader, tmp_path, "input", waits=True)
    began = time.monotonic()
    ring.close()
    assert time.monotonic() - began < 1
    os.close(writer)
    os.close(reader)
