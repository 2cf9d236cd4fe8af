"""Makes a chatty capture: many small exchanges, each client with one request in flight.

`python -m tests.bench.record_chatty OUT.pcap [--exchanges 1000000] [--clients 6]`. Beside OUT.pcap it writes
OUT.json: how many requests of each API and version the clients sent. Needs root (tcpdump), Java and mvn.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from tests.lab import releases
from tests.lab.capture import Capture
from tests.lab.cluster import KraftCluster
from tests.lab.java_compiler import compiled
from tests.lab.maven import classpath

_HERE = Path(__file__).parent
_TOPIC = "chatty"
# The broker must not be what the clients wait for: full compiler, no request log.
_FAST_JVM = ("-Xmx1g", "-XX:+UseSerialGC", "-Djava.awt.headless=true")


def clients(port: int, topic: str, exchanges: int, count: int) -> list[str]:
    """Return the command that makes exchanges, and prints what it sent as JSON.

    The topic has six partitions. A third of the clients write, a third read, a third are members of groups.
    """
    logging = f"-Dlog4j2.configurationFile={_HERE.parent / 'lab' / 'templates' / 'quiet-log4j2.xml'}"
    path = classpath(releases.CURRENT, compiled(releases.CURRENT, _HERE / "java" / "Chatty.java"))
    command = ["java", "-Xmx512m", "-XX:+UseSerialGC", logging, "-cp", path, "Chatty"]
    return [*command, str(port), topic, str(exchanges), str(count)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--exchanges", type=int, default=1_000_000)
    parser.add_argument("--clients", type=int, default=6)
    asked = parser.parse_args()
    settings = {"group.max.session.timeout.ms": "600000", "log.retention.check.interval.ms": "3600000"}
    with KraftCluster(releases.CURRENT, 1, settings, jvm=_FAST_JVM, request_log=False) as cluster:
        cluster.create_topic(_TOPIC, 6, 1, {})
        time.sleep(1)
        command = clients(cluster.client_ports[0], _TOPIC, asked.exchanges, asked.clients)
        start = time.monotonic()
        with Capture(asked.out, cluster.client_ports, buffer_mib=1024, eager=False):
            said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            took = time.monotonic() - start
    asked.out.with_suffix(".json").write_text(said)
    print(f"{asked.out}: {asked.out.stat().st_size:,} bytes, {took:.0f} s, {said.strip()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
