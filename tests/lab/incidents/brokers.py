"""Three brokers of the current release, each also a controller, that stay up from scenario to scenario.

In: a `Network`. Out: brokers with listeners for clients (plain, SASL, TLS), for the operator and for each
other, and the operator's requests. A scenario mends what it breaks; `ready` returns when all brokers are
in sync again."""

from __future__ import annotations

import base64
import re
import shutil
import signal
import socket
import struct
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    ElectionType,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka import TopicPartition as Partition
from kafka.admin import KafkaAdminClient

from tests.lab import broker_requests as wire
from tests.lab.certificates import certificate
from tests.lab.incidents.network import PORTS, Loopback, Network
from tests.lab.maven import classpath
from tests.lab.process import SMALL_JVM, Child
from tests.lab.releases import CURRENT
from tests.lab.security import SCRAM_USERS

_TEMPLATES = Path(__file__).parents[1] / "templates"
ROLES = "broker,controller"
CONTROLLER_ID = 9  # of a controller that is no broker
USERS = {"alice": "correct-horse-battery", "bob": "paper-clip-staple"}
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_JAAS = f"{_PLAIN} required " + " ".join(f'user_{name}="{secret}"' for name, secret in USERS.items()) + ";"

SETTINGS = {
    "num.partitions": "6",
    "default.replication.factor": "3",
    "min.insync.replicas": "1",
    "offsets.topic.num.partitions": "6",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "num.network.threads": "2",
    "num.io.threads": "3",
    "num.replica.fetchers": "1",
    "auto.leader.rebalance.enable": "false",
    "auto.create.topics.enable": "false",
    "group.min.session.timeout.ms": "1000",
    "replica.lag.time.max.ms": "8000",
    "controlled.shutdown.enable": "true",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",  # the brokers, the operator and clients of the plain listener
    "allow.everyone.if.no.acl.found": "true",
    "log.message.timestamp.after.max.ms": "3600000",
    "log.retention.check.interval.ms": "3600000",
}


def new_cluster_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")


@dataclass(slots=True)
class Broker:
    """One broker: its process, where it lives and where clients reach it."""

    number: int
    host: str
    address: str  # with the port of the plain listener for clients
    child: Child
    folder: Path

    @property
    def name(self) -> str:
        return f"broker {self.number} ({self.address})"

    @property
    def ip(self) -> str:
        return self.address.rpartition(":")[0]

    def kill(self) -> None:
        self.child.kill()

    def stop(self) -> None:
        """Shut down as an operator would: leadership moves away first."""
        self.child.stop()

    def start(self) -> None:
        self.child.start()

    def freeze(self) -> int:
        """Stop the process in the middle of whatever it does; return when that was."""
        return self._send(signal.SIGSTOP)

    def thaw(self) -> int:
        return self._send(signal.SIGCONT)

    def stutter(self, stopped_s: float, running_s: float, lasting_s: float) -> None:
        """Stop the process again and again, for that long each time: everything it does takes longer."""
        end = time.monotonic() + lasting_s
        while time.monotonic() < end:
            self.freeze()
            time.sleep(stopped_s)
            self.thaw()
            time.sleep(running_s)

    def _send(self, number: signal.Signals) -> int:
        assert self.child.process is not None
        self.child.process.send_signal(number)
        return time.time_ns()


class Brokers:
    """A context manager: the cluster and the operator's hand on it."""

    def __init__(self, network: Network, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.network, self.folder = network, folder
        self.settings = SETTINGS | dict(settings or {})
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.addresses = [network.address(f"b{n}") for n in (1, 2, 3)]
        self.certificate = certificate(folder, addresses=sorted(set(self.addresses)))
        self.all = [self._broker(number) for number in (1, 2, 3)]
        self.controller = self._controller() if self.settings.get("process.roles") == "broker" else None

    @property
    def processes(self) -> list[Broker]:
        """Return all that run: the controller, where it is apart, first."""
        return [self.controller, *self.all] if self.controller else self.all

    def bootstrap(self, listener: str = "CLIENT") -> str:
        return ",".join(
            f"{address}:{self.network.port(number, listener)}"
            for number, address in enumerate(self.addresses, 1)
        )

    def broker(self, number: int) -> Broker:
        return self.all[number - 1]

    def __enter__(self) -> Self:
        cluster_id = new_cluster_id()
        formatters = []
        for broker in self.processes:
            self.write_settings(broker)
            formatters.append(self.formatter(broker, cluster_id))
        for formatter in formatters:
            formatter.wait()
        for broker in self.processes:
            broker.start()
        self.admin = AdminClient(
            {"bootstrap.servers": self.bootstrap("ADMIN"), "client.id": "operator", "log_level": 0}
        )
        self.ready(90)
        self._warm_up()
        return self

    def formatter(self, broker: Broker, cluster_id: str) -> Child:
        """Begin to format the folders of a broker that no cluster has yet; return the process."""
        settings = str(broker.folder / "server.properties")
        words = ("kafka.tools.StorageTool", "format", "-g", "-t", cluster_id, "-c", settings, *SCRAM_USERS)
        command = [*self.network.command(broker.host), *self._java(broker.folder, *words)]
        return Child(f"format {broker.number}", command, broker.folder / "format.log").start()

    def cluster_id(self) -> str:
        """Return the id that the folders of the first broker have."""
        text = (self.all[0].folder / "data" / "meta.properties").read_text()
        return next(line for line in text.splitlines() if line.startswith("cluster.id=")).partition("=")[2]

    def stranger(self, host: str) -> Child:
        """Start the only broker of another cluster on a host of clients; return its process."""
        address, folder = self.network.address(host), self.folder / f"stranger-{host}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        other = Broker(1, host, f"{address}:{PORTS['CLIENT']}", self.all[0].child, folder)
        settings = self.settings | self._own(self.all[0]) | {
            "process.roles": ROLES,
            "controller.quorum.voters": f"1@{address}:{PORTS['CONTROLLER']}",
            "listeners": f"CLIENT://{address}:9092,CONTROLLER://{address}:9093",
            "advertised.listeners": f"CLIENT://{address}:9092",
            "log.dirs": str(folder / "data"),
            "offsets.topic.replication.factor": "1",
            "default.replication.factor": "1",
        }  # fmt: skip
        text = "".join(f"{key}={value}\n" for key, value in settings.items())
        (folder / "server.properties").write_text(text)
        self.formatter(other, new_cluster_id()).wait()
        java = self._java(folder, "kafka.Kafka", str(folder / "server.properties"))
        return Child("stranger", [*self.network.command(host), *java], folder / "server.log").start()

    def _warm_up(self, seconds: float = 15) -> None:
        """Keep new processes busy for a while, so that compiling them is in no recording."""
        topic = self.create_topic("warm-up")
        own = {"bootstrap.servers": self.bootstrap("ADMIN"), "log_level": 0}
        producer = Producer(own | {"acks": "all", "transactional.id": topic})
        consumer = Consumer(own | {"group.id": topic, "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        producer.init_transactions(60)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            producer.begin_transaction()
            for number in range(20):
                producer.produce(topic, bytes(300), str(number).encode())
            producer.commit_transaction(60)
            consumer.consume(20, 0.01)
        consumer.close()
        self.delete_topics([topic])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for broker in self.processes:
            broker.kill()

    def revive(self) -> None:
        """Start the processes that do not run, and return when all brokers are in sync."""
        for broker in self.processes:
            if not broker.child.running:
                broker.start()
        self.ready()

    def ready(self, patience: float = 60) -> None:
        """Return when all brokers answer and all partitions have all replicas in sync."""
        deadline = time.monotonic() + patience
        while True:
            try:
                seen = self.admin.list_topics(timeout=5)
                short = [
                    (topic.topic, p.id)
                    for topic in seen.topics.values()
                    for p in topic.partitions.values()
                    if len(p.isrs) < len(p.replicas) or p.leader < 0
                ]
                if len(seen.brokers) == 3 and not short:
                    return
                reason = f"{sorted(seen.brokers)}, short of replicas: {short[:5]}"
            except KafkaException as error:
                reason = str(error)
            if time.monotonic() > deadline:
                tails = "\n".join(broker.child.tail(8) for broker in self.all)
                raise TimeoutError(f"brokers are not ready: {reason}\n{tails}")
            time.sleep(0.2)

    def create_topic(self, name: str, partitions: int = 6, replicas: int = 3, **config: Any) -> str:
        """Create a topic; settings have underscores in place of dots."""
        settings = {key.replace("_", "."): str(value) for key, value in config.items()}
        topic = NewTopic(name, partitions, replicas, config=settings)
        for future in self.admin.create_topics([topic]).values():
            future.result(20)
        self.ready()
        return name

    def add_partitions(self, topic: str, total: int) -> None:
        """Add partitions to a topic until it has so many."""
        self.admin.create_partitions([NewPartitions(topic, total)])[topic].result(20)

    def delete_topics(self, names: list[str]) -> None:
        for future in self.admin.delete_topics(names).values() if names else ():
            try:
                future.result(20)
            except KafkaException as error:
                print(f"  not deleted: {error}", flush=True)

    def leader(self, topic: str, partition: int) -> int:
        description = self.admin.describe_topics(TopicCollection([topic]))[topic].result(20)
        return int(description.partitions[partition].leader.id)

    def configure(self, kind: str, name: str, **config: Any) -> None:
        """Set settings of a "topic" or a "broker" (by its number); "" brings the default back."""
        entries = [
            ConfigEntry(
                key.replace("_", "."),
                str(value) or None,
                incremental_operation=AlterConfigOpType.SET if str(value) else AlterConfigOpType.DELETE,
            )
            for key, value in config.items()
        ]
        resource = ConfigResource(kind, name, incremental_configs=entries)
        for future in self.admin.incremental_alter_configs([resource]).values():
            future.result(20)

    def reserve(
        self, resource: tuple[ResourceType, str, ResourcePatternType], principal: str
    ) -> Callable[[], None]:
        """Allow one principal alone to use a resource; return what takes that back."""
        rule = AclBinding(*resource, principal, "*", AclOperation.ALL, AclPermissionType.ALLOW)
        for future in self.admin.create_acls([rule]).values():
            future.result(10)
        remove = AclBindingFilter(*resource, None, None, AclOperation.ANY, AclPermissionType.ANY)

        def release() -> None:
            for done in self.admin.delete_acls([remove]).values():
                done.result(10)

        return release

    def set_scram_password(self, user: str, password: str) -> None:
        """Set the password of a user of SCRAM-SHA-256."""
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        change = UserScramCredentialUpsertion(user, info, password.encode())
        for future in self.admin.alter_user_scram_credentials([change]).values():
            future.result(10)

    def reset_offsets(self, group: str, topic: str) -> None:
        """Set the offsets of a group without members to the beginning of a topic."""
        count = len(self.admin.list_topics(topic, timeout=10).topics[topic].partitions)
        first = [TopicPartition(topic, number, 0) for number in range(count)]
        changes = [ConsumerGroupTopicPartitions(group, first)]
        for future in self.admin.alter_consumer_group_offsets(changes).values():
            future.result(10)

    def delete_group(self, group: str, patience: float = 20) -> None:
        """Delete a group with all offsets that it has committed, as soon as it has no members."""
        deadline = time.monotonic() + patience
        while error := self.admin.delete_consumer_groups([group])[group].exception(10):
            if time.monotonic() > deadline:
                raise error
            time.sleep(0.3)

    def limit_client(self, client_id: str, bytes_per_second: float) -> None:
        host, port = self.bootstrap("ADMIN").split(",")[0].split(":")
        wire.limit(int(port), client_id, bytes_per_second, host=host)

    def limit_changes(self, client_id: str, per_second: float) -> None:
        """Set how many partitions a second a client may create or delete."""
        host, port = self.bootstrap("ADMIN").split(",")[0].split(":")
        wire.limit(int(port), client_id, per_second, host=host, quotas=["controller_mutation_rate"])

    def limit_time(self, client_id: str, percent: float) -> None:
        """Set how much of a broker's threads a client may use, where 100 is one thread."""
        host, port = self.bootstrap("ADMIN").split(",")[0].split(":")
        wire.limit(int(port), client_id, percent, host=host, quotas=["request_percentage"])

    def place(self, topic: str, partition: int, replicas: list[int]) -> None:
        """Move a partition to other brokers, the first of which is to lead it."""
        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap("ADMIN").split(","))
        admin.alter_partition_reassignments({Partition(topic, partition): replicas})
        admin.close()

    def elect_preferred(self, *topics: str) -> int:
        """Move leadership of all partitions to their preferred replicas; return when it was asked for."""
        seen = self.admin.list_topics(timeout=10).topics
        partitions = [TopicPartition(topic, number) for topic in topics for number in seen[topic].partitions]
        moment = time.time_ns()
        self.admin.elect_leaders(ElectionType.PREFERRED, partitions).result(20)
        return moment

    def delete_records(self, topic: str) -> None:
        """Delete all records that a topic has now."""
        count = len(self.admin.list_topics(topic, timeout=10).topics[topic].partitions)
        ends = [TopicPartition(topic, number, -1) for number in range(count)]
        for future in self.admin.delete_records(ends).values():
            future.result(20)

    def restart(self, broker: Broker, advertised: str = "", listener: str = "CLIENT") -> None:
        """Stop and start a broker; it advertises another address at a listener if one is given."""
        addresses = self._own(broker)["advertised.listeners"]
        if advertised:
            addresses = re.sub(rf"\b{listener}://[^,]*", f"{listener}://{advertised}", addresses)
        self.write_settings(broker, advertised_listeners=addresses)
        broker.stop()
        broker.start()
        self.wait_until_listening(broker)

    def coordinator(self, group: str) -> int:
        """Return the number of the broker that coordinates a group (FindCoordinator 0)."""
        request = struct.pack(">hhih3sh", 10, 0, 5, 3, b"lab", len(group)) + group.encode()
        for address in self.bootstrap("ADMIN").split(","):
            host, port = address.split(":")
            try:
                answer = wire.ask(int(port), request, 5, host=host)
            except OSError:
                continue
            error, number = struct.unpack_from(">hi", answer, 4)
            if not error:
                return int(number)
        return -1

    def wait_until_listening(self, broker: Broker, patience: float = 40) -> int:
        """Return when the broker accepts connections of clients; give that moment."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            try:
                # The operator's listener, so that no capture shows the attempt.
                admin = self.network.port(broker.number, "ADMIN")
                socket.create_connection((broker.ip, admin), 1).close()
                return time.time_ns()
            except OSError:
                time.sleep(0.1)
        raise TimeoutError(f"{broker.name} does not listen")

    def write_settings(self, broker: Broker, **changed: str) -> None:
        """Write the broker's settings, which count from its next start on; `changed` have underscores."""
        own = self._own(broker) | {key.replace("_", "."): value for key, value in changed.items()}
        lines = {**self.settings, **own}
        lines = {key: value for key, value in lines.items() if value}  # a controller advertises nothing
        (broker.folder / "server.properties").write_text("".join(f"{k}={v}\n" for k, v in lines.items()))

    def _own(self, broker: Broker) -> dict[str, str]:
        host, number = self.network.address(broker.host), broker.number
        at = {name: f"{name}://{host}:{self.network.port(number, name)}" for name in PORTS}
        internal = "INTERNAL" if isinstance(self.network, Loopback) else "CLIENT"
        voters = ",".join(
            f"{n}@{address}:{self.network.port(n, 'CONTROLLER')}"
            for n, address in enumerate(self.addresses, 1)
        )
        if self.controller is not None:
            voters = f"{CONTROLLER_ID}@{self.controller.address}"
            at.pop("CONTROLLER")
            if broker is self.controller:
                at = {"CONTROLLER": f"CONTROLLER://{self.controller.address}"}
        roles = "controller" if broker is self.controller else self.settings.get("process.roles", ROLES)
        protocols = dict.fromkeys(PORTS, "PLAINTEXT") | {"SASL": "SASL_PLAINTEXT", "TLS": "SSL"}
        return {
            "process.roles": roles,
            "node.id": str(number),
            "controller.quorum.voters": voters,
            "listeners": ",".join(at.values()),
            "advertised.listeners": ",".join(a for name, a in at.items() if name != "CONTROLLER"),
            "listener.security.protocol.map": ",".join(f"{k}:{v}" for k, v in protocols.items()),
            "inter.broker.listener.name": internal,
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(broker.folder / "data"),
            "group.initial.rebalance.delay.ms": "0" if internal == "INTERNAL" else "3000",
            "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.sasl.plain.sasl.jaas.config": _JAAS,
            "listener.name.sasl.scram-sha-256.sasl.jaas.config": f"{_SCRAM} required;",
            "listener.name.sasl.scram-sha-512.sasl.jaas.config": f"{_SCRAM} required;",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.certificate),
            "broker.rack": f"rack-{number}",
        }

    def _controller(self) -> Broker:
        """Return the one controller of a cluster whose brokers are none; it lives beside the first broker."""
        return self._broker(CONTROLLER_ID, beside=1, listener="CONTROLLER")

    def _broker(self, number: int, beside: int = 0, listener: str = "CLIENT") -> Broker:
        place = beside or number
        host = f"b{place}"
        folder = self.folder / f"broker-{number}"
        folder.mkdir()
        java = self._java(folder, "kafka.Kafka", str(folder / "server.properties"))
        child = Child(f"broker {number}", [*self.network.command(host), *java], folder / "server.log")
        address = f"{self.network.address(host)}:{self.network.port(place, listener)}"
        return Broker(number, host, address, child, folder)

    def _java(self, folder: Path, *arguments: str) -> list[str]:
        logging = [
            f"-Dlog4j2.configurationFile={_TEMPLATES / 'broker-log4j2.xml'}",
            f"-Dlab.requests={folder / 'requests.log'}",
            "-Dlab.requests.level=OFF",
        ]
        return ["java", *SMALL_JVM, *logging, "-cp", classpath(CURRENT), *arguments]
