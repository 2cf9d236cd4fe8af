"""Real TCP over a real and bad link, captured at both ends.

Each end's analysis gives what the clients counted.
"""

import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import CaptureFile
from kdissect.capture.scan import scan_split
from kdissect.report.build.build_report import build_report
from kdissect.report.model.summary import CaptureFacts
from kdissect.report.partials import summarise
from kdissect.tables.build import dissect_batches
from tests.lab.relay import MESSAGES
from tests.lab.rough_link import RoughLink, Roughness

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces: needs root"),
    *(
        pytest.mark.skipif(shutil.which(tool) is None, reason=f"{tool} is not installed")
        for tool in ("ip", "ethtool", "tcpdump")
    ),
]


def tables(path: Path, split_bytes: int) -> dict[str, pa.Table]:
    found = index_captures([CaptureFile(str(path), path.name)], split_bytes)
    batches: dict[str, list[pa.RecordBatch]] = {}
    for rows in dissect_batches((scan_split(split) for split in found.splits), found.splits):
        for name, batch in rows.items():
            batches.setdefault(name, []).append(batch)
    return {name: pa.Table.from_batches(some) for name, some in batches.items()}


def assert_as_counted(seen: dict[str, list[int]], counted: dict[str, list[int]]) -> None:
    """Compare (requests, responses) by client port.

    A request that nobody answered may have been lost when its client ended.
    """
    certain = {port for port, (_, answered) in counted.items() if answered}
    assert certain <= seen.keys() <= {port for port, (asked, _) in counted.items() if asked}
    for port, (requests, responses) in seen.items():
        asked, answered = counted[port]
        assert responses == answered
        assert answered <= requests <= asked
    assert sum(asked for asked, _ in counted.values()) - sum(requests for requests, _ in seen.values()) <= 2


def test_each_end_gives_what_the_clients_counted(tmp_path: Path) -> None:
    ends = ("near", "far")
    with RoughLink(
        5, tmp_path / "said", Roughness(lost=0.03)
    ) as link:  # well above what is called a slow network
        captures = {end: link.capture(end, tmp_path / f"{end}.pcap") for end in ends}
        brokers = link.start("far", "tests.lab.relay", "brokers")
        ports = json.loads(brokers.stdout.readline())  # type: ignore[union-attr]
        counted = json.loads(
            link.start("near", "tests.lab.relay", "clients", *map(str, ports)).communicate(timeout=120)[0]
        )
        for capture in captures.values():
            link.stop(capture)
        bad = json.loads(link.stop(link.impaired))
    assert counted["delivered"] == counted["read"] == MESSAGES
    assert min(bad.values()) > 10  # packets lost, doubled, late
    copies = 0
    for end in ends:
        for split_bytes in (1 << 26, 50_000):
            found = tables(tmp_path / f"{end}.pcap", split_bytes)
            seen = {
                str(row["client_port"]): [row["requests"], row["responses"]]
                for row in found["connections"].to_pylist()
                if row["requests"]
            }
            assert_as_counted(seen, counted["connections"])
            connections = found["connections"].to_pylist()
            assert {row["opened"] for row in connections} == {"handshake"}
            assert sum(row["lost_bytes"] + row["skipped_bytes"] for row in connections) == 0
            # The mock cluster answers these two in forms of its own; their frames are whole all the same.
            faulty = {row["api_name"] for row in found["exchanges"].to_pylist() if row["fault"]}
            assert faulty <= {"ApiVersions", "Metadata"}
            assert sum(row["orphan_responses"] for row in connections) == 0
            assert (
                sum(row["retransmitted_segments"] + row["out_of_order_segments"] for row in connections) > 0
            )
            produced = found["partitions"].to_pylist()
            assert sum(row["records"] or 0 for row in produced if row["api_key"] == 0) == MESSAGES
        copies += sum(row["duplicate_packets"] for row in connections)
        report = build_report(summarise(found), CaptureFacts())
        assert "network_slow" in {finding.name for finding in report.findings}
    # The end that a doubled packet goes to has two, one of which may have been lost on the way into the
    # capture.
    assert bad["doubled"] * 0.8 <= copies <= bad["doubled"] * 1.1
