"""`dump --anonymize` shows no name of a capture, and the same pseudonym wherever the same name stood."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kdissect.cli.main import main
from kdissect.dump.jsonl import json_line
from kdissect.exchanges.anonymize_messages import (
    KEPT_FIELDS,
    KEPT_ROLES,
    AnonymizedExchange,
)
from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.describe import (
    DescribeOptions,
    describe_request,
    describe_response,
)
from kdissect.exchanges.exchange import CapturedFrame, Exchange
from kdissect.protocol.codec.messages import (
    encode_embedded,
    encode_request,
    encode_response,
)
from kdissect.protocol.schema.definition import (
    Field,
    Message,
    fields_at,
)
from kdissect.protocol.schema.registry import (
    APIS,
    MESSAGES,
    request_header_version,
)
from kdissect.tables.anonymize import (
    KINDS,
    OWN_TOPIC_IDS,
    OWN_TOPICS,
    Pseudonyms,
)
from tests.helpers import recorded

CAPTURES = Path(__file__).parents[2] / "captures"
NAME = "acme-Zürich"
TOPIC_RESOURCE = 2


def filled(owner: Message | Field, version: int) -> dict[str, Any]:
    """Make a struct whose every text is a name that must not be told."""
    return {
        field.name: [one] if field.array else one
        for field in fields_at(owner, version)
        for one in [value(field, version)]
    }


def value(field: Field, version: int) -> Any:
    if field.type == "struct":
        return filled(field, version)
    if field.embedded:
        message = MESSAGES[field.embedded]
        newest = message.versions[-1]
        return encode_embedded(field.embedded, newest, filled(message, newest))
    texts = {"string": NAME, "int16_string": NAME, "bytes": NAME.encode(), "uuid": b"acme acme acme a"}
    if field.role == "resource_type" or field.name.startswith("resource_type"):
        return TOPIC_RESOURCE
    return texts.get(field.type, b"" if field.type == "records" else field.type == "bool" or 1)


def leaves(tree: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(tree, dict):
        for key, item in tree.items():
            yield from leaves(item, key)
    elif isinstance(tree, list | tuple):
        for item in tree:
            yield from leaves(item, name)
    else:
        yield name, tree


def own_texts(message: Message) -> set[str]:
    """Name the fields whose text may be told."""
    found = set(KEPT_FIELDS)
    pending: list[Message | Field] = [message, *MESSAGES.values()]
    while pending:
        for field in pending.pop().fields:
            pending.append(field)
            if field.role in KEPT_ROLES:
                found.add(field.name)
    return found


@pytest.mark.parametrize("key", APIS)
def test_no_text_of_any_message_is_told_but_the_protocol_s_own_words(key: int) -> None:
    api = APIS[key]
    for version in {api.versions[0], api.versions[-1]}:
        header = {"request_api_key": key, "request_api_version": version, "correlation_id": 1}
        if request_header_version(key, version):
            header["client_id"] = NAME
        asked = encode_request(header, filled(api.request, version))
        told = encode_response(key, version, {"correlation_id": 1}, filled(api.response, version))
        frames = [CapturedFrame(data, len(data), 0, 0, 1) for data in (asked, told)]
        decoded = DecodedExchange(Exchange(0, 0, "answered", key, version, 1, 1, *frames))
        hidden = AnonymizedExchange(decoded, Pseudonyms.new("key"))
        assert hidden.request
        assert hidden.response
        said = (
            describe_request(hidden.request, DescribeOptions({})),
            describe_response(hidden.response, key, hidden.request.body, DescribeOptions({})),
        )
        for message, one in zip((api.request, api.response), said, strict=True):
            assert one["body"] is not None
            left = {
                name
                for name, text in leaves(json.loads(json_line(one)))
                if isinstance(text, str) and "acme" in text
            }
            assert left <= own_texts(message), message.name


@pytest.mark.parametrize("resource_type", [*range(-1, 10), 16, 32, 100])
@pytest.mark.parametrize(("key", "version"), [(33, 0), (44, 0)])
def test_resources_of_every_type_are_hidden(key: int, version: int, resource_type: int) -> None:
    """AlterConfigs and IncrementalAlterConfigs: a client may send a host as the name of a broker."""

    def shown(name: str) -> str:
        config = {"name": "log.cleaner.threads", "value": "2"}
        configs = [config | ({"config_operation": 0} if key == 44 else {})]
        resources = [{"resource_type": resource_type, "resource_name": name, "configs": configs}]
        header = {
            "request_api_key": key,
            "request_api_version": version,
            "correlation_id": 1,
            "client_id": "",
        }
        frame = encode_request(header, {"resources": resources, "validate_only": False})
        exchange = Exchange(
            0, 0, "answered", key, version, 1, 1, CapturedFrame(frame, len(frame), 0, 0, 1), None
        )
        hidden = AnonymizedExchange(DecodedExchange(exchange), Pseudonyms.new("key")).request
        assert hidden
        assert hidden.body
        return str(hidden.body["resources"][0]["resource_name"])

    assert "acme" not in shown("kafka-1.acme.example")
    if resource_type in (4, 8):
        assert shown("kafka-1.acme.example").startswith("broker-")
        assert [shown(name) for name in ("", "17", "-1", "kafka-cluster")] == [
            "",
            "17",
            "-1",
            "kafka-cluster",
        ]


def dumped(capfdbinary: pytest.CaptureFixture[bytes], *arguments: str) -> str:
    assert main(["dump", *arguments]) == 0
    return capfdbinary.readouterr().out.decode()


def names_of(capture: str) -> set[str]:
    """Return the names in the tables of a capture."""
    tables = ("connections", "exchanges", "partitions", "group_events", "transaction_events")
    told = {
        row[column]
        for table in tables
        for row in recorded.rows(capture, table)
        for column in KINDS[table]
        if column != "sasl_mechanism"
    }
    return {name for name in told - OWN_TOPICS - OWN_TOPIC_IDS if name} | {capture}


def words_in(text: str) -> set[str]:
    return set(re.findall(r"[\w.-]+", text))


@pytest.mark.slow
@pytest.mark.parametrize("capture", ["rebalances.pcapng", "transactions.pcapng"])
def test_a_dump_tells_no_name(capture: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    secret = names_of(capture)
    path = str(CAPTURES / capture)
    plain = dumped(capfdbinary, path, "--brief")
    assert len(secret) > 10
    assert words_in(plain) & secret
    for form in (("--format", "text"), ("--format", "jsonl"), ("--brief",)):
        text = dumped(capfdbinary, path, "--anonymize", *form)
        assert not words_in(text) & secret
    assert len(text.splitlines()) == len(plain.splitlines())


def test_a_dump_and_the_tables_give_the_same_names(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    pseudonyms = Pseudonyms.new("key")
    monkeypatch.setenv("KDISSECT_ANONYMIZE_KEY", "key")
    text = dumped(
        capfdbinary,
        str(CAPTURES / "rebalances.pcapng"),
        "--anonymize",
        "--format",
        "jsonl",
        "--api",
        "JoinGroup",
    )
    found = [json.loads(line) for line in text.splitlines()]
    rows = [row for row in recorded.rows("rebalances.pcapng", "exchanges") if row["api_name"] == "JoinGroup"]
    assert {(one["connection"], one["client_id"], one["request"]["body"]["group_id"]) for one in found} == {
        (
            pseudonyms.number(row["connection"]),
            pseudonyms.name("client", row["client_id"]),
            pseudonyms.name("group", row["group_id"]),
        )
        for row in rows
    }


@pytest.mark.parametrize("option", ["--records", "--show-secrets"])
def test_what_has_no_other_name_is_not_shown(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", str(CAPTURES / "steady.pcapng"), "--anonymize", option]) == 2
    assert "--anonymize" in capsys.readouterr().err
