"""Scenarios are complete, chance follows from the seed, and the forwarder harms what it should."""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import Any

import dpkt
import pytest

from tests.lab.incidents import record
from tests.lab.incidents.first_packet import Mark, first_packet_ns
from tests.lab.incidents.forwarder import SYN, Treatment, reset_frames
from tests.lab.incidents.scene import SCENARIOS, Scene

record.load()


def frame(
    source: str, target: str, ports: tuple[int, int] = (40_000, 9092), flags: int = 16, size: int = 60
) -> bytes:
    """An Ethernet frame with an IPv4 and a TCP header; what is above 54 bytes is data."""
    ethernet = bytes(12) + b"\x08\x00"
    length = struct.pack(">H", size - 14)
    ends = socket.inet_aton(source) + socket.inet_aton(target)
    ip = bytes([0x45, 0]) + length + bytes(5) + bytes([6]) + bytes(2) + ends
    tcp = struct.pack(">HH", *ports) + bytes(8) + bytes([0x50, flags]) + bytes(6)
    return (ethernet + ip + tcp).ljust(size, b"\0")


HERE, THERE, ELSEWHERE = "10.1.0.11", "10.1.0.1", "10.1.0.2"
ARP = bytes(12) + b"\x08\x06" + bytes(28)


def test_there_are_enough_scenarios() -> None:
    assert sum(not one.healthy for one in SCENARIOS.values()) >= 40
    assert sum(one.healthy for one in SCENARIOS.values()) >= 10


def test_twins_are_scenarios() -> None:
    assert {one.twin_of for one in SCENARIOS.values() if one.twin_of} <= SCENARIOS.keys()


def test_either_place_is_used_unless_the_scenario_needs_one() -> None:
    for scenario in SCENARIOS.values():
        places = {record.place_of(scenario, seed) for seed in (1, 2)}
        assert places == ({scenario.place} if scenario.place else {"hosts", "loopback"})


def scene(name: str, seed: int) -> Scene:
    nothing: Any = None
    return Scene(name, seed, nothing, nothing, Path(), Path(), set())


@pytest.mark.parametrize(
    ("late_s", "early_s", "onset_s", "kept_s"),
    [(4, 0, 12, (16, 30)), (0, 7, 12, (2, 22)), (4, 0, None, (6, 30)), (0, 99, 12, (2, 30))],
    ids=["late", "early", "late and well", "not so early"],
)
def test_a_capture_begins_late_or_ends_early(
    late_s: float, early_s: float, onset_s: int | None, kept_s: tuple[int, int]
) -> None:
    """The incident is noticed three seconds after it begins."""
    second = 10**9
    one = scene("steady", 1)
    one.late_s, one.early_s = late_s, early_s
    one.truth |= {"begin_ns": 2 * second, "stop_ns": 30 * second, "seen_later_s": 3}
    one.truth |= {} if onset_s is None else {"onset_ns": onset_s * second}
    one.trim()
    assert (one.truth["begin_ns"], one.truth["stop_ns"]) == tuple(second * kept for kept in kept_s)
    if onset_s is not None:
        assert one.truth["onset_ns"] == max(onset_s, kept_s[0]) * second


def test_chance_follows_from_the_seed() -> None:
    first, same, other = (scene("steady", seed) for seed in (1, 1, 2))
    assert [first.client_id() for _ in range(5)] == (names := [same.client_id() for _ in range(5)])
    assert [other.client_id() for _ in range(5)] != names


def test_all_clients_may_be_on_one_host() -> None:
    known = scene("steady", 1)
    known.only_host = "c2"
    assert {known.host() for _ in range(9)} == {"c2"}


def test_names_do_not_repeat() -> None:
    one = scene("steady", 1)
    names = [one.fresh(("a", "b"), ("c", "d")) for _ in range(12)]
    assert len(set(names)) == 12


def test_dead_way_passes_nothing_but_arp() -> None:
    treatment = Treatment({"cut": True})
    assert treatment.delay_of(frame(HERE, THERE), 0.0) is None
    assert treatment.delay_of(ARP, 0.0) == 0.0


def test_only_the_peer_is_cut_off() -> None:
    treatment = Treatment({"cut": True, "peer": THERE})
    assert treatment.delay_of(frame(THERE, HERE), 0.0) is None
    assert treatment.delay_of(frame(HERE, ELSEWHERE), 0.0) == 0.0


def test_only_what_a_host_sends_is_cut_off() -> None:
    treatment = Treatment({"cut": True, "source": HERE})
    assert treatment.delay_of(frame(HERE, THERE), 0.0) is None
    assert treatment.delay_of(frame(THERE, HERE), 0.0) == 0.0


def test_only_a_port_is_cut_off() -> None:
    treatment = Treatment({"cut": True, "port": 9093})
    ways = ((40_000, 9093), (9093, 40_000), (40_000, 9092))
    assert [treatment.delay_of(frame(HERE, THERE, ports), 0.0) for ports in ways] == [None, None, 0.0]


def test_frames_wait_for_a_narrow_way_and_are_lost_beyond_its_queue() -> None:
    treatment = Treatment({"rate": 1000})
    delays = [treatment.delay_of(frame(HERE, THERE, size=250), 0.0) for _ in range(4)]
    assert delays == [0.0, 0.25, None, None]
    assert treatment.delay_of(frame(HERE, THERE, size=250), 1.0) == 0.0


def test_jitter_delays_each_frame_by_chance() -> None:
    treatment = Treatment({"jitter_s": 0.04})
    delays = [treatment.delay_of(frame(HERE, THERE), 0.0) or 0.0 for _ in range(200)]
    assert min(delays) < 0.005
    assert 0.035 < max(delays) <= 0.04


def test_slow_way_delays_both_directions() -> None:
    treatment = Treatment({"delay_s": 0.05})
    assert [treatment.delay_of(frame(*ends), 0.0) for ends in ((HERE, THERE), (THERE, HERE))] == [0.05, 0.05]


def test_large_frames_are_lost() -> None:
    treatment = Treatment({"largest": 1000})
    assert treatment.delay_of(frame(HERE, THERE, size=1001), 0.0) is None
    assert treatment.delay_of(frame(HERE, THERE, size=1000), 0.0) == 0.0


@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_share_of_lost_packets(share: float) -> None:
    treatment = Treatment({"lost": share})
    lost = sum(treatment.delay_of(frame(HERE, THERE), 0.0) is None for _ in range(2000))
    assert abs(lost / 2000 - share) < 0.03
    assert (treatment.counted["passed"], treatment.counted["lost"]) == (2000 - lost, lost)
    assert ("first_lost_ns" in treatment.counted) == (lost > 0)


def test_lost_packets_without_data_begin_no_incident() -> None:
    treatment = Treatment({"cut": True})
    assert treatment.delay_of(frame(HERE, THERE, size=54), 0.0) is None
    assert "first_lost_ns" not in treatment.counted
    treatment.delay_of(frame(HERE, THERE, size=55), 0.0)
    assert "first_lost_ns" in treatment.counted


def test_silent_connection_is_forgotten_until_it_is_opened_anew() -> None:
    treatment = Treatment({"idle_s": 5})
    there, back = frame(HERE, THERE), frame(THERE, HERE, (9092, 40_000))
    assert [treatment.delay_of(packet, moment) for packet, moment in ((there, 0.0), (back, 4.0))] == [
        0.0,
        0.0,
    ]
    assert treatment.delay_of(there, 9.5) is None
    assert treatment.delay_of(there, 9.7) is None
    assert treatment.delay_of(frame(HERE, THERE, (40_001, 9092)), 9.8) == 0.0
    assert treatment.delay_of(frame(HERE, THERE, flags=SYN), 10.0) == 0.0
    assert treatment.delay_of(back, 10.1) == 0.0


def test_only_attempts_to_connect_are_dropped() -> None:
    treatment = Treatment({"no_syn": True})
    assert treatment.delay_of(frame(HERE, THERE, flags=SYN), 0.0) is None
    assert treatment.delay_of(frame(HERE, THERE), 0.0) == 0.0


def checksum_of(words: bytes) -> int:
    """The sum of the words of a segment, as the checksum of TCP adds them."""
    return sum(int.from_bytes(words[at : at + 2], "big") for at in range(0, len(words) - 1, 2)) % 65_535


@pytest.mark.parametrize("size", [600, 601])
def test_damaged_segment_keeps_its_checksum(size: int) -> None:
    treatment = Treatment({"garbled": 1.0, "source": HERE})
    whole = frame(HERE, THERE, size=size)[:54] + bytes(number % 251 for number in range(size - 54))
    damaged = treatment.garbled(whole)
    assert damaged != whole
    assert damaged[:54] == whole[:54]
    assert checksum_of(damaged[34:] + b"\0") == checksum_of(whole[34:] + b"\0")
    small, other = frame(HERE, THERE), frame(THERE, HERE, size=600)
    assert [treatment.garbled(packet) for packet in (small, other)] == [small, other]


def test_old_connection_is_reset_at_both_ends() -> None:
    treatment = Treatment({"reset_after_s": 4})
    segment = dpkt.tcp.TCP(sport=40_000, dport=9092, seq=1000, ack=7, flags=dpkt.tcp.TH_ACK, data=b"request")
    packet = dpkt.ip.IP(src=socket.inet_aton(HERE), dst=socket.inet_aton(THERE), p=6, data=segment)
    packet.len = len(packet)
    data = bytes(dpkt.ethernet.Ethernet(src=b"\x02" * 6, dst=b"\x04" * 6, data=packet))
    assert [treatment.resets(data, moment) for moment in (0.0, 3.9, 4.1)] == [False, False, True]
    onward, back = (dpkt.ethernet.Ethernet(frame).data for frame in reset_frames(data))
    assert (socket.inet_ntoa(onward.src), onward.data.dport, onward.data.seq) == (HERE, 9092, 1000)
    assert (socket.inet_ntoa(back.src), back.data.dport, back.data.ack) == (THERE, 40_000, 1007)
    assert onward.data.flags & back.data.flags & dpkt.tcp.TH_RST


def test_incident_begins_with_the_packet_that_names_the_client(tmp_path: Path) -> None:
    capture = tmp_path / "capture.pcap"
    with capture.open("wb") as file:
        writer = dpkt.pcap.Writer(file)
        packets = (
            (1, frame(HERE, THERE) + b"api-1 orders"),
            (2, frame(HERE, THERE, flags=SYN)),
            (3, frame(THERE, HERE, flags=SYN)),
            (4, frame(HERE, THERE) + b"api-1 orders"),
        )
        for seconds, packet in packets:
            length = (len(packet) - 14).to_bytes(2, "big")
            writer.writepkt(packet[:16] + length + packet[18:], seconds)
    assert first_packet_ns(capture, Mark(("api-1", "orders")), 0) == 1_000_000_000
    assert first_packet_ns(capture, Mark(("api-1", "orders")), 1_500_000_000) == 4_000_000_000
    assert first_packet_ns(capture, Mark(("api-1", "payments")), 0) is None
    assert first_packet_ns(capture, Mark((), THERE), 0) == 3_000_000_000
    assert first_packet_ns(capture, Mark((), HERE, (9092,)), 0) == 2_000_000_000
    assert first_packet_ns(capture, Mark((), HERE, (9093,)), 0) is None
