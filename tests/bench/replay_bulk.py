"""Does a broker give out before the replayer does? A bulk replay at `asap` beside kafka-producer-perf-test, on one broker.

    python -m tests.bench.replay_bulk [MEGABYTES [BATCH_BYTES [ROUNDS]]]

Kafka's ProducerPerformance writes MEGABYTES to a first cluster of one broker, and tcpdump records that. On a second one the
same tool and a replay of the recording take turns, with the same batches and partitions; what counts is the ratio within this
run, and of whose processor there was more left. Needs root (tcpdump), Java, mvn.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from statistics import median

from kdissect.replay.planning.topics import create, missing_topics
from kdissect.replay.playing.running import Replay
from kdissect.replay.settings import Pace, Settings

from ..lab import releases
from ..lab.capture import Capture
from ..lab.cluster import KraftCluster
from ..lab.maven import classpath

RECORD_BYTES, PARTITIONS = 1_000, 4
JVM = ("-Xmx1g", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
QUIET = Path(__file__).parent.parent / "lab" / "templates" / "quiet-log4j2.xml"
TICKS = os.sysconf("SC_CLK_TCK")


def produce(bootstrap: str, topic: str, megabytes: int, batch_bytes: int) -> float:
    """Write a topic with Kafka's tool; give its MB (10^6) a second."""
    settings = {"bootstrap.servers": bootstrap, "acks": "1", "enable.idempotence": "false", "linger.ms": "5",
                "batch.size": str(batch_bytes)}  # fmt: skip
    command = ["java", *JVM, f"-Dlog4j2.configurationFile={QUIET}", "-cp", classpath(releases.CURRENT)]
    command += ["org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--throughput", "-1"]
    command += [
        "--num-records",
        str(megabytes * 1_000_000 // RECORD_BYTES),
        "--record-size",
        str(RECORD_BYTES),
    ]
    command += ["--command-property", *(f"{key}={value}" for key, value in settings.items())]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(re.findall(r"([\d.]+) records/sec", said)[-1]) * RECORD_BYTES / 1e6


def busy_s(cluster: KraftCluster) -> float:
    """Give the processor time that the broker took since its start."""
    process = cluster.nodes[0].child.process
    assert process is not None
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def replayed(capture: Path, port: int, prefix: str, cluster: KraftCluster) -> tuple[float, float, float]:
    """Replay; give MB of records a second, and how much of a core the replayer and the broker took."""
    asked = Settings(target=(("127.0.0.1", port),), prefix=prefix, pace=Pace.ASAP, processes=1)
    with closing(Replay(asked, [str(capture)])) as replay:
        replay.learn()
        replay.errand(create(replay.stage(), missing_topics(replay)))
        replay.learn()
        before, broker = resource.getrusage(resource.RUSAGE_SELF), busy_s(cluster)
        replay.play()
        after = resource.getrusage(resource.RUSAGE_SELF)
        broker = busy_s(cluster) - broker
        outcome = replay.passes[0].outcome
        results = [result for result in outcome.results if result.received_ns and result.sent_ns]
        records = sum(count for told in outcome.produced.values() for _, count in told)
        seconds = (
            max(each.received_ns or 0 for each in results) - min(each.sent_ns or 0 for each in results)
        ) / 1e9
        mine = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(
            f"  replayed {records:,} records of {replay.loaded.records:,}, {len(results):,} requests {outcome.stopped}"
        )
        return records * RECORD_BYTES / 1e6 / seconds, mine / seconds, broker / seconds


def main() -> int:
    """Record, compare, print."""
    megabytes, batch_bytes, rounds = (
        int(each) for each in (*sys.argv[1:], *("400", "131072", "3")[len(sys.argv) - 1 :])
    )
    with tempfile.TemporaryDirectory(prefix="kdissect-bench-") as scratch:
        capture = Path(scratch) / "bulk.pcap"
        with KraftCluster(releases.CURRENT, 1, jvm=JVM, request_log=False) as source:
            source.create_topic("bulk", PARTITIONS, 1, {})
            with Capture(capture, source.client_ports, buffer_mib=1024, eager=False):
                produce(source.bootstrap, "bulk", megabytes, batch_bytes)
        with KraftCluster(releases.CURRENT, 1, jvm=JVM, request_log=False) as target:
            tool, ours = [], []
            for number in range(rounds + 1):  # the first is for the JVM to warm up
                target.create_topic(f"tool-{number}", PARTITIONS, 1, {})
                tool.append(produce(target.bootstrap, f"tool-{number}", megabytes, batch_bytes))
                print(f"  kafka-producer-perf-test {tool[-1]:.0f} MB/s", flush=True)
                ours.append(replayed(capture, target.client_ports[0], f"replay-{number}-", target))
                print(
                    f"  replay {ours[-1][0]:.0f} MB/s, {ours[-1][1]:.2f} cores; the broker {ours[-1][2]:.2f} cores",
                    flush=True,
                )
    speed, replayer, broker = (median(each[at] for each in ours[1:]) for at in range(3))
    print(
        f"batches of {batch_bytes:,} bytes: kafka-producer-perf-test {median(tool[1:]):.0f} MB/s, replay at asap {speed:.0f} MB/s "
        f"({speed / median(tool[1:]):.2f} times), with {replayer:.2f} of the replayer's core and {broker:.2f} cores of the broker's"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
