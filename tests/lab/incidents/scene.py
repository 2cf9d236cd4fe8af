"""View of a scenario: a cluster, hosts, clients, chance, and the truth that it writes.

A scenario is a function of a `Scene`. It prepares (topics, background), calls `roll` from which moment on
packets are recorded, waits, does the harm, and notes it with `blame`. It mends by `later` what it breaks.

The truth is a JSON text beside the capture. Times are nanoseconds since the epoch, UTC:

    scenario, seed      which function, with which chance
    cause               the cause that the first line of a report should name; absent where all is well
    healthy             whether nothing is wrong
    subject             {kind, name, …}: who it is about, in the words that a report could use
    names               words of which one must stand in the first line for the culprit to be named
    onset_ns, end_ns    when it began and ended (null: it lasts to the end); a client that was started for it
                        begins with its first packet
    seen_later_s        how much later it can be seen first, where others notice only then
    twin_of             the scenario that looks alike and is not it
    place               hosts (addresses of their own, recorded at `at`) or loopback
    begin_ns, stop_ns   of the recording
    snaplen             how many bytes were kept of each packet (0: all)
    clients             who took part: client id, library, role, host
"""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.lab.incidents import network as networks
from tests.lab.incidents import work as works
from tests.lab.incidents.brokers import Broker, Brokers
from tests.lab.incidents.first_packet import Mark, first_packet_ns
from tests.lab.incidents.network import Hosts, Way
from tests.lab.incidents.work import Work
from tests.lab.maven import Release
from tests.lab.process import Child
from tests.lab.releases import CURRENT

THINGS = (
    "orders",
    "payments",
    "clicks",
    "invoices",
    "shipments",
    "prices",
    "sessions",
    "alerts",
    "readings",
    "carts",
    "users",
    "emails",
    "trades",
    "audit",
    "stock",
    "returns",
    "scores",
    "jobs",
    "views",
    "tickets",
)
TEAMS = (
    "billing",
    "search",
    "fraud",
    "ledger",
    "mailer",
    "reports",
    "mobile",
    "edge",
    "import",
    "export",
    "pricing",
)
PRODUCERS = ("librdkafka", "kafka-python", "aiokafka", "franz-go", "sarama", "kafkajs", "java")


@dataclass
class Scene:
    """One recording of one scenario."""

    name: str
    seed: int
    place: networks.Network
    brokers: Brokers
    folder: Path
    capture: Path
    taken: set[str]  # names of topics and groups that this cluster has seen
    twin_of: str = ""
    healthy: bool = False
    truth: dict[str, Any] = field(default_factory=dict)
    clients: list[tuple[Work, Child]] = field(default_factory=list)
    topics: list[str] = field(default_factory=list)
    after: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    record_at: str = ""  # a host beside which to record; none: at the switch
    only_host: str = ""  # where all clients are; none: anywhere
    with_controllers: bool = False
    snaplen: int = 0  # bytes that are kept of each packet; 0: all
    late_s: float = 0  # how long after the onset the capture begins; 0: before it
    early_s: float = 0  # how long after the onset can be seen the capture ends; 0: when the scene does
    way: Way | None = None
    shown_by: Mark | None = None  # the packet that dates the incident; none: the moment that was noted
    _recorder: Any = None

    def __post_init__(self) -> None:
        # Text as a seed gives the same numbers in every process.
        self.random = random.Random(f"{self.name} {self.seed}")

    # --- who and where ---

    @property
    def on_hosts(self) -> bool:
        return isinstance(self.place, Hosts)

    def pick(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def between(self, low: float, high: float) -> float:
        return self.random.uniform(low, high)

    def host(self) -> str:
        return self.only_host or str(self.random.choice(self.place.hosts))

    def broker(self) -> Broker:
        return self.random.choice(self.brokers.all)

    def fresh(self, *vocabularies: tuple[str, ...]) -> str:
        """Return a name that this cluster has not seen, made of one word of each vocabulary."""
        for number in range(1000):
            words = [self.random.choice(words) for words in vocabularies]
            name = "-".join(words) + (f"-{self.random.randint(2, 9)}" if number > 20 else "")
            if name not in self.taken:
                self.taken.add(name)
                return name
        raise RuntimeError("no name is left")

    def topic(self, partitions: int = 6, replicas: int = 3, name: str = "", **config: Any) -> str:
        name = name or self.fresh(THINGS, ("eu", "us", "v2", "raw", "main", "daily", "asia", "old", "web"))
        self.brokers.create_topic(name, partitions, replicas, **config)
        self.topics.append(name)
        return name

    def group(self) -> str:
        return self.fresh(TEAMS, ("readers", "workers", "group", "sink", "loader", "jobs"))

    def client_id(self) -> str:
        return self.fresh(
            TEAMS, ("api", "svc", "worker", "sync", "app", "feed", "agent"), ("1", "2", "3", "a", "b")
        )

    # --- clients ---

    def start(
        self, role: str, library: str = "", host: str = "", release: Release = CURRENT, **fields: Any
    ) -> tuple[Work, Child]:
        """Start a client; the fields are those of `Work`."""
        host = host or self.host()
        library = library or self.pick(*PRODUCERS)
        fields.setdefault("client_id", self.client_id())
        fields.setdefault("bootstrap", self.brokers.bootstrap("CLIENT"))
        if role == "consume":
            fields.setdefault("group", self.group())
        work = Work(role=role, library=library, **fields)
        child = works.start(work, self.place.command(host), self.folder, release)
        self.clients.append((work, child))
        self.truth.setdefault("clients", []).append(
            {
                "client_id": work.client_id,
                "library": library,
                "role": role,
                "host": self.place.address(host),
                "topics": work.topics,
                "group": work.group,
            }
        )
        return work, child

    def stop(self, client: tuple[Work, Child], orderly: bool = True) -> int:
        (client[1].stop if orderly else client[1].kill)()
        return time.time_ns()

    def background(
        self, topics: list[str] | None = None, producers: int = 2, consumers: int = 2
    ) -> list[str]:
        """Start clients of several languages that have nothing to do with the matter; return their topics."""
        topics = topics or [self.topic() for _ in range(self.pick(1, 2))]
        for number in range(producers):
            self.start(
                "produce",
                topics=[topics[number % len(topics)]],
                per_second=self.pick(5, 8, 12),
                value_bytes=self.pick(120, 250, 400),
                acks=self.pick("all", "all", "1"),
                linger_ms=self.pick(0, 5, 20),
                idempotent=self.pick(True, False),
            )
        for number in range(consumers):
            library = self.pick(
                "librdkafka", "aiokafka", "franz-go", "sarama", "kafkajs", "java", "kafka-python"
            )
            self.start("consume", library, topics=[topics[number % len(topics)]])
        return topics

    # --- what happens ---

    def roll(self, settle: float = 0.0) -> None:
        """Record from now on; `settle` seconds before that let clients find their places."""
        time.sleep(settle)
        raw = self.capture.with_suffix(".recording")
        at = self.record_at
        if not self.on_hosts and self.seed % 2 == 0:
            at = "internal"
        self._recorder = self.place.record(raw, at, self.with_controllers, self.snaplen)
        self.truth |= {"begin_ns": time.time_ns(), "snaplen": self.snaplen}
        self.truth["at"] = at or ("switch" if self.on_hosts else "lo")

    def opening(self, settle: float = 6.0) -> None:
        """Begin to record, by chance before the clients started or when they run already."""
        self.roll(settle if self.random.random() < 0.35 else 0.0)

    def wait(self, low: float, high: float | None = None) -> None:
        time.sleep(low if high is None else self.between(low, high))

    def cut(self) -> None:
        """End the recording, whatever clients are doing."""
        if self._recorder is not None:
            self.truth["stop_ns"] = time.time_ns()
            networks.finish(self._recorder)
            self._recorder = None

    def later(self, action: Callable[..., Any], *arguments: Any) -> None:
        """Do this when the recording has ended."""
        self.after.callback(action, *arguments)

    def way_to(self, host: str) -> Way:
        assert isinstance(self.place, Hosts)
        self.way = self.after.enter_context(self.place.way_to(host))
        return self.way

    # --- the truth ---

    def blame(
        self, cause: str, subject: dict[str, Any], names: list[str], onset: int | None = None, **more: Any
    ) -> None:
        """Note what the first line of a report should name, and when it began: now, unless said otherwise."""
        self.truth |= {
            "cause": cause,
            "subject": subject,
            "names": names,
            "onset_ns": onset or time.time_ns(),
        }
        self.truth |= {"end_ns": None} | more

    def blame_broker(self, cause: str, broker: Broker, onset: int | None = None, **more: Any) -> None:
        subject = {"kind": "server", "id": broker.number, "address": broker.address, "name": broker.name}
        self.blame(cause, subject, [broker.address, f"broker {broker.number}"], onset, **more)

    def blame_client(self, cause: str, work: Work, onset: int | None = None, **more: Any) -> None:
        subject = {"kind": "client", "name": work.client_id, "group": work.group, "library": work.library}
        self.blame(cause, subject, [work.client_id, *more.pop("also", [])], onset, **more)

    def blame_started(self, cause: str, work: Work, onset: int | None = None, **more: Any) -> None:
        """Note that a client does harm from its first request on, which names it, or from its first SYN to
        the ports `opened_to` where nothing can be read."""
        opened_to, texts = more.pop("opened_to", ()), more.pop("texts", (work.client_id,))
        self.blame_client(cause, work, onset, **more)
        host = next(c["host"] for c in self.truth["clients"] if c["client_id"] == work.client_id)
        self.shown_by = Mark((), host, opened_to) if opened_to else Mark(texts)

    def log_of(self, work: Work) -> list[str]:
        """Return what a client has printed until now."""
        return [
            line
            for other, child in self.clients
            if other is work
            for line in child.output.read_text(errors="replace").splitlines()
        ]

    def ended(self, moment: int | None = None) -> None:
        self.truth["end_ns"] = moment or time.time_ns()

    def write(self) -> None:
        if self.truth.pop("begins_with_loss", False):
            assert self.way is not None
            self.truth["onset_ns"] = self.way.counted["first_lost_ns"]
        if self.shown_by is not None:
            raw, noted = self.capture.with_suffix(".recording"), self.truth["onset_ns"]
            self.truth["onset_ns"] = first_packet_ns(raw, self.shown_by, noted) or noted
        self.trim()
        base = {
            "scenario": self.name,
            "seed": self.seed,
            "cause": None,
            "healthy": self.healthy,
            "subject": None,
        }
        base |= {"names": [], "onset_ns": None, "end_ns": None, "twin_of": self.twin_of or None}
        base |= {"place": "hosts" if self.on_hosts else "loopback"}
        base |= {"brokers": [{"id": b.number, "address": b.address} for b in self.brokers.all]}
        text = json.dumps(base | self.truth, indent=1) + "\n"
        self.capture.with_suffix(".json").write_text(text)

    def trim(self) -> None:
        """Have the capture begin late or end early; where all is well, so long after its beginning."""
        truth = self.truth
        onset = truth.get("onset_ns") or truth["begin_ns"]
        if self.late_s:
            truth["begin_ns"] = onset + int(self.late_s * 1e9)
            if truth.get("onset_ns"):
                truth["onset_ns"] = truth["begin_ns"]
        if self.early_s:
            seen = onset + int((truth.get("seen_later_s", 0) + self.early_s) * 1e9)
            truth["stop_ns"] = min(seen, truth["stop_ns"])


@dataclass(frozen=True, slots=True)
class Scenario:
    """One row of the table: the function, and what it needs."""

    name: str
    function: Callable[[Scene], None]
    twin_of: str = ""
    healthy: bool = False
    place: str = ""  # "hosts" where ways to hosts are harmed, "loopback", or either
    settings: tuple[tuple[str, str], ...] = ()  # of brokers that were started for it alone


SCENARIOS: dict[str, Scenario] = {}


def scenario(name: str, **more: Any) -> Callable[[Callable[[Scene], None]], Callable[[Scene], None]]:
    """Put a function into the table."""

    def register(function: Callable[[Scene], None]) -> Callable[[Scene], None]:
        SCENARIOS[name] = Scenario(name, function, **more)
        return function

    return register


def chosen(names: list[str]) -> Iterator[Scenario]:
    """Yield the scenarios of these names, or all, in the order of the table."""
    yield from (SCENARIOS[name] for name in names) if names else SCENARIOS.values()
