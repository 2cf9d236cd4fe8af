"""A Kafka broker for trying things: `python -m tests.lab.serve` starts one of today's release and prints
where it listens.

It runs until Ctrl-C, keeps its data in a temporary folder, and needs Java and Maven.
"""

from __future__ import annotations

import signal
import sys

from tests.lab.cluster import KraftCluster
from tests.lab.releases import CURRENT


def main() -> None:
    """Serve until interrupted."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    brokers = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    with KraftCluster(CURRENT, brokers, request_log=False) as cluster:
        sys.stdout.write(f"{cluster.bootstrap}\n")
        sys.stdout.flush()
        signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    main()
