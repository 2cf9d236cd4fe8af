"""A cluster starts, serves a real client, survives the restart of its broker, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench import record_chatty
from tests.lab import broker_requests as wire
from tests.lab import releases, requestlog
from tests.lab.capture import Capture
from tests.lab.clients import launch
from tests.lab.clients.job import Job
from tests.lab.cluster import Cluster, KraftCluster
from tests.lab.maven import LabUnavailable, jars
from tests.lab.packets import count

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    try:
        jars(releases.CURRENT)
        started = KraftCluster(releases.CURRENT, brokers=1)
    except LabUnavailable as absent:
        pytest.skip(str(absent))
    with started:
        yield started
    assert not started.folder.exists()
    assert wire.view(started.client_ports[0], timeout=0.5) is None


def test_clients_of_the_benchmark_speak_to_this_release(cluster: Cluster) -> None:
    cluster.create_topic("chatty", 6, 1, {})
    wanted = ("Produce", "Fetch", "Heartbeat")
    command = record_chatty.clients(cluster.client_ports[0], "chatty", exchanges=600, count=3)
    said = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=60).stdout)
    sent = {name.split()[0]: count for name, count in said["requests"].items()}
    assert said["connections"] == 3
    assert sum(sent.values()) >= 600
    assert min(sent[api] for api in wanted) > 20


def produce(cluster: Cluster, folder: Path, client_id: str) -> launch.Client:
    job = Job(client_id, "produce", cluster.bootstrap, ("orders",), records=20, per_second=1000)
    return launch.start("librdkafka", job, folder)


def test_client_and_broker_count_the_same(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("orders", 2, 1, {})
    outcome = produce(cluster, tmp_path, "counted").finish()
    assert outcome.records == {"orders": 20}
    served = [s for s in requestlog.read(dict.fromkeys(cluster.request_logs, 0)) if s.client_id == "counted"]
    names = [s.api_name for s in served]
    assert {"ApiVersions", "Metadata", "Produce"} <= set(names)
    assert all(s.server_port == cluster.client_ports[0] for s in served)


def test_broker_comes_back_with_its_topics(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("kept", 3, 1, {})
    (node,) = cluster.nodes
    node.stop()
    assert wire.view(node.client_port, timeout=0.5) is None
    node.start()
    cluster.wait_until_ready()
    cluster.wait_until_in_sync("kept", 1)
    assert len(cluster.view().topics["kept"]) == 3


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("tcpdump") is None, reason="recording needs root and tcpdump"
)
def test_capture_is_whole(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "one.pcap"
    with Capture(path, cluster.client_ports):
        for _ in range(5):
            assert wire.view(cluster.client_ports[0]) is not None
    seen = count(path)
    assert (seen.attempted, seen.accepted) == (5, 5)
    assert seen.packets >= 5 * 8  # handshake, request, response and close of each
    assert [left.name for left in tmp_path.iterdir()] == ["one.pcap"]
