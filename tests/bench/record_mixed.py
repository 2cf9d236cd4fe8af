"""Makes a capture of mixed traffic: four client libraries, every codec and every acks, consumer groups, three
brokers.

`python -m tests.bench.record_mixed OUT.pcap [--records 60000] [--per-second 2500]`. The clients are those of
the steady day (`tests.lab.scenarios.steady`), in a hurry. Needs root (tcpdump), Java, mvn.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.lab import releases
from tests.lab.capture import Capture
from tests.lab.cluster import KraftCluster
from tests.lab.scenarios.steady import CONSUMERS, PRODUCERS, TOPICS
from tests.lab.stage import Stage

_JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
_DEADLINE_SECONDS = 1200


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--records", type=int, default=60_000, help="of each producer")
    parser.add_argument("--per-second", type=float, default=2_500, help="of each producer, at most")
    asked = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kdissect-bench-") as scratch:
        stage = Stage("mixed", asked.out, Path(scratch))
        with KraftCluster(
            releases.CURRENT, 3, folder=stage.folder / "cluster", jvm=_JVM, request_log=False
        ) as cluster:
            stage.topics(cluster, TOPICS)
            stage.cluster = cluster
            with Capture(asked.out, cluster.client_ports, buffer_mib=512, eager=False):
                for group, library, topic, config in CONSUMERS:
                    stage.start(
                        library,
                        releases.CURRENT,
                        role="consume",
                        client_id=f"{group}-1",
                        topics=(topic,),
                        group=group,
                        config=config,
                    )
                producers = [
                    stage.start(
                        library,
                        releases.CURRENT,
                        role="produce",
                        client_id=client_id,
                        topics=(topic,),
                        records=asked.records,
                        per_second=asked.per_second,
                        burst=200,
                        value_bytes=400,
                        headers=True,
                        config=config | _quick(library, config),
                    )
                    for client_id, library, topic, config in PRODUCERS
                ]
                for producer in producers:
                    producer.child.wait(_DEADLINE_SECONDS)
                time.sleep(3)  # the last records travel
                for client in stage.clients:
                    client.child.stop()
                time.sleep(3)  # their last packets, too
    took = time.monotonic() - began
    print(f"{asked.out}: {asked.out.stat().st_size:,} bytes, {took:.0f} s")
    return 0


def _quick(library: str, config: dict[str, str]) -> dict[str, str]:
    """Return the settings of a producer that waits little before it sends, and for slow brokers as long as it
    must."""
    patience = {"queue.buffering.max.messages": "1000000"} if library == "librdkafka" else {}
    return {name: "5" for name in config if name in ("linger.ms", "linger_ms")} | patience


if __name__ == "__main__":
    sys.exit(main())
