"""A recording of clients in five languages, and what their cluster had in the end.

In: a folder, and how long writers write. Out: `clients.pcap`, with all that clients said, and `truth.json`,
with the contents and the committed offsets as an independent client read them afterwards, unrecorded.

franz-go, sarama, kafkajs, rust-rdkafka and Java write and read, in transactions too. Groups are of each kind:
classic, cooperative and KIP-848. In some of them a member comes late, and another one leaves before the end.
Writers end by themselves. Readers go on until they have read everything, and then leave.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.lab import contents
from tests.lab.capture import Capture
from tests.lab.cluster import KraftCluster
from tests.lab.contents import Commits, Contents, Seen
from tests.lab.incidents import work as works
from tests.lab.incidents.work import Work
from tests.lab.process import Child
from tests.lab.releases import CURRENT

CAPTURE, TRUTH = "clients.pcap", "truth.json"
TOPICS = {"orders": 6, "clicks": 3, "payments": 3, "enriched": 3}
BROKERS = 3
TRANSACTIONS = 2.0  # a second, of each client
CONSUMER_PROTOCOL = {"group.coordinator.rebalance.protocols": "classic,consumer"}  # of 3.9; 4.x has both
REST_S = 8.0  # for readers, until they have read and committed everything
OFTEN: dict[str, object] = {"auto.commit.interval.ms": 2000}


def _writers(bootstrap: str, seconds: float) -> list[Work]:
    def producer(library: str, topic: str, per_second: float, **more: Any) -> Work:
        topics, records = [topic], round(per_second * seconds)
        name = f"{library}-writer"
        return Work(name, "produce", bootstrap, library, topics, per_second, 4, records, **more)

    def bank(library: str, records: int, **more: Any) -> Work:
        name = f"{library}-bank"
        more |= {"transactional_id": name, "records": records}
        return Work(name, "transact", bootstrap, library, ["payments"], TRANSACTIONS, **more)

    transactions = round(TRANSACTIONS * seconds)
    return [
        producer("franz-go", "orders", 24, idempotent=True),
        producer("java", "orders", 24, idempotent=True, linger_ms=5),
        producer("sarama", "orders", 16, acks="1", linger_ms=10),
        producer("kafkajs", "clicks", 16, compression="gzip"),
        producer("rust", "clicks", 24, idempotent=True, compression="lz4"),
        bank("franz-go", transactions, in_transaction=4, abort_every=5),
        bank("rust", transactions, in_transaction=4, abort_every=4),
        bank("java", 3 * transactions, in_transaction=3),  # it aborts every third
    ]


@dataclass(frozen=True, slots=True)
class Reader:
    """A member of a group, and which part of the recording it takes part in."""

    library: str
    group: str
    topics: tuple[str, ...]
    begin: float = 0.0
    end: float = 1.0
    strategy: str = ""
    extra: Mapping[str, object] = field(default_factory=dict)
    role: str = "consume"

    def work(self, number: int, bootstrap: str) -> Work:
        """Return the work of the so manieth reader."""
        return Work(
            f"{self.group}-{number}",
            self.role,
            bootstrap,
            self.library,
            list(self.topics),
            group=self.group,
            strategy=self.strategy,
            transactional_id=self.group if self.role == "transform" else "",
            extra=dict(self.extra),
        )


LATE, EARLY = 1 / 3, 2 / 3
COOPERATIVE = "cooperative-sticky"  # the default of franz-go
KIP848 = OFTEN | {"isolation.level": "read_committed", "group.protocol": "consumer"}
READERS = (
    Reader("franz-go", "franz-cooperative", ("orders",), end=EARLY),
    Reader("franz-go", "franz-cooperative", ("orders",)),
    Reader("franz-go", "franz-cooperative", ("orders",), begin=LATE),
    Reader("java", "java-cooperative", ("orders",), strategy=COOPERATIVE, extra=OFTEN),
    Reader("java", "java-cooperative", ("orders",), LATE, EARLY, COOPERATIVE, OFTEN),
    Reader("kafkajs", "kafkajs-classic", ("clicks",)),
    Reader("kafkajs", "kafkajs-classic", ("clicks",), begin=LATE),
    Reader("rust", "rust-cooperative", ("clicks",), strategy=COOPERATIVE, extra=OFTEN),
    Reader("rust", "rust-cooperative", ("clicks",), begin=LATE, strategy=COOPERATIVE, extra=OFTEN),
    Reader("sarama", "sarama-classic", ("payments", "enriched")),
    Reader("sarama", "sarama-classic", ("payments", "enriched"), begin=LATE),
    Reader("rust", "rust-kip848", ("payments",), extra=KIP848),
    Reader("rust", "rust-kip848", ("payments",), end=EARLY, extra=KIP848),
    Reader("java", "java-kip848", ("payments",), extra=KIP848),
    Reader("java", "java-kip848", ("payments",), begin=LATE, extra=KIP848),
    Reader("java", "java-transform", ("clicks", "enriched"), role="transform"),
)
GROUPS = tuple(dict.fromkeys(reader.group for reader in READERS))


def record(folder: Path, seconds: float) -> None:
    """Record the clients for so many seconds of writing, and write what their cluster had in the end."""
    works.build()
    works.rust_program()
    with KraftCluster(CURRENT, BROKERS, CONSUMER_PROTOCOL, request_log=False) as cluster:
        for name, partitions in TOPICS.items():
            cluster.create_topic(name, partitions, BROKERS, {})
        with Capture(folder / CAPTURE, cluster.client_ports):
            _converse(cluster.bootstrap, seconds, folder)
        _write_truth(folder / TRUTH, cluster)


def _converse(bootstrap: str, seconds: float, folder: Path) -> None:
    """Run all clients; each reader begins and ends at its part of the time."""
    logs = folder / "clients"
    logs.mkdir(exist_ok=True)
    begin = time.monotonic()
    members: dict[int, Child] = {}
    events = sorted(
        (share * seconds, number, starts)
        for number, reader in enumerate(READERS)
        for share, starts in ((reader.begin, True), (reader.end, False))
        if share < 1
    )
    writers = [works.start(work, (), logs) for work in _writers(bootstrap, seconds)]
    for at_s, number, starts in events:
        time.sleep(max(0.0, begin + at_s - time.monotonic()))
        if starts:
            members[number] = works.start(READERS[number].work(number, bootstrap), (), logs)
        else:
            members.pop(number).stop()
    for writer in writers:
        _wait(writer, seconds)
    time.sleep(REST_S)
    for member in members.values():
        member.stop()
    time.sleep(1)  # the last connections close


def _wait(writer: Child, seconds: float) -> None:
    """Wait until a writer has ended by itself. That of kafkajs stays connected, and is asked to end."""
    assert writer.process is not None
    if writer.name.startswith("kafkajs"):
        time.sleep(seconds / 10)
        writer.stop()
    else:
        writer.process.wait(seconds + 60)


def _write_truth(path: Path, cluster: KraftCluster) -> None:
    both = {
        isolation: contents.read_contents(cluster.bootstrap, list(TOPICS), isolation)
        for isolation in contents.ISOLATIONS
    }
    found = {"contents": both, "commits": contents.read_commits(cluster.bootstrap, GROUPS)}
    path.write_text(json.dumps(found))


def read_truth(folder: Path) -> tuple[dict[str, Contents], Commits]:
    """Return the contents by isolation, and the commits, of a recorded cluster."""
    found = json.loads((folder / TRUTH).read_text())
    both = {
        isolation: {where: [Seen(*each) for each in records] for where, records in partitions.items()}
        for isolation, partitions in found["contents"].items()
    }
    return both, found["commits"]
