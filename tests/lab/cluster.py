"""Kafka clusters on loopback, one process per node, told apart by port.

`KraftCluster` runs a modern release (brokers are also the controllers), `ZookeeperCluster` an old one. Each
broker has one listener for clients and one for the other brokers, so a capture can hold one without the
other. Each writes `requests.log`: one line per request it completed. That log is the truth captures are
compared with.
"""

from __future__ import annotations

import base64
import contextlib
import shutil
import signal
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.lab import broker_requests as wire
from tests.lab.maven import Release, classpath, need
from tests.lab.process import SMALL_JVM, Child

_TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True)
class Node:
    """One broker: its process and where it listens."""

    number: int
    child: Child
    client_port: int
    internal_port: int
    controller_port: int
    folder: Path

    @property
    def request_log(self) -> Path:
        return self.folder / "requests.log"

    def stop(self) -> None:
        """Shut down as an operator would: leadership moves away first."""
        self.child.stop()

    def kill(self) -> None:
        self.child.kill()

    def start(self) -> None:
        self.child.start()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the process in the middle of whatever it does; at the end let it go on."""
        assert self.child.process is not None
        self.child.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.child.process.send_signal(signal.SIGCONT)


class Cluster:
    """Shared base of both kinds of cluster. Use as a context manager; `folder` is removed at the end unless
    given."""

    create_topics_version: int
    format_arguments: tuple[str, ...] = ()  # what else the storage is formatted with, such as users

    def __init__(
        self,
        release: Release,
        brokers: int = 3,
        config: Mapping[str, str] | None = None,
        folder: Path | None = None,
        jvm: tuple[str, ...] = SMALL_JVM,
        request_log: bool = True,
        first: int = 1,
    ) -> None:
        need("java")
        self.release = release
        self.config = dict(config or {})
        self.jvm = (*jvm, f"-Dlab.requests.level={'TRACE' if request_log else 'OFF'}")
        self._temporary = folder is None
        self.folder = Path(tempfile.mkdtemp(prefix="kdissect-lab-")) if folder is None else folder
        self.folder.mkdir(parents=True, exist_ok=True)
        self.nodes = [self._node(number, *wire.free_ports(3)) for number in range(first, first + brokers)]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.client_ports)

    @property
    def client_ports(self) -> list[int]:
        return [node.client_port for node in self.nodes]

    @property
    def all_ports(self) -> list[int]:
        return [port for n in self.nodes for port in (n.client_port, n.internal_port, n.controller_port)]

    @property
    def request_logs(self) -> list[Path]:
        return [node.request_log for node in self.nodes]

    def view(self) -> wire.ClusterView:
        """The topics and brokers as the first answering broker sees them."""
        for port in self.client_ports:
            if (seen := wire.view(port)) is not None:
                return seen
        raise RuntimeError("no broker answers")

    def wait_until_ready(self) -> None:
        """Return when all running nodes know of each other; asks where no recording listens."""
        wire.wait_for_brokers([node.internal_port for node in self.nodes if node.child.running])

    def create_topic(self, name: str, partitions: int, replicas: int, config: Mapping[str, str]) -> None:
        """Create a topic and return when all its partitions are in sync. Leaves no connection open."""
        # Old brokers answer only where the controller is, newer ones pass it on.
        codes = []
        for port in self.client_ports:
            codes.append(
                wire.create_topic(port, name, partitions, replicas, config, self.create_topics_version)
            )
            if codes[-1] == 0:
                return self.wait_until_in_sync(name, replicas)
        raise RuntimeError(f"topic {name} was not created: {codes}")

    def wait_until_in_sync(self, topic: str, replicas: int, patience: float = 60.0) -> None:
        """Return when every partition of `topic` has a leader and `replicas` in-sync replicas, on all
        brokers."""
        deadline = time.monotonic() + patience
        for port in self.client_ports:
            while True:
                seen = wire.view(port)
                partitions = seen.topics.get(topic, {}).values() if seen else ()
                if partitions and all(p.leader >= 0 and len(p.in_sync) >= replicas for p in partitions):
                    break
                if time.monotonic() > deadline:
                    raise TimeoutError(f"topic {topic} did not become in sync: {partitions}")
                time.sleep(0.1)

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        try:
            self.wait_until_ready()
            wire.wait_for_brokers(self.client_ports)
        except TimeoutError as error:
            tails = "\n".join(f"{node.child.name}:\n{node.child.tail()}" for node in self.nodes)
            raise RuntimeError(f"{error}\n{tails}") from None

    def stop(self) -> None:
        """Stop all nodes; their logs stay until the context ends."""
        for node in reversed(self.nodes):
            if node.child.process is not None:
                node.child.process.terminate()
        for node in reversed(self.nodes):
            node.stop()

    def kill(self) -> None:
        """End all nodes at once; nothing they were asked by now is lost from their request logs."""
        for node in self.nodes:
            node.kill()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _node(self, number: int, client: int, internal: int, controller: int) -> Node:
        folder = self.folder / f"broker-{number}"
        folder.mkdir(exist_ok=True)
        command = self._java(folder, "kafka.Kafka", str(folder / "server.properties"))
        child = Child(f"broker {number}", command, folder / "server.log")
        return Node(number, child, client, internal, controller, folder)

    def _java(self, folder: Path, *arguments: str) -> list[str]:
        raise NotImplementedError

    def _write_properties(self, node: Node, own: Mapping[str, str]) -> None:
        count = str(min(3, len(self.nodes)))
        common = {
            "log.dirs": str(node.folder / "data"),
            "num.partitions": "6",
            "default.replication.factor": count,
            "offsets.topic.num.partitions": "3",
            "offsets.topic.replication.factor": count,
            "num.network.threads": "2",
            "num.io.threads": "2",
        }
        lines = {**common, **own, **self.config}
        (node.folder / "server.properties").write_text("".join(f"{k}={v}\n" for k, v in lines.items()))


class KraftCluster(Cluster):
    """A cluster without ZooKeeper; every node is broker and controller."""

    create_topics_version = 2

    def start(self) -> None:
        voters = ",".join(f"{n.number}@127.0.0.1:{n.controller_port}" for n in self.nodes)
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")
        formatters = []
        for node in self.nodes:
            self._write_properties(node, self._roles(node, voters))
            command = self._java(
                node.folder, "kafka.tools.StorageTool", "format", "-t", cluster_id,
                "-c", str(node.folder / "server.properties"), *self.format_arguments,
            )  # fmt: skip
            formatters.append(Child(f"format {node.number}", command, node.folder / "format.log").start())
        for formatter in formatters:
            formatter.wait()
        super().start()

    def _roles(self, node: Node, voters: str) -> dict[str, str]:
        count = str(min(3, len(self.nodes)))
        client, internal = (
            f"CLIENT://127.0.0.1:{node.client_port}",
            f"INTERNAL://127.0.0.1:{node.internal_port}",
        )
        return {
            "process.roles": "broker,controller",
            "node.id": str(node.number),
            "controller.quorum.voters": voters,
            "listeners": f"{client},{internal},CONTROLLER://127.0.0.1:{node.controller_port}",
            "advertised.listeners": f"{client},{internal}",
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
            "controller.listener.names": "CONTROLLER",
            "transaction.state.log.num.partitions": "3",
            "transaction.state.log.replication.factor": count,
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "3",
            "share.coordinator.state.topic.replication.factor": count,
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        }

    def _java(self, folder: Path, *arguments: str) -> list[str]:
        logging = [
            f"-Dlog4j2.configurationFile={_TEMPLATES / 'broker-log4j2.xml'}",
            f"-Dlab.requests={folder / 'requests.log'}",
        ]
        path = classpath(self.release)
        return ["java", *self.jvm, *logging, "-cp", path, *arguments]


class ZookeeperCluster(Cluster):
    """A cluster of a release that keeps its metadata in ZooKeeper."""

    create_topics_version = 1

    def start(self) -> None:
        (self.zookeeper_port,) = wire.free_ports(1)
        folder = self.folder / "zookeeper"
        folder.mkdir(exist_ok=True)
        settings = (
            f"dataDir={folder / 'data'}\nclientPort={self.zookeeper_port}\nclientPortAddress=127.0.0.1\n"
        )
        (folder / "zoo.properties").write_text(settings)
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        command = self._java(folder, main, str(folder / "zoo.properties"))
        self._zookeeper = Child("zookeeper", command, folder / "server.log").start()
        for node in self.nodes:
            self._write_properties(node, self._listeners(node))
        super().start()

    def stop(self) -> None:
        super().stop()
        self._zookeeper.stop()

    def kill(self) -> None:
        super().kill()
        self._zookeeper.kill()

    @property
    def zookeeper(self) -> str:
        return f"127.0.0.1:{self.zookeeper_port}"

    def run_tool(self, main: str, *arguments: str) -> None:
        """Run one of the release's own command-line tools to its end."""
        output = self.folder / f"{main.rpartition('.')[2]}.log"
        Child(main, self._java(self.folder, main, *arguments), output).start().wait()

    def _listeners(self, node: Node) -> dict[str, str]:
        client, internal = (
            f"CLIENT://127.0.0.1:{node.client_port}",
            f"INTERNAL://127.0.0.1:{node.internal_port}",
        )
        return {
            "broker.id": str(node.number),
            "zookeeper.connect": self.zookeeper,
            "listeners": f"{client},{internal}",
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
        }

    def _java(self, folder: Path, *arguments: str) -> list[str]:
        logging = [
            f"-Dlog4j.configuration=file:{_TEMPLATES / 'broker-log4j.properties'}",
            f"-Dlab.requests={folder / 'requests.log'}",
        ]
        path = classpath(self.release)
        return ["java", *self.jvm, *logging, "-cp", path, *arguments]
