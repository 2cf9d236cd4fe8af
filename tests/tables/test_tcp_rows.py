"""The tables about TCP and columns of connections, on recorded captures; tshark as a witness."""

import shutil
import subprocess
from collections import Counter, defaultdict
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import CaptureFile
from kdissect.capture.scan import scan_split
from kdissect.tables.build import dissect_batches
from kdissect.tables.schemas import TCP_SPANS, TCP_STEPS
from tests.helpers.conversations import CAPTURES

TABLES = ("tcp_steps", "tcp_spans")
needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")


def tables_of(name: str, split_bytes: int = 1 << 26) -> dict[str, pa.RecordBatch]:
    """Return `connections` and the tables about TCP of a recorded capture."""
    path = str(CAPTURES / f"{name}.pcapng")
    splits = index_captures([CaptureFile(path, f"{name}.pcapng")], split_bytes).splits
    batches = list(dissect_batches((scan_split(split) for split in splits), splits, wanted=TABLES))
    return {
        table: pa.concat_batches([batch[table] for batch in batches if table in batch])
        for table in ("connections", *TABLES)
    }


known = cache(tables_of)


@pytest.mark.parametrize("name", ["rough-link", "pause"])
def test_rows_do_not_depend_on_the_splits(name: str) -> None:
    cut = tables_of(name, 20_000)
    for table, rows in known(name).items():
        assert rows.num_rows > 0
        assert Counter(map(repr, rows.to_pylist())) == Counter(map(repr, cut[table].to_pylist()))


def test_schemas_and_ends() -> None:
    tables = known("rough-link")
    assert (tables["tcp_steps"].schema, tables["tcp_spans"].schema) == (TCP_STEPS, TCP_SPANS)
    spans = tables["tcp_spans"].to_pylist()
    assert {(row["client_host"], row["server_host"], row["capture_file"]) for row in spans} == {
        ("10.77.0.1", "10.77.0.2", "rough-link.pcapng")
    }
    assert {row["kind"] for row in spans} == {"unacknowledged"}
    assert all(row["end_ns"] - row["begin_ns"] >= 200_000_000 for row in spans)


def test_the_far_end_of_a_rough_link_is_far() -> None:
    """The capture was taken beside the broker: only acknowledgments of the client cross the link of 30 ms."""
    columns = known("rough-link")["connections"].to_pydict()
    shortest = [value for value in columns["client_ack_min_ns"] if value is not None]
    assert min(shortest) >= 30_000_000
    assert max(value for value in columns["server_ack_min_ns"] if value is not None) < 1_000_000
    assert set(columns["closed_by"]) == {"client"}
    assert all(
        first <= closed <= last
        for first, closed, last in zip(
            columns["first_time_ns"], columns["closed_ns"], columns["last_time_ns"], strict=True
        )
    )


def fields(name: str, wanted: str, *names: str) -> list[list[str]]:
    """Return fields of the packets that a display filter of tshark selects."""
    command = ["tshark", "-r", str(CAPTURES / f"{name}.pcapng"), "-Y", wanted, "-T", "fields"]
    for field in names:
        command += ["-e", field]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [line.split("\t") for line in printed.splitlines()]


@needs_tshark
@pytest.mark.parametrize("name", ["broker-restart", "steady", "pause", "limping"])
def test_retransmissions_are_those_of_tshark(name: str) -> None:
    repeated = fields(
        name,
        "tcp.len > 0 && (tcp.analysis.retransmission || tcp.analysis.fast_retransmission)",
        "ip.src", "tcp.srcport",
    )  # fmt: skip
    steps = known(name)["tcp_steps"]
    assert int(np.sum(steps["repeated"].to_numpy())) == len(repeated)


def possible_trips(name: str) -> dict[tuple[str, str], list[int]]:
    """Return by ports of sender and receiver: times from data to the bare acknowledgment that covers it.

    tshark says which acknowledgments are new; of each, any segment that it covers may have been timed.
    """
    rows = fields(
        name, "tcp", "frame.time_epoch", "tcp.srcport", "tcp.dstport", "tcp.seq_raw", "tcp.len",
        "tcp.ack_raw", "tcp.analysis.ack_rtt", "tcp.flags.syn",
    )  # fmt: skip
    in_flight: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    trips: dict[tuple[str, str], list[int]] = defaultdict(list)
    for time, source, target, seq, length, acked, rtt, syn in rows:
        seconds, _, rest = time.partition(".")
        time_ns = int(seconds) * 10**9 + int(rest.ljust(9, "0"))
        if rtt:
            waiting = in_flight[target, source]
            covered = [one for one in waiting if (int(acked) - one[0]) % (1 << 32) < 1 << 31]
            in_flight[target, source] = [one for one in waiting if one not in covered]
            if length == "0" and syn in ("0", "False"):
                trips[target, source].extend(time_ns - sent for _, sent in covered)
        if length != "0":
            in_flight[source, target].append(((int(seq) + int(length)) % (1 << 32), time_ns))
    return trips


@needs_tshark
@pytest.mark.parametrize("name", ["steady", "rough-link"])
def test_round_trips_are_those_of_tshark(name: str) -> None:
    """One segment at a time is timed, so the round trips are some of those of all segments."""
    possible = possible_trips(name)
    compared = 0
    for row in known(name)["connections"].to_pylist():
        ports = str(row["client_port"]), str(row["server_port"])
        for receiver, pair in (("server", ports), ("client", ports[::-1])):
            if row[f"{receiver}_acks"]:
                assert row[f"{receiver}_acks"] <= len(possible[pair])
                assert row[f"{receiver}_ack_min_ns"] in possible[pair]
                assert row[f"{receiver}_ack_max_ns"] in possible[pair]
                compared += row[f"{receiver}_acks"]
    assert compared > 0.3 * sum(map(len, possible.values()))


def test_refused_attempts_are_counted_for_each_server() -> None:
    steps = known("broker-restart")["tcp_steps"].to_pylist()
    refused = Counter({row["server_port"]: 0 for row in steps})
    for row in steps:
        refused[row["server_port"]] += row["refused"]
    assert sum(refused.values()) == 190
    assert sum(row["attempts"] for row in steps) == 232
