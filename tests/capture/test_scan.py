"""Pass one: pieces and descriptors, whatever the splits; dpkt and tshark as witnesses; hostile bytes."""

import io
import json
import os
import random
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import dpkt
import pyarrow as pa
import pytest

from kdissect.capture.formats.file_types import InputError
from kdissect.capture.scan import scan_batches, scan_split
from kdissect.capture.segment_index import (
    FLAG_ACK,
    FLAG_ACK_ONLY,
    FLAG_B_TO_A,
    FLAG_BARE_ACK,
    FLAG_FIN,
    FLAG_RST,
    FLAG_SYN,
    FLAG_WINDOW_CLOSED,
    Counts,
    unpack_counts,
)
from tests.capture import outcome as outcome_module
from tests.capture.outcome import descriptors, outcome
from tests.capture.scanned_frames import BROKER, CLIENT, rows_of, to_broker, to_client
from tests.helpers.crafted_packets import (
    ACK,
    FIN,
    RST,
    SYN,
    enhanced,
    ethernet,
    interface,
    ip,
    pcap,
    section,
    survey_bytes,
    tcp,
)
from tests.helpers.random_traffic import pcap_traffic, pcapng_traffic


def test_a_connection(tmp_path: Path) -> None:
    frames = [
        to_broker(flags=SYN, seq=100),
        to_client(flags=SYN | ACK, seq=500, ack=101),
        to_broker(flags=ACK, seq=101, ack=501),
        to_broker(flags=ACK | 8, seq=101, ack=501, payload=b"request"),
        to_client(flags=ACK, seq=501, ack=108, window=0),
        to_client(flags=ACK, seq=501, ack=108),
        to_client(flags=ACK | 8, seq=501, ack=108, payload=b"answer"),
        to_broker(flags=ACK, seq=108, ack=507),
        to_broker(flags=ACK | FIN, seq=108, ack=507),
        to_client(flags=RST, seq=507, window=0),
    ]
    (row,), (described,), counts = rows_of(tmp_path, *frames)
    assert row["a_host"] == bytes(10) + b"\xff\xff" + socket.inet_aton(CLIENT)
    assert row["b_host"] == bytes(10) + b"\xff\xff" + socket.inet_aton(BROKER)
    assert (row["a_port"], row["b_port"], row["split"], row["piece"]) == (40000, 9092, 0, 0)
    assert (row["packets_ab"], row["packets_ba"], row["zero_windows"]) == (5, 5, 1)
    assert (row["first_time_ns"], row["last_time_ns"]) == (10**9, 10**9 + 9000)
    data = (tmp_path / "made.pcap").read_bytes()
    requested, answered = data.index(b"request"), data.index(b"answer")
    assert [one[3:] for one in described] == [
        [0, 0, 100, 0, FLAG_SYN],
        [0, 0, 500, 101, FLAG_SYN | FLAG_ACK | FLAG_B_TO_A],
        [0, 0, 101, 501, FLAG_ACK | FLAG_BARE_ACK],
        [7, 0, 101, 501, FLAG_ACK],
        [0, 0, 501, 108, FLAG_ACK | FLAG_BARE_ACK | FLAG_B_TO_A],
        [6, 0, 501, 108, FLAG_ACK | FLAG_B_TO_A],
        [0, 0, 108, 507, FLAG_ACK | FLAG_FIN],
        [0, 0, 507, 0, FLAG_RST | FLAG_B_TO_A],
    ]
    assert [one[1] for one in described] == [1, 2, 3, 4, 5, 7, 9, 10]
    assert [one[0] for one in described] == [10**9 + 1000 * (one[1] - 1) for one in described]
    assert (described[3][2], described[5][2]) == (requested, answered)
    assert counts == Counts(packets=10, tcp=10, payload_bytes=13)


def test_packets_that_are_only_counted(tmp_path: Path) -> None:
    frames = [
        to_broker(payload=b"12345"),
        ethernet(tcp(CLIENT, BROKER, (5, 6), payload=b"other ports")),
        ethernet(bytes(40), ethertype=0x0806),
        ethernet(ip(CLIENT, BROKER, 17, bytes(30))),
        ethernet(ip(CLIENT, BROKER, 6, bytes(30), fragment=0x2001)),
        to_broker()[:30],
    ]
    rows, _, counts = rows_of(tmp_path, *frames, ports=[9092, 9093])
    assert len(rows) == 1
    assert counts == Counts(packets=6, tcp=1, filtered=1, other=2, fragments=1, malformed=1, payload_bytes=5)
    assert rows_of(tmp_path, *frames, ports=[6])[0][0]["a_port"] == 5
    assert len(rows_of(tmp_path, *frames)[0]) == 2


def test_unknown_link_types(tmp_path: Path) -> None:
    data = section() + interface(link_type=105) + interface(link_type=60000) + interface()
    data += b"".join(enhanced(1, to_broker(payload=b"x"), number=number) for number in range(4))
    (split,) = survey_bytes(tmp_path, data).splits
    rows = scan_split(split).to_pylist()
    assert len(rows) == 2
    assert unpack_counts(rows[-1]["segments"]) == Counts(packets=4, tcp=1, unknown_link=3, payload_bytes=1)


def test_what_the_snap_length_cut_off(tmp_path: Path) -> None:
    frame = to_broker(payload=b"x" * 1000)
    (split,) = survey_bytes(
        tmp_path, section() + interface() + enhanced(1, frame[:100], original=len(frame))
    ).splits
    batch = scan_split(split)
    assert descriptors(batch.slice(0, 1))[0][0][3:5] == [46, 954]
    counts = unpack_counts(batch.column("segments")[1].as_py())
    assert counts == Counts(packets=1, tcp=1, truncated=1, payload_bytes=1000, missing_bytes=954)


def test_long_pieces_go_on_in_more_rows(tmp_path: Path) -> None:
    frames = [to_broker(payload=b"x", seq=number, window=0) for number in range(25)]
    frames.insert(3, ethernet(tcp(CLIENT, BROKER, (1, 2), payload=b"y")))
    whole, (first, second), _ = rows_of(tmp_path, *frames)
    rows, described, _ = rows_of(tmp_path, *frames, row_segments=20)  # a segment and its closed window each
    assert [row["count"] for row in rows] == [20, 20, 10, 1]
    assert [row["packets_ab"] for row in rows] == [25, 0, 0, 1]
    assert [row["zero_windows"] for row in rows] == [25, 0, 0, 0]
    assert [one for part in described[:3] for one in part] == first
    assert described[3] == second
    assert {row["bucket"] for row in rows[:3]} == {whole[0]["bucket"]}


def test_a_flood_of_attempts_is_counted_and_left_out(tmp_path: Path) -> None:
    frames = [ethernet(tcp(CLIENT, BROKER, (port, 9092), flags=SYN, seq=port)) for port in range(1000, 1100)]
    frames[50:50] = [to_broker(payload=b"said"), to_client(payload=b"told")]
    frames += [ethernet(tcp(BROKER, CLIENT, (9092, 1001), flags=SYN | ACK, ack=1002))]
    rows, described, counts = rows_of(tmp_path, *frames, most_attempts=20)
    assert counts == Counts(packets=103, tcp=103, payload_bytes=8, attempts=79)
    assert [len(one) for one in described] == [1, 2] + [1] * 19 + [2]
    assert rows[-1]["a_port"] == 40000
    assert rows[1]["b_port"] == 9092


def test_batches_of_ordinals(tmp_path: Path) -> None:
    splits = survey_bytes(tmp_path, pcap_traffic(4, 300), split_bytes=4000).splits
    assert len(splits) > 5
    wanted = pa.schema([("split", pa.int32())])
    batches = [pa.record_batch([pa.array(part, pa.int32())], schema=wanted) for part in ([3, 0], [], [5])]
    scanned = list(scan_batches(batches, splits, [9092]))
    assert [batch.column("split")[0].as_py() for batch in scanned] == [3, 0, 5]
    for batch in scanned:
        assert batch.equals(scan_split(splits[batch.column("split")[0].as_py()], [9092]))


TRAFFIC = {
    "pcap": pcap_traffic(21, 700),
    "big-endian": pcap_traffic(22, 300, ">", snap=90),
    "pcapng": pcapng_traffic(23, 500),
}


@pytest.fixture(params=TRAFFIC)
def traffic(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / str(request.param)
    path.write_bytes(TRAFFIC[request.param])
    return path


def test_the_splits_change_nothing(traffic: Path) -> None:
    whole = outcome(traffic, bare=False)
    assert len(whole["connections"]) > 10  # type: ignore[arg-type]
    for split_bytes in (1, 700, 5000, 33_333):
        assert outcome(traffic, bare=False, split_bytes=split_bytes) == whole


def test_the_chunks_change_nothing(traffic: Path) -> None:
    whole = outcome(traffic)
    for chunk_bytes in (1, 700, 1001, 5000):
        assert outcome(traffic, chunk_bytes=chunk_bytes, row_segments=7) == whole


@pytest.mark.slow
def test_the_compiler_changes_nothing(tmp_path: Path) -> None:
    paths = []
    for name, data in TRAFFIC.items():
        paths.append(tmp_path / name)
        paths[-1].write_bytes(data)
    expected = [outcome(path, split_bytes=5000) for path in paths]
    folders = [str(Path(outcome_module.__file__).parents[2]), *sys.path]
    run = subprocess.run(
        [sys.executable, "-W", "error", outcome_module.__file__, *map(str, paths)],
        env=os.environ | {"KDISSECT_JIT": "0", "PYTHONPATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == json.loads(json.dumps(expected))


@pytest.mark.parametrize("seed", range(5))
def test_dpkt_sees_the_same_segments(tmp_path: Path, seed: int) -> None:
    data = pcap_traffic(seed, 300)
    path = tmp_path / "x.pcap"
    path.write_bytes(data)
    expected = {}
    for number, (_, frame) in enumerate(dpkt.pcap.Reader(io.BytesIO(data)), 1):
        network = dpkt.ethernet.Ethernet(frame).data
        whole = isinstance(network, dpkt.ip.IP | dpkt.ip6.IP6) and isinstance(network.data, dpkt.tcp.TCP)
        if whole and not getattr(network, "mf", 0):
            expected[number] = network.data
    described = [one for piece in outcome(path)["connections"].values() for one in piece]
    seen = {one[1]: one for one in described if not one[7] & FLAG_ACK_ONLY}
    for one in described:
        if one[7] & FLAG_ACK_ONLY:
            assert one[6] == expected[one[1]].ack
            assert bool(one[7] & FLAG_WINDOW_CLOSED) == (expected[one[1]].win == 0)
    plain = {
        number for number, segment in expected.items() if segment.data or segment.flags & (SYN | FIN | RST)
    }
    assert {number for number, one in seen.items() if not one[7] & FLAG_BARE_ACK} == plain
    for number, one in seen.items():
        segment = expected[number]
        assert data[one[2] : one[2] + one[3]] == segment.data
        assert (one[5], one[6]) == (segment.seq, segment.ack if segment.flags & ACK else 0)


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
@pytest.mark.parametrize("name", ["pcap", "pcapng"])
def test_tshark_sees_the_same_segments(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(TRAFFIC[name])
    fields = [
        "frame.number",
        "frame.time_epoch",
        "tcp.srcport",
        "tcp.dstport",
        "tcp.seq_raw",
        "tcp.len",
        "tcp.flags",
    ]
    command = [
        "tshark",
        "-r",
        str(path),
        "-o",
        "ip.defragment:FALSE",
        "-Y",
        "tcp && !_ws.malformed && tcp.window_size_value",
    ]
    command[-1] = "tcp.len >= 0"
    run = subprocess.run(
        [*command, "-T", "fields", *(part for field in fields for part in ("-e", field))],
        capture_output=True,
        text=True,
        check=True,
    )
    witnessed = {}
    for line in run.stdout.splitlines():
        number, time, _, _, seq, length, flags = line.split("\t")
        if int(length) or int(flags, 16) & (SYN | FIN | RST):
            whole, _, fraction = time.partition(".")
            witnessed[int(number)] = [int(whole + fraction.ljust(9, "0")[:9]), int(seq), int(length)]
    assert len(witnessed) > 100
    pieces = outcome(path, bare=False)["connections"].values()  # type: ignore[attr-defined]
    seen = [one for piece in pieces for one in piece]
    assert {one[1]: [one[0], one[5], one[3] + one[4]] for one in seen} == witnessed


@pytest.mark.slow
def test_mutated_captures_never_raise(tmp_path: Path) -> None:
    chance = random.Random(5)
    for number in range(150):
        data = bytearray(TRAFFIC[chance.choice(list(TRAFFIC))][: chance.randrange(200, 20_000)])
        for _ in range(chance.randrange(1, 40)):
            data[chance.randrange(24, len(data))] = chance.randrange(256)
        if number % 3 == 0:
            at = chance.randrange(24, len(data))
            data[at : at + 4] = chance.choice(
                [b"\xff\xff\xff\xff", b"\0\0\0\0", b"\0\0\0\x80", b"\x0a\x0d\x0d\x0a"]
            )
        path = tmp_path / "mutated"
        path.write_bytes(data)
        whole = outcome(path, bare=False)
        assert outcome(path, bare=False, split_bytes=900, chunk_bytes=chance.choice([1, 600])) == whole
        counts = Counts(*whole["counts"])  # type: ignore[misc]
        assert counts.packets == whole["packets"]
        assert sum(counts[1:7]) == counts.packets


def test_random_bytes_behind_a_header_never_raise(tmp_path: Path) -> None:
    chance = random.Random(6)
    for _ in range(60):
        header = chance.choice(
            [pcap([]), pcap([], ">", snap=0), section() + interface(), section(">") + interface(">")]
        )
        path = tmp_path / "random"
        path.write_bytes(header + chance.randbytes(chance.randrange(3000)))
        whole = outcome(path)
        assert sum(Counts(*whole["counts"])[1:7]) == whole["packets"]  # type: ignore[misc]


def test_random_files_are_no_captures(tmp_path: Path) -> None:
    chance = random.Random(8)
    for _ in range(20):
        with pytest.raises(InputError):
            survey_bytes(tmp_path, chance.randbytes(chance.randrange(500)))
