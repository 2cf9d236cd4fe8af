"""Kafka's own message definitions say the same as our schema: field by field, version by version.

Set KDISSECT_KAFKA_MESSAGES to a folder with Kafka's message JSON files
(clients/src/main/resources/common/message of its source), or with one such folder per release; without it
these tests are skipped. A message or version that Kafka has and we lack is a failure that names it.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kdissect.protocol.error_codes import ErrorCode, is_retriable
from kdissect.protocol.schema.definition import Field, Message
from kdissect.protocol.schema.registry import APIS, MESSAGES

FOLDER = os.environ.get("KDISSECT_KAFKA_MESSAGES", "")

pytestmark = pytest.mark.skipif(not FOLDER, reason="KDISSECT_KAFKA_MESSAGES is not set")

OTHER_NAMES = {
    "ListClientMetricsResourcesRequest": "ListConfigResourcesRequest",
    "ListClientMetricsResourcesResponse": "ListConfigResourcesResponse",
    "ControlRecordTypeSchema": "ControlRecordType",
    "LeaderChangeMessage": "LeaderChange",
    "SnapshotHeaderRecord": "SnapshotHeader",
    "SnapshotFooterRecord": "SnapshotFooter",
    "KRaftVersionRecord": "KRaftVersion",
    "VotersRecord": "Voters",
}

# Part of a broker's index of transactions.
ON_DISK = {"AbortedTxn"}

# Names of fields in older releases; ours are those of 4.4.
OTHER_FIELDS = {
    ("VoteRequest", "candidateepoch"): "replicaepoch",
    ("VoteRequest", "candidateid"): "replicaid",
    ("VoteRequest", "candidatedirectoryid"): "replicadirectoryid",
    ("ListConfigResourcesResponse", "clientmetricsresources"): "configresources",
    ("ListConfigResourcesResponse", "name"): "resourcename",
    ("TxnOffsetCommitRequest", "generationid"): "generationidormemberepoch",
}

# Drafts that no release served: what a later release made of the same version stands in our schema.
DRAFTS = {("ReadShareGroupStateSummaryResponse", 0, "3.9"): "without leader_epoch"}

ENTITIES = {
    "topicName": "topic",
    "groupId": "group",
    "producerId": "producer_id",
    "transactionalId": "transactional_id",
}

EMPTY = {"string": "", "bytes": b"", "records": b"", "uuid": bytes(16), "float64": 0.0, "bool": False}


def ours() -> dict[str, Message]:
    bodies = [message for api in APIS.values() for message in (api.request, api.response)]
    return {message.name: message for message in [*bodies, *MESSAGES.values()]}


def definitions() -> list[Any]:
    files = sorted(Path(FOLDER).rglob("*.json")) if FOLDER else []
    return [pytest.param(path, id=f"{path.parent.name}/{path.stem}") for path in files]


def load(path: Path) -> dict[str, Any]:
    text = re.sub(r"^\s*//.*$", "", path.read_text("utf-8"), flags=re.MULTILINE)
    return json.loads(text)


def version_range(text: str | None) -> range:
    if text in (None, "none"):
        return range(0)
    low, _, high = text.partition("-")
    return range(int(low.rstrip("+")), 10**6 if text.endswith("+") else int(high or low) + 1)


@pytest.mark.parametrize("path", definitions())
def test_definition(path: Path) -> None:
    theirs = load(path)
    if theirs["type"] not in ("request", "response", "header", "data") or theirs["validVersions"] == "none":
        pytest.skip("not on the wire in this release")
    name = OTHER_NAMES.get(theirs["name"], theirs["name"])
    if name in ON_DISK:
        pytest.skip("in files of a broker only")
    message = ours().get(name)
    assert message, f"MISSING: {name}"
    structs = {struct["name"]: struct["fields"] for struct in theirs.get("commonStructs", ())}
    for version in version_range(theirs["validVersions"]):
        assert version in message.versions, f"MISSING: {name} version {version}"
        assert (version in message.flexible) == (version in version_range(theirs["flexibleVersions"]))
        mine = list(our_fields(message.fields, version))
        kafkas = list(their_fields(name, theirs["fields"], structs, version))
        if (name, version, path.parent.name) in DRAFTS:
            assert mine != kafkas
        else:
            assert mine == kafkas


def our_fields(fields: tuple[Field, ...], version: int) -> Iterator[tuple[Any, ...]]:
    for field in fields:
        if version in field.versions:
            yield (
                field.name.replace("_", ""),
                ("[]" if field.array else "") + field.type.replace("int16_string", "string"),
                version in field.nullable,
                field.tag,
                field.default,
                list(our_fields(field.fields, version)),
            )


def their_fields(
    message: str, fields: list[Any], structs: dict[str, Any], version: int
) -> Iterator[tuple[Any, ...]]:
    for field in fields:
        if version not in version_range(field["versions"]):
            continue
        brackets, kind = ("[]", field["type"][2:]) if field["type"].startswith("[]") else ("", field["type"])
        children = field.get("fields") or structs.get(kind, [])
        name = field["name"].lower()
        tagged = version in version_range(field.get("taggedVersions"))
        yield (
            OTHER_FIELDS.get((message, name), name),
            brackets + ("struct" if kind[0].isupper() else kind),
            version in version_range(field.get("nullableVersions")),
            int(field["tag"]) if tagged else None,
            their_default(field.get("default"), brackets, kind),
            list(their_fields(message, children, structs, version)),
        )


def their_default(default: Any, brackets: str, kind: str) -> Any:
    if default == "null":
        return None
    if brackets or kind[0].isupper():
        return ()
    if kind == "bool":
        return str(default).lower() == "true"
    if default in (None, ""):
        return EMPTY.get(kind, 0)
    return int(str(default), 0)


@pytest.mark.parametrize("path", definitions())
def test_entity_types_are_roles(path: Path) -> None:
    """Check that our role agrees where Kafka says that a field is a topic name, a group id and so on."""
    theirs = load(path)
    message = ours().get(OTHER_NAMES.get(theirs["name"], theirs["name"]))
    if message is None or theirs["validVersions"] == "none":
        pytest.skip("not on the wire in this release")
    structs = {struct["name"]: struct["fields"] for struct in theirs.get("commonStructs", ())}
    check_roles(message.name, theirs["fields"], structs, message.fields)


def check_roles(message: str, theirs: list[Any], structs: dict[str, Any], fields: tuple[Field, ...]) -> None:
    named = {field.name.replace("_", ""): field for field in fields}
    for field in theirs:
        name = field["name"].lower()
        mine = named.get(OTHER_FIELDS.get((message, name), name))
        if mine is None:
            continue
        entity = field.get("entityType")
        if entity == "brokerId":
            assert mine.role in ("broker", "replica"), mine.name
        elif entity:
            assert mine.role in (ENTITIES[entity], f"ongoing_{ENTITIES[entity]}"), mine.name
        check_roles(
            message,
            field.get("fields") or structs.get(field["type"].removeprefix("[]"), []),
            structs,
            mine.fields,
        )


def test_every_error_is_known() -> None:
    """Kafka's definitions hold no error codes; a table beside them, if there is one, must be ours."""
    table = Path(FOLDER) / "errors.tsv"
    if not table.exists():
        pytest.skip("no errors.tsv")
    rows = [line.split("\t") for line in table.read_text("utf-8").splitlines()[1:]]
    assert {(int(code), name, retriable == "true") for code, name, retriable in rows} == {
        (code.value, code.name, is_retriable(code)) for code in ErrorCode
    }
