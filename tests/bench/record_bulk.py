"""Makes a bulk capture: few, large exchanges, records in batches of about 1 MB.

`python -m tests.bench.record_bulk OUT.pcap [--megabytes 800]`. Kafka's own performance tools write and read
one topic without compression and one with lz4; beside OUT.pcap, OUT.json tells how many records. Needs root
(tcpdump), Java, mvn.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from tests.lab import releases
from tests.lab.capture import Capture
from tests.lab.cluster import KraftCluster
from tests.lab.maven import classpath

_RECORD_BYTES = 1_000
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


def _produce(bootstrap: str, topic: str, codec: str, records: int) -> None:
    settings = {
        "bootstrap.servers": bootstrap,
        "client.id": f"writer-{codec}",
        "batch.size": "1000000",
        "linger.ms": "100",
        "buffer.memory": "134217728",
        "acks": "1",
        "enable.idempotence": "false",
        "compression.type": codec,
    }
    properties = ["--command-property", *(f"{key}={value}" for key, value in settings.items())]
    run_tool("ProducerPerformance", "--topic", topic, "--num-records", str(records), "--throughput", "-1",
          "--record-size", str(_RECORD_BYTES), *properties)  # fmt: skip


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--megabytes", type=int, default=800)
    asked = parser.parse_args()
    each_way = asked.megabytes * 1_000_000 // _RECORD_BYTES // 2  # every record is written and read
    with KraftCluster(
        releases.CURRENT, 1, {"message.max.bytes": "2000000"}, jvm=JVM, request_log=False
    ) as cluster:
        for topic, _codec, _share in _TOPICS:
            cluster.create_topic(topic, 4, 1, {})
        time.sleep(1)
        counts = {topic: int(each_way * share) for topic, _codec, share in _TOPICS}
        with Capture(asked.out, cluster.client_ports, buffer_mib=1024, eager=False):
            for topic, codec, _share in _TOPICS:
                _produce(cluster.bootstrap, topic, codec, counts[topic])
                _consume(cluster.bootstrap, topic, codec, counts[topic])
    asked.out.with_suffix(".json").write_text(
        json.dumps({"records_each_way": counts, "record_bytes": _RECORD_BYTES})
    )
    print(f"{asked.out}: {asked.out.stat().st_size:,} bytes, {counts}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
