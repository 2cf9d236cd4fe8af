"""Watches real brokers and clients, live and killed: `python -m tests.lab.watch`.

Clients of two libraries produce and consume on a cluster; tcpdump writes a ring of short files;
`kdissect watch` follows it and is killed (SIGKILL) at random moments. Then the ring is watched again with
batches of other sizes. All rows of each watch must be those of one dissection of all files. It prints a line
of figures for each watch, and ends with 1 if rows differ. Needs root (tcpdump), Java and mvn.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.helpers.command import COMMAND, environment
from tests.helpers.rings import assert_same, tables_at_once, tables_of_watch
from tests.lab import releases
from tests.lab.clients import launch
from tests.lab.clients.job import Job
from tests.lab.cluster import Cluster, KraftCluster
from tests.lab.maven import need
from tests.lab.process import Child

BATCH_SIZES = (1, 3, 50)
TOPICS = {"orders": 3, "clicks": 3}
RATES = {"librdkafka": 200.0, "kafka-python": 50.0}
READY_S, LAST_S = 3.0, 8.0


@dataclass
class WatchedRun:
    """A watch of a ring that may be killed and started again, and the intervals that it has printed."""

    ring: Path
    out: Path
    most_files: int
    intervals: list[dict[str, Any]] = field(default_factory=list)
    delays_s: list[float] = field(default_factory=list)
    """From the last write to the newest file of a batch to the line about it."""

    def start(self, *options: str) -> subprocess.Popen[str]:
        """Start it; a thread reads what it prints."""
        wanted = ["watch", str(self.ring), "--out", str(self.out), "--max-files", str(self.most_files)]
        command = [*COMMAND, *wanted, "--every", "1s", "--format", "jsonl", "--quiet", *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
        threading.Thread(target=self._listen, args=(process,), daemon=True).start()
        return process

    def finish(self) -> None:
        """Read what is left, and end. Raise RuntimeError if that fails."""
        code = self.start("--settle", "0s", "--until-idle", "3s").wait()
        if code:
            raise RuntimeError(f"the watch ended with {code}")

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            now = time.time()
            if line.endswith("}\n") and (event := json.loads(line))["event"] == "interval":
                self.intervals.append(event)
                written = [path.stat().st_mtime for path in self.ring.iterdir()]
                closed = sorted(written)[: event["files"] and -1]
                self.delays_s += [now - closed[-1]] if closed else []

    def figures(self) -> str:
        """Return what was seen, as text."""
        seconds = sorted(one["seconds"] for one in self.intervals)
        delays = sorted(self.delays_s) or [0.0]
        return (
            f"{len(self.intervals)} batches seen, {sum(one['files'] for one in self.intervals)} files, "
            f"median batch {seconds[len(seconds) // 2]:.2f} s, "
            f"median delay {delays[len(delays) // 2]:.2f} s, largest state "
            f"{max(one['state_bytes'] for one in self.intervals):,} bytes"
        )


@contextmanager
def ring_of(cluster: Cluster, folder: Path, seconds: int) -> Iterator[Path]:
    """Record what clients of a cluster send into files of some seconds each."""
    need("tcpdump")
    folder.mkdir()
    ports = " or ".join(f"tcp port {port}" for port in cluster.client_ports)
    options = ["-i", "lo", "-n", "-s", "0", "-B", "65536", "-Z", "root", "-G", str(seconds)]
    names = str(folder / "kafka-%H%M%S.pcap")
    command = ["nice", "-n", "-15", "tcpdump", *options, "-w", names, ports]
    with Child("tcpdump", command, folder.parent / "tcpdump.log"):
        time.sleep(1)
        yield folder


def clients_of(
    cluster: Cluster, folder: Path, seconds: float, rates: Mapping[str, float] = RATES
) -> list[launch.Client]:
    """Start a producer and a consumer of each library for each topic; `rates` are records a second."""
    started = []
    for topic in TOPICS:
        for library, rate in rates.items():
            job = Job(
                f"{topic}-{library}", "produce", cluster.bootstrap, (topic,),
                records=round(rate * seconds), per_second=rate,
            )  # fmt: skip
            reader = Job(f"reader-{topic}-{library}", "consume", cluster.bootstrap, (topic,), group=library)
            started += [launch.start(library, job, folder), launch.start(library, reader, folder)]
    return started


def watch_live(run: WatchedRun, seconds: int, kills: int, chance: random.Random) -> None:
    """Watch for some seconds, and kill the watch at random moments."""
    until = time.monotonic() + seconds
    for left in range(kills, 0, -1):
        process = run.start()
        share = max(until - time.monotonic(), READY_S) / left
        time.sleep(chance.uniform(0.3, 1.7) * share)
        process.kill()
        process.wait()
    process = run.start()
    time.sleep(max(until - time.monotonic(), READY_S) + LAST_S)
    process.kill()
    process.wait()


def same(expected: Mapping[str, pa.Table], out: Path) -> bool:
    """Return whether a watch has written the rows that are expected; print what differs."""
    try:
        assert_same(tables_of_watch(out), expected)
    except AssertionError as error:
        print(f"different: {error}")
        return False
    return True


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--file-seconds", type=int, default=5)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if os.geteuid():
        parser.error("tcpdump needs root here")
    with tempfile.TemporaryDirectory(prefix="kdissect-lab-watch-") as scratch:
        folder = Path(scratch)
        live = WatchedRun(folder / "ring", folder / "live", 50)
        with KraftCluster(releases.CURRENT, asked.brokers, request_log=False) as cluster:
            for topic, partitions in TOPICS.items():
                cluster.create_topic(topic, partitions, min(asked.brokers, 3), {})
            with ring_of(cluster, folder / "ring", asked.file_seconds):
                clients = clients_of(cluster, folder, asked.seconds)
                watch_live(live, asked.seconds, asked.kills, random.Random(asked.seed))
                for client in clients:
                    client.leave()
        return compare(live, folder, asked.kills)


def compare(live: WatchedRun, folder: Path, kills: int) -> int:
    """Finish the live watch, watch the ring again in other batches, and compare all rows."""
    live.finish()
    expected = tables_at_once(live.ring)
    rows = sum(table.num_rows for table in expected.values())
    exchanges = expected["exchanges"].num_rows
    print(f"{len(list(live.ring.iterdir()))} files, {exchanges:,} exchanges, {rows:,} rows of tables")
    equal = [same(expected, live.out)]
    print(
        f"live, killed {kills + 1} times: {'equal' if equal[-1] else 'DIFFERENT'}; {live.figures()}",
        flush=True,
    )
    for size in BATCH_SIZES:
        again = WatchedRun(live.ring, folder / f"out-{size}", size)
        again.finish()
        equal.append(same(expected, again.out))
        print(f"batches of {size}: {'equal' if equal[-1] else 'DIFFERENT'}; {again.figures()}", flush=True)
    return 0 if all(equal) else 1


if __name__ == "__main__":
    sys.exit(main())
