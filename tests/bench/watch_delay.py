"""How long after its last byte an exchange is in a line of `kdissect watch --every 1s`.

    python -m tests.bench.watch_delay [--seconds 40] [--per-second 50] [--way file ...]

A client asks a mock broker on the loopback interface at an even rate. The ways are those of a user: a
directory whose only file tcpdump writes packet by packet (file), `--interface lo` (interface), and the same
with `--immediate` (immediate). The time of each line is held against the times of the responses in the table
that this batch wrote: the delay of the newest is how far behind the watch is, that of the oldest has the
interval on top. Needs root (tcpdump).
"""

import argparse
import json
import statistics
import subprocess
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
from confluent_kafka import Producer

from tests.helpers.command import COMMAND, environment
from tests.lab.capture import Capture
from tests.lab.mock import MockCluster

NS_PER_S = 1_000_000_000
FIRST = 3
"""So many batches are left out: Spark starts, and what was captured meanwhile is old."""


@contextmanager
def asking(cluster: MockCluster, per_second: float) -> Iterator[None]:
    """Ask the brokers for metadata at an even rate, from another thread."""
    client, done = Producer({"bootstrap.servers": cluster.bootstrap}), threading.Event()

    def ask() -> None:
        while not done.wait(1 / per_second):
            client.list_topics(timeout=10)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@contextmanager
def source_of(way: str, cluster: MockCluster, folder: Path) -> Iterator[list[str]]:
    """Return what the watch is told to read."""
    if way == "file":
        ring = folder / "ring"
        ring.mkdir()
        with Capture(folder / "kafka.pcap", cluster.ports):
            # A capture gets its name when it is whole: the watch follows the one that grows.
            (ring / "kafka.pcap").hardlink_to(folder / "kafka.recording")
            yield [str(ring)]
    else:
        ports = [word for port in cluster.ports for word in ("--port", str(port))]
        yield ["--interface", "lo", *ports, *(["--immediate"] if way == "immediate" else [])]


def lines_of(source: list[str], out: Path, seconds: float) -> dict[int, int]:
    """Watch for some seconds. Return when the line of each batch came, in ns since the epoch."""
    came: dict[int, int] = {}
    options = ["--out", str(out), "--every", "1s", "--format", "jsonl", "--quiet"]
    process = subprocess.Popen(
        [*COMMAND, "watch", *source, *options], stdout=subprocess.PIPE, text=True, env=environment()
    )
    assert process.stdout is not None
    timer = threading.Timer(seconds, process.terminate)
    timer.start()
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == "interval":
            came[event["batch"]] = time.time_ns()
    timer.cancel()
    process.wait()
    return came


def answered(out: Path) -> dict[int, tuple[int, int]]:
    """Return the earliest and latest response of each batch that has rows."""
    times: dict[int, list[int]] = defaultdict(list)
    for path in (out / "exchanges").rglob("batch-*.parquet"):
        column = pq.read_table(path, columns=["response_last_ns"])["response_last_ns"].drop_null()
        if len(column):
            times[int(path.name.split("-")[1])] += [pc.min(column).as_py(), pc.max(column).as_py()]
    return {batch: (min(found), max(found)) for batch, found in times.items()}


def delays(way: str, seconds: float, per_second: float) -> tuple[int, float, float]:
    """Return the number of batches, and the medians of the delays of their newest and oldest responses, in
    seconds.
    """
    with tempfile.TemporaryDirectory(prefix="kdissect-bench-delay-") as scratch, MockCluster(1) as cluster:
        folder = Path(scratch)
        with source_of(way, cluster, folder) as source, asking(cluster, per_second):
            came = lines_of(source, folder / "out", seconds)
        spans = answered(folder / "out")
    batches = sorted(spans.keys() & came.keys())[FIRST:]
    if not batches:
        raise SystemExit(f"{way}: no batch came within {seconds:.0f} s")
    newest, oldest = (
        statistics.median((came[batch] - spans[batch][which]) / NS_PER_S for batch in batches)
        for which in (1, 0)
    )
    return len(batches), newest, oldest


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--per-second", type=float, default=50.0)
    parser.add_argument("--way", action="append", choices=["file", "interface", "immediate"])
    asked = parser.parse_args()
    for way in asked.way or ["file", "interface", "immediate"]:
        count, newest, oldest = delays(way, asked.seconds, asked.per_second)
        print(f"{way}: {count} batches, newest {newest:.1f} s, oldest {oldest:.1f} s", flush=True)


if __name__ == "__main__":
    main()
