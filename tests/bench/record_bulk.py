"""Makes a bulk capture: few, large exchanges, records in batches of about 1 MB.

`python -m tests.bench.record_bulk OUT.pcap [--megabytes 800]`. Kafka's own performance tools write and read
one topic without compression and one with lz4; beside OUT.pcap, OUT.json tells how many records. If tcpdump
loses packets, since the machine has other work too, it is recorded again at half the rate. Needs root
(tcpdump), Java, mvn.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.lab import releases
from tests.lab.capture import Capture, LostPackets
from tests.lab.cluster import KraftCluster
from tests.lab.maven import classpath

_RECORD_BYTES = 1_000
_RECORDS_PER_SECOND = 100_000  # of a producer in the first try: 100 MB/s
_TRIES = 4
JVM = ("-Xmx1g", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
_QUIET = Path(__file__).parent.parent / "lab" / "templates" / "quiet-log4j2.xml"
# topic, codec, its share of all records
_TOPICS = (("bulk-plain", "none", 0.85), ("bulk-lz4", "lz4", 0.15))


def run_tool(main: str, *arguments: str) -> None:
    """Run a tool of Kafka by the name of its class."""
    path = classpath(releases.CURRENT)
    command = [
        "java",
        *JVM,
        f"-Dlog4j2.configurationFile={_QUIET}",
        "-cp",
        path,
        f"org.apache.kafka.tools.{main}",
    ]
    subprocess.run([*command, *arguments], check=True, stdout=subprocess.DEVNULL)


def _produce(bootstrap: str, topic: str, codec: str, records: int, per_second: int) -> None:
    settings = {
        "bootstrap.servers": bootstrap,
        "client.id": f"writer-{codec}",
        "batch.size": "1000000",
        "linger.ms": "100",
        "buffer.memory": "33554432",
        "max.in.flight.requests.per.connection": "2",
        "acks": "1",
        "enable.idempotence": "false",
        "compression.type": codec,
    }
    properties = ["--command-property", *(f"{key}={value}" for key, value in settings.items())]
    run_tool("ProducerPerformance", "--topic", topic, "--num-records", str(records),
          "--throughput", str(per_second), "--record-size", str(_RECORD_BYTES), *properties)  # fmt: skip


def _consume(bootstrap: str, topic: str, codec: str, records: int) -> None:
    run_tool(
        "ConsumerPerformance",
        "--bootstrap-server",
        bootstrap,
        "--topic",
        topic,
        "--group",
        f"readers-{codec}",
        "--num-records",
        str(records),
        "--timeout",
        "60000",
        "--command-property",
        f"client.id=reader-{codec}",
    )


def _record(out: Path, counts: dict[str, int], per_second: int) -> None:
    """Record once. Raise `LostPackets` if the capture is not whole."""
    settings = {"message.max.bytes": "2000000"}
    with KraftCluster(releases.CURRENT, 1, settings, jvm=JVM, request_log=False) as cluster:
        for topic, _codec, _share in _TOPICS:
            cluster.create_topic(topic, 4, 1, {})
        time.sleep(1)
        with Capture(out, cluster.client_ports, buffer_mib=1536, eager=False):
            for topic, codec, _share in _TOPICS:
                _produce(cluster.bootstrap, topic, codec, counts[topic], per_second)
                _consume(cluster.bootstrap, topic, codec, counts[topic])


def record_again(record: Callable[[int], None], per_second: int, tries: int) -> None:
    """Call `record` with a rate until it loses nothing, each time with half the rate. Raise the last loss."""
    for left in reversed(range(tries)):
        try:
            record(per_second)
            break
        except LostPackets as lost:
            if not left:
                raise
            per_second //= 2
            print(f"{lost}; again, {per_second:,} records a second", file=sys.stderr)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--megabytes", type=int, default=800)
    asked = parser.parse_args()
    each_way = asked.megabytes * 1_000_000 // _RECORD_BYTES // 2  # every record is written and read
    counts = {topic: int(each_way * share) for topic, _codec, share in _TOPICS}
    record_again(partial(_record, asked.out, counts), _RECORDS_PER_SECOND, _TRIES)
    asked.out.with_suffix(".json").write_text(
        json.dumps({"records_each_way": counts, "record_bytes": _RECORD_BYTES})
    )
    print(f"{asked.out}: {asked.out.stat().st_size:,} bytes, {counts}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
