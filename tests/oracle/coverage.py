"""Comparison of a Kafka release with kdissect's schema: messages, versions, and the fields of
each.

In: the catalogue that KafkaMessages.java makes of the release. Out: the `Pair`s that both know, which can be
compared by bytes, and what only one of them knows. Fields are compared by position, type, array, null and
tag. Names are not: Kafka renames fields between releases, and bytes carry no names.

Kafka adds tagged fields to versions that are already in use (KIP-482). An older release lacks them, so for
that release they are unknown tags: the message of a `Pair` is without them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from kdissect.protocol.schema.definition import Field, Message, fields_at
from kdissect.protocol.schema.registry import APIS, MESSAGES

# Messages without an API: Kafka's class, our name.
PLAIN = {
    "ConsumerProtocolAssignment": "ConsumerProtocolAssignment",
    "ConsumerProtocolSubscription": "ConsumerProtocolSubscription",
    "ControlRecordTypeSchema": "ControlRecordType",
    "DefaultPrincipalData": "DefaultPrincipalData",
    "EndTxnMarker": "EndTxnMarker",
    "KRaftVersionRecord": "KRaftVersion",
    "LeaderChangeMessage": "LeaderChange",
    "RequestHeaderData": "RequestHeader",
    "ResponseHeaderData": "ResponseHeader",
    "SnapshotFooterRecord": "SnapshotFooter",
    "SnapshotHeaderRecord": "SnapshotHeader",
    "VotersRecord": "Voters",
}

# Versions that were changed after releases had shipped them unused: message and version, and the first
# release as of now.
DRAFTS = {
    ("ConsumerGroupDescribeResponse", 0): (3, 8),
    ("LeaderChange", 0): (3, 0),
    ("ReadShareGroupStateSummaryResponse", 0): (4, 1),
}


@dataclass(frozen=True, slots=True)
class Pair:
    """A message in a version that both sides know."""

    group: str  # the API, or the message that has none
    message: Message
    version: int
    class_name: str


@dataclass(slots=True)
class Coverage:
    """Facts that both sides know, and those that only one knows, as lines of text."""

    pairs: list[Pair] = field(default_factory=list)
    only_release: list[str] = field(default_factory=list)
    only_kdissect: list[str] = field(default_factory=list)
    other_fields: list[str] = field(default_factory=list)  # a version in which the fields differ
    drafts: list[str] = field(default_factory=list)  # a version in which they are known to differ


def coverage(catalogue: dict[str, Any], release: str) -> Coverage:
    """Compare the catalogue of a release with the schema."""
    found = Coverage()
    seen: set[str] = set()
    for entry in catalogue["messages"]:
        versions = {int(version): fields for version, fields in entry["versions"].items()}
        message = _message(entry)
        known = set(message.versions) if message else set()
        found.only_release += _listed(entry["class"], versions.keys() - known)
        if message:
            seen.add(message.name)
            found.only_kdissect += _listed(message.name, known - versions.keys())
            _add_pairs(found, entry, message, versions, catalogue["exact_nulls"], release)
    for message in (message for api in APIS.values() for message in (api.request, api.response)):
        if message.name not in seen:
            found.only_kdissect += _listed(message.name, message.versions)
    return found


def _message(entry: dict[str, Any]) -> Message | None:
    if entry["api_key"] < 0:
        return MESSAGES[PLAIN[entry["class"]]]
    api = APIS.get(entry["api_key"])
    return getattr(api, entry["direction"]) if api else None


def _add_pairs(
    found: Coverage,
    entry: dict[str, Any],
    message: Message,
    versions: dict[int, list[Any]],
    exact_nulls: bool,
    release: str,
) -> None:
    group = APIS[entry["api_key"]].name if entry["api_key"] >= 0 else message.name
    for version in sorted(versions.keys() & set(message.versions)):
        spoken = replace(message, fields=_spoken(message, version, versions[version]))
        differing = _differing_field(spoken, version, versions[version], exact_nulls)
        if differing is None:
            found.pairs.append(Pair(group, spoken, version, entry["class"]))
            continue
        final = DRAFTS.get((message.name, version), (0, 0))
        lines = found.drafts if release_number(release) < final else found.other_fields
        lines.append(f"{message.name} version {version}: {differing}")


def release_number(release: str) -> tuple[int, ...]:
    """Return the first two numbers of a release."""
    return tuple(map(int, re.findall(r"\d+", release)[:2]))


def _listed(name: str, versions: Iterable[int]) -> list[str]:
    return [f"{name} {version_ranges(versions)}"] if versions else []


def version_ranges(versions: Iterable[int]) -> str:
    """Write 0, 1, 2, 5 as 0-2, 5."""
    runs: list[list[int]] = []
    for version in sorted(versions):
        if runs and version == runs[-1][-1] + 1:
            runs[-1].append(version)
        else:
            runs.append([version])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _spoken(owner: Message | Field, version: int, theirs: list[Any]) -> tuple[Field, ...]:
    """Return the fields of a struct without tagged ones that the release lacks in this version."""
    tags = {tag for _, tag, *_ in theirs}
    present = [mine for mine in fields_at(owner, version) if mine.tag is None or mine.tag in tags]
    inner = {mine.name: other[-1] for mine, other in zip(present, theirs, strict=False)}
    return tuple(
        replace(mine, fields=_spoken(mine, version, inner.get(mine.name, [])))
        for mine in owner.fields
        if version not in mine.versions or mine.name in inner
    )


def _differing_field(
    owner: Message | Field, version: int, theirs: list[Any], exact_nulls: bool
) -> str | None:
    """Describe the first field that differs; return None if there is no such field."""
    ours = fields_at(owner, version)
    for mine, (name, tag, kind, nullable, array, inner) in zip(ours, theirs, strict=False):
        null = version in mine.nullable
        if not array and mine.type in ("struct", "records") and not exact_nulls:
            null = nullable
        here = (mine.tag, _plain_type(mine.type), null, mine.array)
        there = (tag, _plain_type(kind), nullable, array)
        if here != there:
            return f"{mine.name} is {_described(*here)}, Kafka's {name} is {_described(*there)}"
        if deeper := _differing_field(mine, version, inner, exact_nulls):
            return f"{mine.name}: {deeper}"
    if len(ours) != len(theirs):
        return f"{len(ours)} fields in {owner.name}, Kafka has {len(theirs)}"
    return None


def _plain_type(kind: str) -> str:
    """Return a type as both sides know it; records are bytes, and every length of a string is a string."""
    plain = kind.removeprefix("COMPACT_").removeprefix("NULLABLE_").lower()
    return {"boolean": "bool", "int16_string": "string", "records": "bytes"}.get(plain, plain)


def _described(tag: int | None, kind: str, nullable: bool, array: bool) -> str:
    tagged = "" if tag is None else f" under tag {tag}"
    return f"{'[]' * array}{kind}{'?' * nullable}{tagged}"
