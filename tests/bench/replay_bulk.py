"""Does a broker give out before the replayer does? A bulk replay at `asap` beside kafka-producer-perf-test,
on one broker.

    python -m tests.bench.replay_bulk [MEGABYTES [BATCH_BYTES [ROUNDS [PRODUCERS]]]]

So many of Kafka's ProducerPerformance write MEGABYTES together to a first cluster of one broker, and tcpdump
records that. On a second one the same tools and a replay of the recording take turns, with the same batches
and partitions; what counts is the ratio within this run, and whose processor was busy. The broker has
processor 0 for itself, clients have the others. Needs root (tcpdump), Java, mvn, two processors.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import NamedTuple

from kdissect.replay.create_topics import create_topics, missing_topics
from kdissect.replay.engine import run as running
from kdissect.replay.engine.pass_results import PassOutcome
from kdissect.replay.engine.pass_worker import PassWorker
from kdissect.replay.engine.run import Replay
from kdissect.replay.settings import Pace, ReplaySettings
from tests.lab import releases
from tests.lab.capture import Capture
from tests.lab.cluster import KraftCluster
from tests.lab.maven import classpath

RECORD_BYTES, PARTITIONS = 1_000, 4
JVM = ("-Xmx1g", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
QUIET = Path(__file__).parent.parent / "lab" / "templates" / "quiet-log4j2.xml"
TICKS = os.sysconf("SC_CLK_TCK")


class Run(NamedTuple):
    """Result of a run."""

    speed: float  # MB (10^6) of records a second
    client: float  # cores, of the replayer or the tools
    broker: float
    starved: float  # threads of the broker that could have run, but waited for a processor
    in_flight: float = 0.0  # on the average
    latency_ms: float = 0.0  # of a request


def produce(bootstrap: str, topic: str, megabytes: int, batch_bytes: int, producers: int) -> float:
    """Write a topic with Kafka's tool, several at once; give the MB a second of all."""
    settings = {"bootstrap.servers": bootstrap, "acks": "1", "enable.idempotence": "false", "linger.ms": "5",
                "batch.size": str(batch_bytes)}  # fmt: skip
    command = ["java", *JVM, f"-Dlog4j2.configurationFile={QUIET}", "-cp", classpath(releases.CURRENT)]
    command += ["org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--throughput", "-1"]
    command += ["--num-records", str(megabytes * 1_000_000 // RECORD_BYTES // producers)]
    command += ["--record-size", str(RECORD_BYTES)]
    command += ["--command-property", *(f"{key}={value}" for key, value in settings.items())]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(producers)]
    said = [child.communicate()[0] for child in children]
    return sum(float(re.findall(r"([\d.]+) records/sec", each)[-1]) for each in said) * RECORD_BYTES / 1e6


def timed(cluster: KraftCluster, topic: str, *how: int) -> Run:
    """Do that, and say who was busy; with the tools' start, since it is known of the whole only."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    broker, starved = busy_s(cluster), starved_s(cluster)
    speed = produce(cluster.bootstrap, topic, *how)
    after, took = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic() - start
    tools = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(speed, tools / took, (busy_s(cluster) - broker) / took, (starved_s(cluster) - starved) / took)


def process_of(cluster: KraftCluster) -> int:
    """Return the broker's process."""
    process = cluster.nodes[0].child.process
    assert process is not None
    return process.pid


def busy_s(cluster: KraftCluster) -> float:
    """Return the processor time that the broker took since its start."""
    fields = Path(f"/proc/{process_of(cluster)}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def starved_s(cluster: KraftCluster) -> float:
    """Return how long the broker's threads waited for a processor while others had it."""
    tasks = Path(f"/proc/{process_of(cluster)}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[1]) for task in tasks) / 1e9


def pin(process: int, processors: set[int]) -> None:
    """Keep all threads of a process, and those that they begin, on some processors."""
    for thread in Path(f"/proc/{process}/task").iterdir():
        os.sched_setaffinity(int(thread.name), processors)


class Metered(PassWorker):
    """Notes who was busy from the first request to the last answer."""

    cluster: KraftCluster
    taken: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def play(self, begin_ns: int) -> PassOutcome:
        before, broker, starved = time.process_time(), busy_s(self.cluster), starved_s(self.cluster)
        outcome = super().play(begin_ns)
        mine = time.process_time() - before
        Metered.taken = mine, busy_s(self.cluster) - broker, starved_s(self.cluster) - starved
        return outcome


def replayed(capture: Path, port: int, prefix: str) -> Run:
    """Replay; say who was busy."""
    asked = ReplaySettings(target=(("127.0.0.1", port),), prefix=prefix, pace=Pace.ASAP, processes=1)
    with closing(Replay(asked, [str(capture)])) as replay:
        replay.learn()
        replay.run_alone(create_topics(replay.context(), missing_topics(replay)))
        replay.learn()
        replay.play()
        outcome = replay.passes[0].outcome
        times = [
            (each.sent_ns, each.received_ns) for each in outcome.results if each.received_ns and each.sent_ns
        ]
        records = sum(count for told in outcome.produced.values() for _, count in told)
        seconds = (max(end for _, end in times) - min(begin for begin, _ in times)) / 1e9
        waited = sum(end - begin for begin, end in times) / 1e9
        mine, broker, starved = Metered.taken
        print(
            f"  replayed {records:,} records of {replay.loaded.records:,} in {len(times):,} requests "
            f"on {len(replay.loaded.caps)} "
            f"connections, no more than {max(replay.loaded.caps.values())} in flight on one {outcome.stopped}"
        )
        return Run(
            records * RECORD_BYTES / 1e6 / seconds,
            mine / seconds,
            broker / seconds,
            starved / seconds,
            waited / seconds,
            waited * 1e3 / len(times),
        )


def main() -> int:
    """Record, compare, print."""
    megabytes, batch_bytes, rounds, producers = (
        int(each) for each in (*sys.argv[1:], *("400", "131072", "3", "1")[len(sys.argv) - 1 :])
    )
    vars(running)["PassWorker"] = Metered
    pin(os.getpid(), set(range(1, os.cpu_count() or 2)))
    with tempfile.TemporaryDirectory(prefix="kdissect-bench-") as scratch:
        capture = Path(scratch) / "bulk.pcap"
        with KraftCluster(releases.CURRENT, 1, jvm=JVM, request_log=False) as source:
            source.create_topic("bulk", PARTITIONS, 1, {})
            pin(process_of(source), {0})
            with Capture(capture, source.client_ports, buffer_mib=1024, eager=False):
                produce(source.bootstrap, "bulk", megabytes, batch_bytes, producers)
        with KraftCluster(releases.CURRENT, 1, jvm=JVM, request_log=False) as target:
            pin(process_of(target), {0})
            Metered.cluster = target
            tool, ours = [], []
            for number in range(rounds + 1):  # the first is for the JVM to warm up
                target.create_topic(f"tool-{number}", PARTITIONS, 1, {})
                tool.append(timed(target, f"tool-{number}", megabytes, batch_bytes, producers))
                print(f"  kafka-producer-perf-test {told(tool[-1])}", flush=True)
                ours.append(replayed(capture, target.client_ports[0], f"replay-{number}-"))
                print(f"  replay {told(ours[-1])}", flush=True)
    theirs, mine = (Run(*(median(each[at] for each in runs[1:]) for at in range(6))) for runs in (tool, ours))
    print(
        f"batches of {batch_bytes:,} bytes, {producers} producers: kafka-producer-perf-test "
        f"{told(theirs)}; replay at asap {told(mine)} "
        f"({mine.speed / theirs.speed:.2f} times); per MB the replayer takes "
        f"{mine.client / mine.speed * 1e3:.2f} ms of processor, the "
        f"broker {mine.broker / mine.speed * 1e3:.2f} ms"
    )
    return 0


def told(run: Run) -> str:
    """Return it in a line."""
    more = f", {run.in_flight:.1f} in flight, {run.latency_ms:.1f} ms each" if run.in_flight else ""
    return (
        f"{run.speed:.0f} MB/s, {run.client:.2f} cores; the broker {run.broker:.2f} cores, starved "
        f"{run.starved:.2f}{more}"
    )


if __name__ == "__main__":
    sys.exit(main())
