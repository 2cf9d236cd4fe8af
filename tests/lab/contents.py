"""Contents of a cluster and the committed offsets of its groups, as kafka-python sees them.

A record is known by its offset, by the client that wrote it (its key is `client-number`), and by a digest of
its key, value, headers and timestamp.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import kafka
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient

ISOLATIONS = ("read_uncommitted", "read_committed")
PATIENCE_MS = 20_000


class Seen(NamedTuple):
    """One record."""

    offset: int
    writer: str
    digest: str


Contents = dict[str, list[Seen]]  # by partition: `topic-number`
Commits = dict[str, dict[str, int]]  # by group and partition


def read_contents(bootstrap: str, topics: Sequence[str], isolation: str) -> Contents:
    """Return the records of all partitions of topics. Raise TimeoutError if a partition does not end."""
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap,
        client_id="observer",
        group_id=None,
        enable_auto_commit=False,
        isolation_level=isolation,
        auto_offset_reset="earliest",
    )
    found: Contents = {}
    try:
        wanted = [
            TopicPartition(topic, number)
            for topic in topics
            for number in sorted(consumer.partitions_for_topic(topic) or ())
        ]
        found = {_name(each): [] for each in wanted}
        ends = consumer.end_offsets(wanted)
        consumer.assign(wanted)
        consumer.seek_to_beginning(*wanted)
        while any(consumer.position(each) < ends[each] for each in wanted):
            records = consumer.poll(timeout_ms=PATIENCE_MS)
            if not records and any(consumer.position(each) < ends[each] for each in wanted):
                raise TimeoutError(f"{bootstrap} brings no more records of {', '.join(topics)}")
            for where, some in records.items():
                found[_name(where)] += map(_seen, some)
    finally:
        consumer.close()
    return found


def read_commits(bootstrap: str, groups: Sequence[str]) -> Commits:
    """Return the committed offsets of groups; a group that the cluster does not know has none."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap, client_id="observer")
    try:
        return {
            group: {_name(where): kept.offset for where, kept in _commits(admin, group).items()}
            for group in groups
        }
    finally:
        admin.close()


def _commits(admin: KafkaAdminClient, group: str) -> dict[TopicPartition, Any]:
    found = admin.list_group_offsets(group)
    return dict(found.get(group, {}))


def _name(where: TopicPartition) -> str:
    return f"{where.topic}-{where.partition}"


def _seen(record: Any) -> Seen:
    said = (record.key, record.value, record.headers, record.timestamp)
    writer = (record.key or b"").decode().rpartition("-")[0]
    return Seen(record.offset, writer, hashlib.sha256(repr(said).encode()).hexdigest()[:16])


def equal_partitions(expected: Contents, found: Contents) -> list[str]:
    """Return the partitions that have the same records in the same order from each writer."""
    return [
        where
        for where, records in expected.items()
        if _by_writer(records) == _by_writer(found.get(where, []))
    ]


def _by_writer(records: list[Seen]) -> dict[str, list[str]]:
    sequences: dict[str, list[str]] = defaultdict(list)
    for record in records:
        sequences[record.writer].append(record.digest)
    return sequences


def differing_commits(
    expected: Commits, contents: Contents, found: Commits, target: Contents
) -> dict[str, int]:
    """Return by how many records each commit differs that does; below 0 if it falls short."""
    differing = {}
    for group, partitions in expected.items():
        for where, offset in partitions.items():
            due = _records_before(contents[where], offset)
            reached = _records_before(target.get(where, []), found.get(group, {}).get(where, 0))
            if reached != due:
                differing[f"{group} {where}"] = reached - due
    return differing


def _records_before(records: list[Seen], offset: int) -> int:
    return sum(record.offset < offset for record in records)
