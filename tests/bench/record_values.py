"""Makes a capture of exactly so many records with JSON values, for queries of the table `records`.

`python -m tests.bench.record_values OUT.pcap [--records 1000000]`. Kafka's own performance tool writes them
to one topic with acks=1, so each record crosses the wire once, in batches as the tool makes them by default.
Needs root (tcpdump), Java, mvn.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.record_bulk import JVM, run_tool
from tests.lab import releases
from tests.lab.capture import Capture
from tests.lab.cluster import KraftCluster

TOPIC = "orders"
CUSTOMERS = 50


def values() -> str:
    """Return the values from which the tool takes one at random for each record, one a line."""
    return "".join(
        json.dumps({"customer": {"id": number, "name": f"customer-{number}"}, "amount": number * 1.25}) + "\n"
        for number in range(CUSTOMERS)
    )


def produce(bootstrap: str, records: int) -> None:
    """Write the records, each once."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(values())
        file.flush()
        properties = (f"bootstrap.servers={bootstrap}", "client.id=writer", "acks=1", "linger.ms=5",
                      "enable.idempotence=false")  # fmt: skip
        run_tool("ProducerPerformance", "--topic", TOPIC, "--num-records", str(records), "--throughput", "-1",
                 "--payload-file", file.name, "--command-property", *properties)  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--records", type=int, default=1_000_000)
    asked = parser.parse_args()
    with KraftCluster(releases.CURRENT, 1, {}, jvm=JVM, request_log=False) as cluster:
        cluster.create_topic(TOPIC, 6, 1, {})
        time.sleep(1)
        with Capture(asked.out, cluster.client_ports, buffer_mib=1024, eager=False):
            produce(cluster.bootstrap, asked.records)
    print(f"{asked.out}: {asked.out.stat().st_size:,} bytes, {asked.records:,} records")
    return 0


if __name__ == "__main__":
    sys.exit(main())
