"""Verdicts of replays into degraded targets: `python -m tests.lab.degraded [--write] [NAME …]`.

A recorded capture is replayed into clusters of real brokers that are healthy, slow, throttled, too small,
half dead or old. Each replay is compared with the first one (`compare --baseline`). `--write`
writes the table of docs/replay-verdicts.md.

All but the last are one cluster of three brokers, each behind a proxy that can delay its answers.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kdissect.protocol.codec.messages import encode_request
from kdissect.replay.results.run_comparison import baseline_latencies, compare
from kdissect.replay.results.run_files import read_run
from kdissect.replay.settings import Groups, Pace, ReplaySettings
from tests.lab import broker_requests as wire
from tests.lab import releases
from tests.lab.cluster import KraftCluster, Node
from tests.lab.delay import DelayingProxy
from tests.lab.maven import Release
from tests.replay.play import Played, play

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "replay-verdicts.md"
CAPTURE = "steady.pcapng"
TOPICS = ("orders", "payments", "clicks", "audit")
PARTITIONS = 6  # of the largest topic
DELAY_S = 0.05
QUOTA = 200.0  # bytes a second, for each client id
ALTER_QUOTAS = 49
ATTEMPTS = 6
DOWN_S = 4.0
BEGIN, END = "<!-- table of verdicts -->\n", "<!-- end of the table -->"


class ProxiedCluster(KraftCluster):
    """Brokers that clients reach by proxies only."""

    def __init__(self, release: Release, brokers: int) -> None:
        super().__init__(release, brokers, request_log=False)
        ports = wire.free_ports(brokers)
        self.inside = {node.number: port for node, port in zip(self.nodes, ports, strict=True)}
        self.proxies: list[DelayingProxy] = []

    def _roles(self, node: Node, voters: str) -> dict[str, str]:
        roles = super()._roles(node, voters)
        client = f"CLIENT://127.0.0.1:{node.client_port}"
        return roles | {
            "listeners": roles["listeners"].replace(client, f"CLIENT://127.0.0.1:{self.inside[node.number]}")
        }

    @contextmanager
    def proxied(self) -> Iterator[None]:
        """Run the proxies."""
        with ExitStack() as stack:
            for node in self.nodes:
                proxy = DelayingProxy(node.client_port, self.inside[node.number])
                self.proxies.append(stack.enter_context(proxy))
            yield


@dataclass(slots=True)
class Degraded:
    """One target: what is wrong with it, and how it is made so and healthy again."""

    name: str
    what: str
    begin: Callable[[ProxiedCluster, str], None] = lambda _cluster, _prefix: None
    end: Callable[[ProxiedCluster], None] = lambda _cluster: None
    release: Release = field(default_factory=lambda: releases.CURRENT)


def _delay(*brokers: int) -> Callable[[ProxiedCluster, str], None]:
    def begin(cluster: ProxiedCluster, _prefix: str) -> None:
        for number in brokers:
            cluster.proxies[number].delay_s = DELAY_S

    return begin


def _no_delay(cluster: ProxiedCluster) -> None:
    for proxy in cluster.proxies:
        proxy.delay_s = 0.0


def _set_quota(cluster: ProxiedCluster, remove: bool) -> None:
    operation = {"key": "producer_byte_rate", "value": QUOTA, "remove": remove}
    entry = {"entity": [{"entity_type": "client-id", "entity_name": None}], "ops": [operation]}
    header = {
        "request_api_key": ALTER_QUOTAS,
        "request_api_version": 0,
        "correlation_id": 1,
        "client_id": "lab",
    }
    frame = encode_request(header, {"entries": [entry], "validate_only": False})
    for attempt in range(ATTEMPTS):
        try:
            wire.ask(cluster.nodes[attempt % len(cluster.nodes)].client_port, frame, 20.0)
            break
        except OSError:  # a broker or the proxy in front of it was too busy
            if attempt == ATTEMPTS - 1:
                raise
            time.sleep(1)
    time.sleep(1)  # until all brokers know it


def _few_partitions(cluster: ProxiedCluster, prefix: str) -> None:
    for topic in TOPICS:
        cluster.create_topic(prefix + topic, 1, 1, {})


def _kill_for_a_while(cluster: ProxiedCluster, prefix: str) -> None:
    for topic in TOPICS:
        cluster.create_topic(prefix + topic, PARTITIONS, 3, {})

    def kill() -> None:
        time.sleep(DOWN_S)
        cluster.nodes[2].kill()
        time.sleep(DOWN_S)
        cluster.nodes[2].start()

    threading.Thread(target=kill, daemon=True).start()


def _wait_for_all(cluster: ProxiedCluster) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not all(node.child.running for node in cluster.nodes):
        time.sleep(0.5)
    time.sleep(DOWN_S)  # it may not have been killed yet
    while time.monotonic() < deadline and not all(node.child.running for node in cluster.nodes):
        time.sleep(0.5)
    cluster.wait_until_ready()


def _too_few_in_sync(cluster: ProxiedCluster, prefix: str) -> None:
    for topic in TOPICS:
        cluster.create_topic(prefix + topic, PARTITIONS, 3, {"min.insync.replicas": "3"})
    cluster.nodes[2].kill()
    time.sleep(10)  # until the controller has fenced it


TARGETS = (
    Degraded("healthy", "nothing is wrong"),
    Degraded("again", "nothing is wrong, a second run"),
    Degraded("slow", "50 ms more for every answer", _delay(0, 1, 2), _no_delay),
    Degraded("slow-broker", "50 ms more for every answer of one broker of three", _delay(1), _no_delay),
    Degraded(
        "quota",
        f"a quota of {QUOTA:,.0f} bytes a second for each client id that produces",
        lambda cluster, _prefix: _set_quota(cluster, remove=False),
        lambda cluster: _set_quota(cluster, remove=True),
    ),
    Degraded("partitions", "one partition for each topic", _few_partitions),
    Degraded(
        "killed",
        f"a broker of three is killed after {DOWN_S:g} s and back {DOWN_S:g} s later",
        _kill_for_a_while,
        _wait_for_all,
    ),
    Degraded(
        "min-insync", "three replicas in sync are required and one of three brokers is down", _too_few_in_sync
    ),
    Degraded("old", "Kafka 3.9.1, with one broker", release=releases.EARLIER),
)


def run(target: Degraded, cluster: ProxiedCluster, folder: Path) -> Played:
    """Replay the capture into a target."""
    prefix = f"{target.name}-"
    target.begin(cluster, prefix)
    settings = ReplaySettings(
        (("127.0.0.1", cluster.client_ports[0]),),
        prefix=prefix,
        run=target.name,
        pace=Pace.THINK,
        groups=Groups.FULL,
    )
    try:
        return play(settings, CAPTURE, folder / target.name)
    finally:
        target.end(cluster)


def row(target: Degraded, report: dict[str, Any]) -> str:
    """Return the row of the table."""
    performance = report["performance"]
    reasons = [
        *report["because"][:2],
        *(performance["because"][:1] if performance["verdict"] != "same" else ()),
    ]
    text = "; ".join(reasons).replace("|", "\\|").replace(f"{target.name}-", "")
    sums = report["accounting"]
    converted = sum(each["requests"] for each in report["conversions"]) if "conversions" in report else 0
    text += f"; {converted:,} requests in another version" if converted else ""
    verdicts = f"{report['verdict']} | {performance['verdict']}"
    return f"| {target.what} | {sums['sent']:,} | {verdicts} | {text} |"


def rows(targets: Sequence[Degraded], folder: Path) -> Iterator[str]:
    """Run all targets, and yield a row for each."""
    baseline = None
    for release in (releases.CURRENT, releases.EARLIER):
        chosen = [target for target in targets if target.release == release]
        if not chosen:
            continue
        cluster = ProxiedCluster(release, 3 if release == releases.CURRENT else 1)
        with cluster.proxied(), cluster:
            for target in chosen:
                played = run(target, cluster, folder)
                report = compare(*read_run(played.folder), baseline)
                report["conversions"] = played.plan["conversions"]
                if baseline is None:
                    baseline = baseline_latencies(read_run(played.folder)[1])
                line = row(target, report)
                sys.stderr.write(line + "\n")
                yield line


def main() -> None:
    """Run what is named, or everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*(each.name for each in TARGETS), []])
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    wanted = parser.parse_args()
    targets = [each for each in TARGETS if not wanted.names or each.name in wanted.names]
    with tempfile.TemporaryDirectory() as folder:
        for line in rows(targets, Path(folder)):
            if wanted.write:
                write_row(line)  # at once: a later target may fail
            else:
                sys.stdout.write(line + "\n")


def write_row(made: str) -> None:
    """Write a row into the page; those of other targets stay."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    known = {_subject(line): line for line in (*rest.partition(END)[0].splitlines(), made)}
    table = [
        "| what is wrong with the target | requests sent | correctness | performance | reasons |",
        "| --- | ---: | --- | --- | --- |",
        *(known[target.what] for target in TARGETS if target.what in known),
    ]
    text = "\n".join(table)
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n\n{END}{rest.partition(END)[2]}")


def _subject(line: str) -> str:
    """Return the first column of a row."""
    return (line.split(" | ", 1)[0]).removeprefix("| ")


if __name__ == "__main__":
    main()
