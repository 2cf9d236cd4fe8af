"""Work of one client, in words that the programs of every language understand, and how it is started.

A `Work` travels as a JSON file. The programs go on until they are ended and log to a file what failed;
none of them ever gives up by itself. Programs in Go, Rust and Node are built on demand into the cache folder
of the lab, with the versions that their module files name."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.lab.java_compiler import compiled
from tests.lab.maven import Release, cache_folder, classpath, need
from tests.lab.process import SMALL_JVM, Child
from tests.lab.releases import CURRENT, EARLIER

_CLIENTS = Path(__file__).parents[1] / "clients"
_TEMPLATES = Path(__file__).parents[1] / "templates"
_CHECKOUT = Path(__file__).parents[3]

PYTHON = ("librdkafka", "kafka-python", "aiokafka")
GO = ("franz-go", "sarama")
RUST = "rust"
EVERY = (*PYTHON, *GO, "kafkajs", "java")  # of which scenarios choose


@dataclass(slots=True)
class Work:
    """One client's work. A number of 0 and an empty text mean the library's own default."""

    client_id: str
    role: str  # produce | consume | transact | transform, share (Java) | list | connect
    bootstrap: str
    library: str = "librdkafka"
    topics: list[str] = field(default_factory=list)
    per_second: float = 25.0  # records, transactions, listings or connections
    burst: int = 1  # records sent together before the next pause
    records: int = 0  # how many in all; 0: until it is ended
    value_bytes: int = 200
    linger_ms: int = 5
    acks: str = "all"
    compression: str = "none"
    key: str = ""  # the one key of all records; none: a key for each
    keyless: bool = False  # records have no key (clients in Python)
    idempotent: bool = False
    timestamp_offset_ms: int = 0  # how far from now the records are dated
    timeout_ms: int = 0  # of a request
    delivery_ms: int = 0  # how long a record is tried
    transactional_id: str = ""
    in_transaction: int = 3  # records
    hold_s: float = 0  # how long each transaction stays open
    abort_every: int = 0  # every so manieth transaction is aborted
    group: str = ""
    instance_id: str = ""
    rest_ms: float = 0.0  # of a consumer, after each record
    stall_after: int = 0  # records after which a consumer rests once, for stall_ms
    stall_ms: float = 0.0
    poison_after: int = 0  # records after which a consumer fails at one, again and again; a sharer at all
    commit_each: int = 0  # records after which a consumer commits (librdkafka); 0: the library decides
    session_ms: int = 0
    poll_ms: int = 0  # the longest time between two polls
    strategy: str = ""  # range | roundrobin | sticky | cooperative-sticky
    reset: str = "earliest"
    user: str = ""
    password: str = ""
    mechanism: str = "PLAIN"
    tls: bool = False
    authority: str = ""  # the file with the certificate that is trusted; none: what the system trusts
    name: str = ""  # the client software's name and version, where the library lets one set it
    version: str = ""
    extra: dict[str, object] = field(default_factory=dict)  # the library's own settings, in its own words


def start(work: Work, before: Sequence[str], folder: Path, release: Release = CURRENT) -> Child:
    """Start a client on the host whose commands begin with `before`; return its process."""
    serial = len(list(folder.glob("*.job")))
    path = folder / f"{serial:02d}-{work.client_id}.job"
    path.write_text(json.dumps(asdict(work), indent=1))
    environment = dict(os.environ)
    if work.library in PYTHON:
        command = [sys.executable, "-m", "tests.lab.clients.worker", str(path)]
        environment["PYTHONPATH"] = str(_CHECKOUT)
    elif work.library in GO:
        command = [str(go_program()), str(path)]
    elif work.library == RUST:
        command = [str(rust_program()), str(path)]
    elif work.library == "kafkajs":
        command = ["node", str(node_program()), str(path)]
    elif work.library == "java":
        command = _java(work, release)
    else:
        raise ValueError(work.library)
    return Child(
        work.client_id, [*before, *command], path.with_suffix(".log"), environment, patience=20
    ).start()


def build() -> None:
    """Build the programs of all languages that the cache does not have."""
    go_program()
    node_program()
    for release in (CURRENT, EARLIER):
        compiled(release, _CLIENTS / "java" / "LabClient.java")


@functools.cache
def go_program() -> Path:
    """Return the Go program, built first if the cache does not have it."""
    need("go")
    return _built(_CLIENTS / "go", "client", [["go", "build", "-o", "client", "."]])


@functools.cache
def rust_program() -> Path:
    """Return the Rust program, built first if the cache does not have it; that takes some minutes."""
    need("cargo", "cc", "make")
    commands = [
        ["cargo", "build", "--release", "--locked", "--quiet"],
        ["cp", "target/release/client", "client"],
    ]
    return _built(_CLIENTS / "rust", "client", [*commands, ["rm", "-r", "target"]])


@functools.cache
def node_program() -> Path:
    """Return the Node program beside its installed packages."""
    need("node", "npm")
    return _built(_CLIENTS / "node", "client.js", [["npm", "ci", "--no-audit", "--no-fund", "--silent"]])


def _built(source: Path, result: str, commands: list[list[str]]) -> Path:
    files = sorted(p for p in source.iterdir() if p.is_file())
    files += sorted(source.glob("src/*"))
    digest = hashlib.sha256(b"".join(p.read_bytes() for p in files)).hexdigest()[:12]
    folder = cache_folder() / "clients" / f"{source.name}-{digest}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{source.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            scratch = folder.with_suffix(".building")
            shutil.rmtree(scratch, ignore_errors=True)
            shutil.copytree(source, scratch)
            for command in commands:
                subprocess.run(command, cwd=scratch, check=True)
            scratch.rename(folder)
    return folder / result


def _java(work: Work, release: Release) -> list[str]:
    config: dict[str, object] = {"linger.ms": work.linger_ms, "compression.type": work.compression}
    if work.role == "share":
        config, optional = {"group.id": work.group}, {}
    elif work.role == "consume":
        config = {"auto.offset.reset": work.reset, "group.id": work.group}
        if work.strategy:
            strategies = {
                "range": "RangeAssignor",
                "roundrobin": "RoundRobinAssignor",
                "sticky": "StickyAssignor",
            }
            name = strategies.get(work.strategy, "CooperativeStickyAssignor")
            config["partition.assignment.strategy"] = f"org.apache.kafka.clients.consumer.{name}"
        optional = {
            "session.timeout.ms": work.session_ms,
            "heartbeat.interval.ms": work.session_ms // 3,
            "max.poll.interval.ms": work.poll_ms,
            "group.instance.id": work.instance_id,
        }
    else:
        config |= {
            "acks": work.acks,
            "enable.idempotence": str(work.idempotent or bool(work.transactional_id)).lower(),
        }
        optional = {"delivery.timeout.ms": work.delivery_ms, "transactional.id": work.transactional_id}
    optional["request.timeout.ms"] = work.timeout_ms
    if work.user:
        module = "plain.Plain" if work.mechanism == "PLAIN" else "scram.Scram"
        optional |= {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": work.mechanism,
            "sasl.jaas.config": f"org.apache.kafka.common.security.{module}LoginModule required "
            f'username="{work.user}" password="{work.password}";',
        }
    if work.tls:
        optional |= {"security.protocol": "SSL"}
        if work.authority:
            optional |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": work.authority}
    config |= {name: value for name, value in optional.items() if value} | work.extra
    words = {
        "client_id": work.client_id,
        "role": work.role,
        "bootstrap": work.bootstrap,
        "topics": ",".join(work.topics),
        "records": str(work.records or 1 << 30),
        "per_second": str(work.per_second * (work.in_transaction if work.role == "transact" else 1)),
        "burst": str(work.in_transaction if work.role == "transact" else work.burst),
        "value_bytes": str(work.value_bytes),
        "rest_ms": str(int(work.rest_ms)),
        "poison_after": str(work.poison_after),
        "key": work.key,
        "group": work.group,
        "release": release.version,
        "outcome": os.devnull,
        **{f"config:{name}": str(value) for name, value in config.items()},
    }
    logging = f"-Dlog4j2.configurationFile={_TEMPLATES / 'quiet-log4j2.xml'}"
    path = classpath(release, compiled(release, _CLIENTS / "java" / "LabClient.java"))
    return ["java", *SMALL_JVM, logging, "-cp", path, "LabClient", *(f"{k}={v}" for k, v in words.items())]
