"""When an incident is told, live: `python -m tests.lab.watch_incident [--way interface ...]`.

Clients produce and consume on three brokers while `kdissect watch --every 1s` looks on. Once it keeps up, one
broker is frozen (SIGSTOP) for some seconds, and later killed and started again. It prints how long after
each harm the first line about that broker came, how often it was told anew, and how long after the broker
was back it was closed. It ends with 1 if a line came later than 5 s after the harm, or none was closed.
Needs root (tcpdump), Java and mvn.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import ElectionType
from confluent_kafka.admin import AdminClient

from tests.helpers.command import COMMAND, environment
from tests.lab import releases
from tests.lab.cluster import KraftCluster, Node
from tests.lab.watch import TOPICS, clients_of, ring_of

FROZEN_S, DEAD_S, CALM_S = 8.0, 12.0, 40.0
KEEPS_UP_S, PATIENCE_S = 4.0, 120.0
"""A watch keeps up if a line is so little behind its packets. It starts while brokers and clients do."""

RATES = {"librdkafka": 50.0}  # so few clients leave processors to the watch
FILE_SECONDS = 5
MOST_S = 5.0
OPTIONS = {"file": [], "interface": [], "immediate": ["--immediate"]}


@dataclass
class Told:
    """Events of incidents, with the moments at which they were printed, in seconds since the epoch."""

    events: list[tuple[float, dict[str, Any]]] = field(default_factory=list)
    keeps_up: threading.Event = field(default_factory=threading.Event)

    def listen(self, process: subprocess.Popen[str]) -> None:
        """Keep what the watch prints about incidents."""
        assert process.stdout is not None
        for line in process.stdout:
            event, now = json.loads(line), time.time()
            if event["event"] == "notice":
                print(event["text"], flush=True)
            elif event["event"] == "incident":
                self.events.append((now, event))
            elif event["exchanges"] and now - event["time_ns"] / 1e9 < KEEPS_UP_S:
                self.keeps_up.set()

    def about(self, name: str, since: float, until: float) -> list[tuple[float, dict[str, Any]]]:
        """Return the events of incidents that were opened in some seconds and whose headline has a name."""
        opened = {
            event["number"]
            for at, event in self.events
            if since <= at < until and event["change"] == "opened" and name in event["headline"]
        }
        return [(at, event) for at, event in self.events if event["number"] in opened]


@contextmanager
def watched(way: str, cluster: KraftCluster, folder: Path) -> Iterator[Told]:
    """Watch the clients of a cluster, by the ring of a directory or on the interface."""
    ports = [word for port in cluster.client_ports for word in ("--port", str(port))]
    source = [str(folder / "ring")] if way == "file" else ["--interface", "lo", *ports, *OPTIONS[way]]
    command = [*COMMAND, "watch", *source, "--every", "1s", "--format", "jsonl", "--quiet"]
    command += ["--checkpoint", str(folder / "checkpoint")]
    told = Told()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
    thread = threading.Thread(target=told.listen, args=(process,))
    thread.start()
    try:
        yield told
    finally:
        process.terminate()
        process.wait()
        thread.join()


@contextmanager
def frozen(node: Node, cluster: KraftCluster) -> Iterator[None]:
    """Freeze a broker for some seconds."""
    with node.paused():
        yield
        time.sleep(FROZEN_S)


@contextmanager
def killed(node: Node, cluster: KraftCluster) -> Iterator[None]:
    """Kill a broker, and start it again some seconds later. Clients return when it leads partitions."""
    node.kill()
    yield
    time.sleep(DEAD_S)
    node.start()
    for topic in TOPICS:
        cluster.wait_until_in_sync(topic, 3)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.elect_leaders(ElectionType.PREFERRED, None).result(30)


def harm(how: Callable[[Node, KraftCluster], Any], cluster: KraftCluster, told: Told) -> bool:
    """Harm a broker, print when that was told, and return whether it came in time and was closed."""
    node = cluster.nodes[2]
    with how(node, cluster):
        began = time.time()
    back = time.time()
    time.sleep(CALM_S)
    events = told.about(f":{node.client_port}", began, began + CALM_S)
    opened = [at - began for at, event in events if event["change"] == "opened"]
    closed = [at - back for at, event in events if event["change"] == "closed"]
    if not opened:
        print(f"{how.__name__}: nothing was told", flush=True)
        return False
    updates = sum(event["change"] == "updated" for _, event in events)
    ended = f"closed {max(closed):.1f} s after it was back" if closed else "not closed"
    print(
        f"{how.__name__}: told {min(opened):.1f} s after it began, {updates} updates, {ended}: "
        f"{events[-1][1]['headline']}",
        flush=True,
    )
    return min(opened) <= MOST_S and bool(closed)


def look(way: str) -> bool:
    """Return whether both harms were told in time."""
    with tempfile.TemporaryDirectory(prefix="kdissect-lab-incident-") as scratch:
        folder = Path(scratch)
        with KraftCluster(releases.CURRENT, 3, request_log=False) as cluster:
            for topic, partitions in TOPICS.items():
                cluster.create_topic(topic, partitions, 3, {})
            with ring_of(cluster, folder / "ring", FILE_SECONDS), watched(way, cluster, folder) as told:
                seconds = PATIENCE_S + FROZEN_S + DEAD_S + 3 * CALM_S
                clients = clients_of(cluster, folder, seconds, RATES)
                if not told.keeps_up.wait(PATIENCE_S):
                    raise RuntimeError("the watch does not keep up: other work uses the machine")
                found = [harm(how, cluster, told) for how in (frozen, killed)]
            for client in clients:
                client.child.kill()
    return all(found)


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--way", action="append", choices=list(OPTIONS))
    asked = parser.parse_args()
    if os.geteuid():
        parser.error("tcpdump needs root here")
    good = True
    for way in asked.way or list(OPTIONS):
        print(f"-- {way}", flush=True)
        good &= look(way)
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
