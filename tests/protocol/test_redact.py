"""No secret survives: not in the redacted tree, not in any form of output."""

from random import Random
from typing import Any

import pytest

from kdissect.dump.jsonl import json_line
from kdissect.dump.tree_text import tree_lines
from kdissect.exchanges.describe import (
    DescribeOptions,
    describe_request,
    describe_response,
)
from kdissect.protocol.codec.messages import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from kdissect.protocol.redact import REDACTED, has_secrets, is_secret_setting, redact
from kdissect.protocol.schema.definition import (
    UNKNOWN_TAGS,
    Field,
    Message,
    every_field,
    fields_at,
)
from kdissect.protocol.schema.registry import APIS
from tests.helpers.random_messages import random_message

MARK = "hush-hush"
SECRET_MESSAGES = [
    (key, response)
    for key, api in APIS.items()
    for response, message in ((False, api.request), (True, api.response))
    if has_secrets(message) and key != 58
]


def plant(rng: Random, owner: Message | Field, version: int, value: dict[str, Any]) -> int:
    """Put a recognisable secret wherever one can be, with its flag or a telling name beside it.

    Count them.
    """
    count = 0
    fields = fields_at(owner, version)
    for field in fields:
        if field.role == "secret":
            value[field.name] = MARK.encode()
            count += 1
        if field.role == "config_value":
            value[field.name] = MARK
            count += 1
    flags = [field.name for field in fields if field.role == "sensitive"]
    names = [field.name for field in fields if field.type == "string" and field.role is None]
    if any(field.role == "config_value" for field in fields):
        if flags:
            value[flags[0]] = True
        else:
            value[names[0]] = rng.choice(
                ["ssl.key.password", "listener.name.x.sasl.jaas.config", "my.SECRET"]
            )
    if UNKNOWN_TAGS in value:
        value[UNKNOWN_TAGS] = [(tag, MARK.encode()) for tag, _ in value[UNKNOWN_TAGS]]
    for field in fields:
        inner = value.get(field.name)
        if field.type == "struct" and inner:
            count += sum(plant(rng, field, version, item) for item in (inner if field.array else [inner]))
    return count


@pytest.mark.parametrize(("key", "response"), SECRET_MESSAGES)
def test_planted_secrets_never_come_out(key: int, response: bool) -> None:
    rng, planted = Random(key), 0
    message = APIS[key].response if response else APIS[key].request
    for version in message.versions:
        for _ in range(20):
            body = random_message(rng, message, version)
            planted += plant(rng, message, version, body)
            assert MARK not in repr(redact(message, version, body))
            for shown in _shown(key, version, response, body, DescribeOptions({})):
                assert MARK not in shown
                assert MARK.encode().hex() not in shown
                assert "aHVzaC1odXNo" not in shown  # the same in base64
    assert planted


def _shown(
    key: int, version: int, response: bool, body: dict[str, Any], showing: DescribeOptions
) -> tuple[str, str]:
    if response:
        frame = encode_response(key, version, {"correlation_id": 1}, body)
        said = describe_response(decode_response(frame, key, version), key, None, showing)
    else:
        header = {
            "request_api_key": key,
            "request_api_version": version,
            "correlation_id": 1,
            "client_id": "c",
        }
        said = describe_request(decode_request(encode_request(header, body)), showing)
    return json_line(said), "\n".join(tree_lines(said["body"]))


def test_every_secret_of_the_schema_is_tried() -> None:
    with_roles = {
        (key, response)
        for key, api in APIS.items()
        for response, message in ((False, api.request), (True, api.response))
        if any(field.role in ("secret", "config_value") for _, field in every_field(message))
    }
    assert with_roles == set(SECRET_MESSAGES)


def test_secrets_are_shown_when_asked_for() -> None:
    body = {"auth_bytes": b"\0alice\0wonderland"}
    as_json, as_text = _shown(36, 2, False, body, DescribeOptions({}, secrets=True))
    assert "AGFsaWNlAHdvbmRlcmxhbmQ=" in as_json
    as_json, as_text = _shown(36, 2, False, body, DescribeOptions({}))
    assert '"auth_bytes":null,"_auth_bytes":"redacted"' in as_json
    assert as_text == "auth_bytes: redacted"


def test_what_an_envelope_carries_is_redacted_on_its_own() -> None:
    inner_header = {
        "request_api_key": 51,
        "request_api_version": 0,
        "correlation_id": 3,
        "client_id": "admin",
    }
    upsertion = {
        "name": "alice",
        "mechanism": 1,
        "iterations": 4096,
        "salt": MARK.encode(),
        "salted_password": MARK.encode(),
    }
    inner = encode_request(inner_header, {"deletions": [], "upsertions": [upsertion]})
    body = {"request_data": inner, "request_principal": None, "client_host_address": b"\x7f\0\0\1"}
    as_json, as_text = _shown(58, 0, False, body, DescribeOptions({}))
    assert '"name":"alice"' in as_json
    assert 'name: "alice"' in as_text
    for shown in (as_json, as_text):
        assert "aHVzaC1odXNo" not in shown
        assert MARK not in shown


def test_a_flag_that_was_cut_off_counts_as_set_and_one_that_is_not_set_does_not() -> None:
    message = APIS[32].response
    config = {
        "name": "retention.ms",
        "value": "5",
        "read_only": False,
        "is_default": False,
        "is_sensitive": False,
    }
    assert (
        redact(message, 0, {"results": [{"configs": [config]}]})["results"][0]["configs"][0]["value"] == "5"
    )
    del config["is_sensitive"]
    assert (
        redact(message, 0, {"results": [{"configs": [config]}]})["results"][0]["configs"][0]["value"]
        is REDACTED
    )


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("retention.ms", False),
        ("cleanup.policy", False),
        ("ssl.keystore.location", False),
        ("ssl.keystore.password", True),
        ("ssl.keystore.key", True),
        ("ssl.keystore.certificate.chain", True),
        ("listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config", True),
        ("delegation.token.secret.key", True),
        ("basic.auth.credentials", True),
        (None, True),
    ],
)
def test_settings_are_told_by_their_names(name: str | None, secret: bool) -> None:
    assert is_secret_setting(name) is secret
