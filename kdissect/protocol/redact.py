"""Take the secrets out of a decoded message, by role: in every output, unless the user asked to see them.

A secret is replaced by `REDACTED`, which stands where the value stood and says nothing of it; null and empty values stay.
Secret are

- fields with the role `secret`: SASL tokens, SCRAM salts and passwords, HMACs of delegation tokens;
- config values whose `sensitive` flag is set, or is missing where the message should have one (the capture was cut);
- config values whose name says so: requests that set configs carry no flag;
- messages inside an Envelope, as bytes: decoded, they are redacted on their own;
- tagged fields nobody knows, in a message that has secrets.
"""

import re
from collections.abc import Callable
from enum import Enum
from functools import cache
from typing import Any

from kdissect.protocol.schema.definition import (
    UNKNOWN_TAGS,
    Field,
    Message,
    every_field,
    fields_at,
)


class Redacted(Enum):
    """The type of `REDACTED`, its only value."""

    REDACTED = "redacted"


REDACTED = Redacted.REDACTED

SECRET_SETTING = re.compile(
    r"passw|passphrase|secret|credential|jaas|token|private|\bssl\.(keystore\.(key|certificate)|truststore\.certificates)",
    re.IGNORECASE,
)
ENVELOPED = ("request_data", "response_data")  # of Envelope: whole messages, with secrets of their own

_Redactor = Callable[
    [dict[str, Any], bool], dict[str, Any]
]  # (struct, whether the struct around it is sensitive)


def is_secret_setting(name: str | None) -> bool:
    """Tell by its name whether a setting holds a secret; one without a name might."""
    return name is None or SECRET_SETTING.search(name) is not None


def has_secrets(message: Message) -> bool:
    """Tell whether a message can hold secrets in any of its versions."""
    return any(_may_hide(field) for _, field in every_field(message))


def redact(message: Message, version: int, value: dict[str, Any]) -> dict[str, Any]:
    """Give the message with REDACTED for every secret; the value given stays as it is."""
    return _redactor(message, version)(value, False) if has_secrets_at(message, version) else value


@cache
def has_secrets_at(message: Message, version: int) -> bool:
    """Tell whether a message can hold secrets in one version."""
    return any(version in field.versions and _may_hide(field) for _, field in every_field(message))


def _may_hide(field: Field) -> bool:
    return field.role in ("secret", "config_value") or (field.type == "bytes" and field.name in ENVELOPED)


@cache
def _redactor(message: Message, version: int) -> _Redactor:
    return _struct_redactor(message, version)


def _struct_redactor(owner: Message | Field, version: int) -> _Redactor:
    fields = fields_at(owner, version)
    hidden = [field.name for field in fields if _may_hide(field) and field.role != "config_value"]
    values = [field.name for field in fields if field.role == "config_value"]
    flag = next((field.name for field in fields if field.role == "sensitive"), None)
    name = next((field.name for field in fields if field.type == "string" and field.name not in values), None)
    inner = [
        (field.name, field.array, _struct_redactor(field, version))
        for field in fields
        if field.type == "struct"
    ]

    def redacted(value: dict[str, Any], sensitive: bool) -> dict[str, Any]:
        out = dict(value)
        if flag is not None:
            sensitive = sensitive or value.get(flag, True) is not False
        for secret in hidden:
            _hide(out, secret)
        if values and (sensitive or is_secret_setting(value.get(name) if name else None)):
            for setting in values:
                _hide(out, setting)
            sensitive = True
        if UNKNOWN_TAGS in out:
            out[UNKNOWN_TAGS] = [(tag, REDACTED if raw else raw) for tag, raw in out[UNKNOWN_TAGS]]
        for field, array, redact_inner in inner:
            if out.get(field):
                found = out[field]
                out[field] = (
                    [redact_inner(item, sensitive) for item in found]
                    if array
                    else redact_inner(found, sensitive)
                )
        return out

    return redacted


def _hide(out: dict[str, Any], name: str) -> None:
    if out.get(name):
        out[name] = REDACTED
