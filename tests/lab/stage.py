"""The stage of a scenario: a cluster, clients that come and go, and the capture of what they say.

A scenario only tells who does what when; the stage keeps account, and makes the manifest entry at the end.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.lab import manifest, requestlog
from tests.lab.capture import Capture
from tests.lab.clients import launch
from tests.lab.clients.job import Job
from tests.lab.clients.launch import Client
from tests.lab.cluster import Cluster
from tests.lab.maven import Release
from tests.lab.requestlog import Served


@dataclass(slots=True)
class Stage:
    """One scenario's account. `served` is filled when the capture ends."""

    name: str
    capture: Path
    folder: Path
    clients: list[Client] = field(default_factory=list)
    served: list[Served] = field(default_factory=list)
    whole: bool = True  # every client's log was read; false when brokers are clients, too
    cluster: Cluster | None = None
    dropped_packets: int = 0  # that tcpdump says it lost
    edited: str = ""  # what was done to the capture after it was recorded
    noticed: dict[str, int] = field(default_factory=dict)
    """Counts of the incident from others than clients and request logs, such as a line in a broker's log."""
    answered_unlogged: set[int] = field(default_factory=set)
    """Ports whose brokers answer ApiVersions before they know the client, and do not log it."""

    @contextlib.contextmanager
    def recording(self, cluster: Cluster, ports: list[int] | None = None, **how: Any) -> Iterator[Capture]:
        """Record what the clients' ports of `cluster` see; end it after all clients have closed.

        `how` are the options of `Capture`.
        """
        self.cluster = cluster
        wanted = ports or cluster.client_ports
        time.sleep(0.5)  # connections of the set-up have closed by then
        since = requestlog.sizes(cluster.request_logs)
        with Capture(self.capture, wanted, **how) as capture:
            try:
                yield capture
            finally:
                for client in self.clients:
                    client.child.stop()
        self.dropped_packets = capture.dropped
        self.served = [s for s in requestlog.read(since) if s.server_port in wanted]

    def start(self, library: str, release: Release | None = None, **fields: Any) -> Client:
        """Start a client; `fields` are those of `Job` but for the bootstrap address."""
        assert self.cluster is not None
        client = launch.start(
            library, Job(**{"bootstrap": self.cluster.bootstrap, **fields}), self.folder, release
        )
        self.clients.append(client)
        return client

    def wait_until_reading(self, consumers: list[Client], patience: float = 60.0) -> None:
        """Return when the groups of all `consumers` have taken them in.

        Seen in the brokers' logs: a fetch, a heartbeat of either group protocol, or a share group's fetch.
        """
        assert self.cluster is not None
        wanted = {client.job.client_id for client in consumers}
        deadline = time.monotonic() + patience
        while wanted and time.monotonic() < deadline:
            time.sleep(0.5)
            served = requestlog.read(dict.fromkeys(self.cluster.request_logs, 0))
            wanted -= {s.client_id for s in served if s.api_key in (1, 12, 68, 78)}
        if wanted:
            raise TimeoutError(f"not taken into their groups: {sorted(wanted)}")

    def topics(
        self, cluster: Cluster, partitions: Mapping[str, int], config: Mapping[str, str] | None = None
    ) -> None:
        """Create topics before the recording."""
        for name, count in partitions.items():
            cluster.create_topic(name, count, min(3, len(cluster.nodes)), config or {})

    def entry(self, told: str) -> dict[str, Any]:
        """Return the manifest's entry, with what every observer counted."""
        assert self.cluster is not None
        if self.answered_unlogged:
            self.served = [s for s in self.served if s.api_name != "ApiVersions"]
        differences = self._differences()
        unanswered: Counter[tuple[str, int]] = Counter()
        for found in differences.values():
            for request, (sent, completed) in found.items():
                unanswered[request] += max(0, sent - completed)
        return {
            "name": self.name,
            **manifest.file_facts(self.capture),
            "told": told,
            "noticed": self.noticed,
            "broker": {"release": self.cluster.release.version, "nodes": len(self.cluster.nodes)},
            "server_ports": sorted({s.server_port for s in self.served}),
            "exact": self.whole and not differences and not self.dropped_packets,
            "dropped_packets": self.dropped_packets,
            "edited": self.edited or None,
            "expected": {
                "connections_with_requests": len({s.connection for s in self.served}),
                "requests": manifest.requests(self.served, unanswered if self.whole else None),
                "errors": manifest.errors(self.served),
            },
            "clients": [
                manifest.client_facts(c.job.client_id, c.library, c.job.role, self.served, c.said())
                for c in self.clients
            ],
            "sent_but_not_completed": {
                client: {
                    f"{name} v{version}": sent - completed
                    for (name, version), (sent, completed) in found.items()
                }
                for client, found in differences.items()
            },
        }

    def _differences(self) -> dict[str, manifest.Disagreements]:
        return {
            client.job.client_id: found
            for client in self.clients
            if client.log_names_requests
            if (
                found := manifest.disagreements(client.library, client.log, client.job.client_id, self.served)
            )
        }
