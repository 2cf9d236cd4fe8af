"""Names replaced so that a report can be given away: hosts, client ids, topics, groups, transactional ids, capture files.

A name becomes its kind and eight hexadecimal digits of a keyed hash, `topic-3f2a91c0`: the same wherever it stands, so that
everything that belongs together still does, and without the key nobody can try names until one fits. The key is random in
each run unless one is given. It is done to the batches of the tables, before anything is added up or written: what comes
after never sees the names. What no name of the user's stays: ports, sizes, times, packet numbers, errors, versions, client
software, Kafka's own topics. Faults and findings are made of those and of replaced names.
"""

import base64
import hashlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath

import pyarrow as pa

DIGITS = 8
OWN_TOPICS = frozenset(
    ("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata")
)
OWN_TOPIC_IDS = frozenset(("AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAA"))
MECHANISMS = frozenset(("PLAIN", "GSSAPI", "OAUTHBEARER", "SCRAM-SHA-256", "SCRAM-SHA-512"))
LOOPBACK = frozenset(("localhost", "127.0.0.1", "::1"))
"""Three names of one host: brokers advertise one and are reached by another."""

KINDS: Mapping[str, Mapping[str, str]] = {
    "connections": {
        "client_host": "host",
        "server_host": "host",
        "client_id": "client",
        "sasl_mechanism": "mechanism",
        "tls_sni": "host",
    },
    "exchanges": {
        "client_id": "client",
        "group_id": "group",
        "transactional_id": "transaction",
        "capture_file": "capture",
    },
    "partitions": {"topic": "topic", "topic_id": "topic_id"},
    "names": {"topic": "topic", "topic_id": "topic_id"},
    "brokers": {"host": "host"},
    "ends": {"client_host": "host", "server_host": "host"},
    "group_events": {
        "client_id": "client",
        "group_id": "group",
        "member_id": "member",
        "instance_id": "instance",
        "reason": "reason",
        "capture_file": "capture",
    },
    "transaction_events": {
        "client_id": "client",
        "transactional_id": "transaction",
        "group_id": "group",
        "capture_file": "capture",
    },
}
"""Columns with names, by table, and what kind of name they hold."""

NUMBER = "connection"


@dataclass(frozen=True, slots=True)
class Pseudonyms:
    """The replacements under one key."""

    key: bytes

    @classmethod
    def new(cls, key: str | None = None) -> "Pseudonyms":
        """Take a key, or make one that nobody knows."""
        return cls(secrets.token_bytes(32) if key is None else hashlib.blake2b(key.encode()).digest())

    def name(self, kind: str, name: str | None) -> str | None:
        """Give what stands for a name."""
        if not name or _stays(kind, name):
            return name
        if kind == "host" and name in LOOPBACK:
            name = min(LOOPBACK)
        digest = hashlib.blake2b(
            f"{kind}\0{name}".encode("utf-8", "surrogatepass"), key=self.key[:64], digest_size=16
        )
        if kind == "topic_id":
            return base64.urlsafe_b64encode(digest.digest()).decode().rstrip("=")
        suffix = "".join(PurePath(name).suffixes[-2:]) if kind == "capture" else ""
        known = (
            suffix if suffix.removesuffix(".gz").removesuffix(".zst") in (".pcap", ".pcapng", ".cap") else ""
        )
        return f"{kind}-{digest.hexdigest()[:DIGITS]}{known}"

    def number(self, number: int) -> int:
        """Give what stands for the number of a connection, which is a hash of addresses and so would tell them to who tries."""
        digest = hashlib.blake2b(f"connection\0{number}".encode(), key=self.key[:64], digest_size=8)
        return int.from_bytes(digest.digest()) >> 12

    def tables(self, tables: Mapping[str, pa.RecordBatch]) -> dict[str, pa.RecordBatch]:
        """Replace the names in batches of the tables."""
        return {name: self._batch(batch, KINDS.get(name, {})) for name, batch in tables.items()}

    def _batch(self, batch: pa.RecordBatch, kinds: Mapping[str, str]) -> pa.RecordBatch:
        for column, kind in kinds.items():
            coded = batch[column].dictionary_encode()
            names = [self.name(kind, name) for name in coded.dictionary.to_pylist()]
            replaced = pa.array(names, pa.string()).take(coded.indices)
            batch = _with(batch, column, replaced)
        if NUMBER in batch.schema.names:
            coded = batch[NUMBER].dictionary_encode()
            numbers = [
                number if number is None else self.number(number) for number in coded.dictionary.to_pylist()
            ]
            batch = _with(batch, NUMBER, pa.array(numbers, pa.int64()).take(coded.indices))
        return batch

    def texts(self, texts: Iterable[str], files: Iterable[str]) -> tuple[str, ...]:
        """Replace the names of capture files in sentences about them."""
        names = sorted(
            {part for file in files for part in (file, PurePath(file).name)}, key=len, reverse=True
        )
        replaced = []
        for text in texts:
            for name in names:
                text = text.replace(name, self.name("capture", name) or "")
            replaced.append(text)
        return tuple(replaced)

    def asked(self, option: str, value: str) -> str:
        """Give what stands for the value of a filter; a pattern is not told."""
        kind = {"--client": "client", "--topic": "topic", "--group": "group", "--broker": "host"}.get(option)
        if kind is None or (kind == "host" and value.isdecimal()):
            return value
        if any(sign in value for sign in "*?["):
            return "(a pattern)"
        host, colon, port = value.rpartition(":")
        if kind == "host" and colon and port.isdecimal():
            return f"{self.name(kind, host.strip('[]'))}:{port}"
        return self.name(kind, value) or ""


def _with(batch: pa.RecordBatch, column: str, values: pa.Array) -> pa.RecordBatch:
    return batch.set_column(batch.schema.get_field_index(column), batch.schema.field(column), values)


def _stays(kind: str, name: str) -> bool:
    return name in {"topic": OWN_TOPICS, "topic_id": OWN_TOPIC_IDS, "mechanism": MECHANISMS}.get(
        kind, frozenset()
    )
