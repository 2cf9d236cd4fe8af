"""Names replaced by pseudonyms, so that a report can be given away.

Names are those of hosts, clients, topics, groups, members, transactions and capture files.

In come batches of the tables as soon as they are made, out go the same batches under other names: nothing
that is added up or written later has seen the names.

A pseudonym is the kind of the name and eight hexadecimal digits of a keyed hash, such as `topic-3f2a91c0`. It
is the same wherever the name stands, so what belongs together still does. Without the key nobody can try
names until one fits. The key is random in each run unless the user gives one.

Everything else stays: ports, sizes, times, packet numbers, errors, versions, client software
and the topics of Kafka itself. Faults and findings are made of those and of pseudonyms.
"""

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Self

import pyarrow as pa

from kdissect.tables.column import PAYLOAD
from kdissect.tables.schemas import COLUMNS, RECORD_COLUMNS
from kdissect.text import LOOPBACK_HOSTS, format_address, format_uuid, parse_address

DIGITS = 8
OWN_TOPICS = frozenset(
    ("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata")
)
OWN_TOPIC_IDS = frozenset(("AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAA"))
MECHANISMS = frozenset(("PLAIN", "GSSAPI", "OAUTHBEARER", "SCRAM-SHA-256", "SCRAM-SHA-512"))

ROWS = {**COLUMNS, "records": RECORD_COLUMNS}
KINDS: Mapping[str, Mapping[str, str]] = {
    table: {column.name: column.names for column in columns if column.names and column.names != PAYLOAD}
    for table, columns in ROWS.items()
} | {
    "names": {"topic": "topic", "topic_id": "topic_id"},
    "brokers": {"host": "host"},
    "ends": {"client_host": "host", "server_host": "host"},
    "replica_sets": {"topic": "topic", "topic_id": "topic_id", "capture_file": "capture"},
    "share_acknowledgements": {
        "client_id": "client",
        "group_id": "group",
        "topic_id": "topic_id",
        "capture_file": "capture",
    },
    "tcp_steps": {"client_host": "host", "server_host": "host"},
    "tcp_spans": {"client_host": "host", "server_host": "host", "capture_file": "capture"},
}
"""Columns with names, by table, and the kind of name that they hold."""

LEFT_OUT: Mapping[str, tuple[str, ...]] = {
    table: tuple(column.name for column in columns if column.names == PAYLOAD)
    for table, columns in ROWS.items()
}
"""Columns with what producers wrote, by table: they become null."""

KEPT: Mapping[str, frozenset[str]] = {"topic": OWN_TOPICS, "topic_id": OWN_TOPIC_IDS, "mechanism": MECHANISMS}
"""Names that stay, by kind."""

FILTER_KINDS = {"--client": "client", "--topic": "topic", "--group": "group", "--broker": "host"}
"""Kinds of name by the filter that takes one."""

CAPTURE_SUFFIXES = frozenset((".pcap", ".pcapng", ".cap"))
NUMBER = "connection"


@dataclass(frozen=True, slots=True)
class Pseudonyms:
    """The pseudonyms under one key."""

    key: bytes = field(repr=False)

    @classmethod
    def new(cls, key: str | None = None) -> Self:
        """Return pseudonyms under the key that a user gave, or under a random one."""
        return cls(secrets.token_bytes(32) if key is None else hashlib.blake2b(key.encode()).digest())

    def name(self, kind: str, name: str | None) -> str | None:
        """Return the pseudonym of a name; None, an empty name and a name of Kafka itself stay."""
        if not name or name in KEPT.get(kind, ()):
            return name
        if kind == "host" and name in LOOPBACK_HOSTS:
            name = min(LOOPBACK_HOSTS)  # brokers advertise one and are reached by another
        digest = hashlib.blake2b(
            f"{kind}\0{name}".encode("utf-8", "surrogatepass"), key=self.key[:64], digest_size=16
        )
        if kind == "topic_id":
            return format_uuid(digest.digest())
        return f"{kind}-{digest.hexdigest()[:DIGITS]}{_capture_suffix(name) if kind == 'capture' else ''}"

    def number(self, number: int) -> int:
        """Return the pseudonym of the number of a connection.

        The number is a hash of addresses, so it would tell them to whoever tries addresses until one fits.
        """
        digest = hashlib.blake2b(f"connection\0{number}".encode(), key=self.key[:64], digest_size=8)
        return int.from_bytes(digest.digest()) >> 12

    def tables(self, tables: Mapping[str, pa.RecordBatch]) -> dict[str, pa.RecordBatch]:
        """Return batches of the tables with pseudonyms in place of names; other columns stay."""
        return {
            name: self._batch(_without(batch, LEFT_OUT.get(name, ())), KINDS.get(name, {}))
            for name, batch in tables.items()
        }

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
        """Return sentences about capture files with pseudonyms in place of the names of the files."""
        names = sorted(
            {part for file in files for part in (file, PurePath(file).name)}, key=len, reverse=True
        )
        replaced = []
        for text in texts:
            for name in names:
                text = text.replace(name, self.name("capture", name) or "")
            replaced.append(text)
        return tuple(replaced)

    def filter_value(self, option: str, value: str) -> str:
        """Return the pseudonym of the value of a filter, such as --topic; a pattern is withheld."""
        kind = FILTER_KINDS.get(option)
        if kind is None or (kind == "host" and value.isdecimal()):
            return value
        if any(sign in value for sign in "*?["):
            return "(a pattern)"
        if kind != "host":
            return self.name(kind, value) or ""
        try:
            host, port = parse_address(value)
        except ValueError:
            host, port = value, None
        return format_address(self.name(kind, host), port)


def _without(batch: pa.RecordBatch, columns: Iterable[str]) -> pa.RecordBatch:
    """Return a batch with nulls in columns of text."""
    for column in columns:
        batch = _with(batch, column, pa.nulls(batch.num_rows, pa.string()))
    return batch


def _with(batch: pa.RecordBatch, column: str, values: pa.Array) -> pa.RecordBatch:
    return batch.set_column(batch.schema.get_field_index(column), batch.schema.field(column), values)


def _capture_suffix(name: str) -> str:
    """Return the suffix of a capture file, such as .pcap.gz; nothing for another one, which may be a name."""
    suffix = "".join(PurePath(name).suffixes[-2:])
    return suffix if suffix.removesuffix(".gz").removesuffix(".zst") in CAPTURE_SUFFIXES else ""
