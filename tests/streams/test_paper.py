"""A capture made by hand, packet by packet, and what its tables must say, worked out on paper.

Client 10.0.0.1:40000 speaks to broker 10.0.0.2:9092. Times are milliseconds after T0:

      0.0  SYN        0.3  SYN-ACK    0.4  ACK                            server RTT 0.3 ms, client RTT 0.1 ms
      1.0  ApiVersions 3, correlation id 1         3.5  its response               latency 2.5 ms
     10.0  Fetch 4, id 2, in two segments,
     12.0  the second one                         512.0  empty response     latency 500.0 ms, a long poll
     20.0  Metadata 1, id 3, pipelined            513.5  its response, first part
                                                  514.0  and last part      latency 493.5 ms, in flight 2
    600.0  Produce 3 with acks 0, id 4                                             no response expected
    700.0  Heartbeat 0, id 5                      700.8  its response, error 27    latency 0.8 ms
    710.0  Heartbeat 0, id 6                                                       unanswered
"""

import struct
from pathlib import Path

import pyarrow as pa
import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.utils import EDecimal, PcapNgWriter, PcapWriter

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.capture.scan import scan_split
from kdissect.tables.build import dissect_batches
from tests.helpers.segment_wire import request, response

T0_US = 1_750_000_000_000_000
FETCH_BODY = (
    struct.pack(">iiiib", -1, 500, 1, 1 << 20, 0)
    + struct.pack(">i", 1)
    + b"\x00\x06orders"
    + struct.pack(">iiqi", 1, 0, 42, 1 << 20)
)
EMPTY_FETCH = (
    struct.pack(">i", 0)
    + struct.pack(">i", 1)
    + b"\x00\x06orders"
    + struct.pack(">iihqqi", 1, 0, 0, 42, 42, 0)
    + struct.pack(">i", 0)
)
METADATA = (
    struct.pack(">i", 1)
    + struct.pack(">ih", 7, 2)
    + b"b1"
    + struct.pack(">ih", 9092, -1)
    + struct.pack(">i", 7)
    + struct.pack(">i", 0)
)
PRODUCE_BODY = struct.pack(">hhii", -1, 0, 1000, 0)
HEARTBEAT_BODY = b"\x00\x02g1" + struct.pack(">i", 1) + b"\x00\x02m1"


class Paper:
    """Packets with exact microsecond times."""

    def __init__(self) -> None:
        self.packets = []
        self.next = {True: 1000, False: 500}

    def add(self, at_ms: float, from_client: bool, flags: str, payload: bytes = b"") -> None:
        ends = ("10.0.0.1", "10.0.0.2", 40000, 9092) if from_client else ("10.0.0.2", "10.0.0.1", 9092, 40000)
        tcp = TCP(sport=ends[2], dport=ends[3], seq=self.next[from_client], flags=flags)
        if "A" in flags:
            tcp.ack = self.next[not from_client]
        packet = (
            Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01")
            / IP(src=ends[0], dst=ends[1])
            / tcp
            / payload
        )
        self.packets.append((T0_US + round(at_ms * 1000), packet))
        self.next[from_client] += len(payload) + ("S" in flags)

    def write(self, path: Path, writer: type) -> None:
        with writer(str(path)) as out:
            for time_us, packet in sorted(self.packets, key=lambda one: one[0]):
                packet.time = EDecimal(time_us) / 1_000_000
                out.write(packet)


def paper() -> Paper:
    made = Paper()
    made.add(0.0, True, "S")
    made.add(0.3, False, "SA")
    made.add(0.4, True, "A")
    made.add(1.0, True, "PA", request(18, 3, 1, b"\x00\x05test\x041.0\x00", client=b"me"))
    made.add(3.5, False, "PA", response(1, struct.pack(">hb", 0, 1) + struct.pack(">ib", 0, 0)))
    fetch = request(1, 4, 2, FETCH_BODY, client=b"me")
    made.add(10.0, True, "A", fetch[:30])
    made.add(12.0, True, "PA", fetch[30:])
    made.add(20.0, True, "PA", request(3, 1, 3, struct.pack(">i", 0), client=b"me"))
    made.add(512.0, False, "PA", response(2, EMPTY_FETCH))
    metadata = response(3, METADATA)
    made.add(513.5, False, "A", metadata[:10])
    made.add(514.0, False, "PA", metadata[10:])
    made.add(600.0, True, "PA", request(0, 3, 4, PRODUCE_BODY, client=b"me"))
    made.add(700.0, True, "PA", request(12, 0, 5, HEARTBEAT_BODY, client=b"me"))
    made.add(700.8, False, "PA", response(5, struct.pack(">h", 27)))
    made.add(710.0, True, "PA", request(12, 0, 6, HEARTBEAT_BODY, client=b"me"))
    return made


@pytest.fixture(params=[PcapWriter, PcapNgWriter], ids=["pcap", "pcapng"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, pa.Table]:
    path = tmp_path / "paper"
    paper().write(path, request.param)
    splits = index_captures(open_inputs([str(path)], str(tmp_path)).files).splits
    found: dict[str, list[pa.RecordBatch]] = {}
    for batches in dissect_batches([scan_split(split) for split in splits], splits):
        for name, batch in batches.items():
            found.setdefault(name, []).append(batch)
    return {name: pa.Table.from_batches(batches) for name, batches in found.items()}


def ms(value: float) -> int:
    return round(value * 1_000_000)


def at(value: float) -> int:
    return T0_US * 1000 + ms(value)


def test_exchanges(tables: dict[str, pa.Table]) -> None:
    rows = sorted(tables["exchanges"].to_pylist(), key=lambda row: row["ordinal"])
    columns = ("api_name", "status", "latency_ns", "idle_wait", "in_flight", "error_name", "request_packet")
    assert [tuple(row[name] for name in columns) for row in rows] == [
        ("ApiVersions", "answered", ms(2.5), False, 1, "NONE", 4),
        ("Fetch", "answered", ms(500.0), True, 1, "NONE", 6),
        ("Metadata", "answered", ms(493.5), False, 2, None, 8),
        ("Produce", "no_response_expected", None, False, 1, None, 12),
        ("Heartbeat", "answered", ms(0.8), False, 1, "REBALANCE_IN_PROGRESS", 13),
        ("Heartbeat", "unanswered", None, False, 1, None, 15),
    ]
    assert [row["fault"] for row in rows] == [None] * 6
    fetch, metadata = rows[1], rows[2]
    assert (fetch["request_first_ns"], fetch["request_last_ns"]) == (at(10.0), at(12.0))
    assert (metadata["response_first_ns"], metadata["response_last_ns"]) == (at(513.5), at(514.0))
    assert fetch["response_packet"] == 9
    assert {row["client_id"] for row in rows} == {"me"}
    assert [row["group_id"] for row in rows] == [None] * 4 + ["g1"] * 2
    assert rows[3]["acks"] == 0


def test_connection(tables: dict[str, pa.Table]) -> None:
    (row,) = tables["connections"].to_pylist()
    expected = {
        "client_host": "10.0.0.1", "client_port": 40000, "server_host": "10.0.0.2", "server_port": 9092,
        "first_time_ns": at(0.0), "last_time_ns": at(710.0), "opened": "handshake", "closed": "open",
        "protocol": "kafka", "packets": 15, "server_rtt_ns": ms(0.3), "client_rtt_ns": ms(0.1),
        "client_id": "me", "client_software_name": "test", "client_software_version": "1.0",
        "requests": 6, "responses": 4, "unanswered": 1, "orphan_responses": 0, "faults": 0,
        "lost_bytes": 0, "skipped_bytes": 0, "retransmitted_segments": 0,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected


def test_partitions(tables: dict[str, pa.Table]) -> None:
    (row,) = tables["partitions"].to_pylist()
    assert (row["topic"], row["partition"], row["offset"], row["high_watermark"]) == ("orders", 0, 42, 42)
    assert (row["record_bytes"], row["records"], row["codec"]) == (0, 0, None)
