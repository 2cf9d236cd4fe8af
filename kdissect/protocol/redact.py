"""Redaction of secrets in decoded messages, by role: in every output, unless the user wants to see them.

A secret is replaced by `REDACTED`, which stands where the value stood and tells nothing of it; null and empty
values stay. These are secret:

- fields with the role `secret`: SASL tokens, SCRAM salts and passwords, HMACs of delegation tokens;
- config values whose `sensitive` flag is set, or is missing because the message was cut;
- config values whose name says so: requests that set configs carry no flag;
- messages inside an Envelope, as bytes: decoded, they are redacted on their own;
- tagged fields nobody knows, in a message that has secrets.
"""

import re
from enum import Enum
from functools import cache
from typing import Any

from kdissect.protocol.schema.definition import Field, Message, every_field, fields_at
from kdissect.protocol.visitor import Enter, Leaf, Tree, Visit, Visitor, compile_visit


class Redacted(Enum):
    """The type of `REDACTED`, its only value."""

    REDACTED = "redacted"


REDACTED = Redacted.REDACTED

SECRET_SETTING = re.compile(
    r"passw|passphrase|secret|credential|jaas|token|private|"
    r"\bssl\.(keystore\.(key|certificate)|truststore\.certificates)",
    re.IGNORECASE,
)
ENVELOPED = ("request_data", "response_data")  # of Envelope: whole messages, with secrets of their own


def is_secret_setting(name: str | None) -> bool:
    """Return by its name whether a setting holds a secret; one without a name might."""
    return name is None or SECRET_SETTING.search(name) is not None


def has_secrets(message: Message) -> bool:
    """Return whether a message can hold secrets in any of its versions."""
    return any(_may_hide(field) for _, field in every_field(message))


def redact(message: Message, version: int, value: dict[str, Any]) -> dict[str, Any]:
    """Return the message with REDACTED for every secret; the value given stays as it is."""
    return _redactor(message, version)(value, False) if has_secrets_at(message, version) else value


@cache
def has_secrets_at(message: Message, version: int) -> bool:
    """Return whether a message can hold secrets in one version."""
    return any(version in field.versions and _may_hide(field) for _, field in every_field(message))


def _may_hide(field: Field) -> bool:
    return field.role in ("secret", "config_value") or (field.type == "bytes" and field.name in ENVELOPED)


@cache
def _redactor(message: Message, version: int) -> Visit[bool]:
    return compile_visit(_REDACT, message, version) or (lambda tree, _sensitive: tree)


def _leaf(_message: Message, field: Field, _version: int) -> Leaf[bool] | None:
    if field.role == "config_value":
        return lambda value, _struct, sensitive: REDACTED if value and sensitive else value
    return (lambda value, _struct, _sensitive: REDACTED if value else value) if _may_hide(field) else None


def _enter(_message: Message, owner: Message | Field, version: int) -> Enter[bool] | None:
    """Return the function that tells whether the settings in a struct are secret; None if it has none.

    They are if the flag beside them or their name says so, or if those around them are.
    """
    fields = fields_at(owner, version)
    values = [field.name for field in fields if field.role == "config_value"]
    flag = next((field.name for field in fields if field.role == "sensitive"), None)
    name = next((field.name for field in fields if field.type == "string" and field.name not in values), "")
    if flag is None and not values:
        return None

    def is_sensitive(struct: Tree, around: bool) -> bool:
        flagged = flag is not None and struct.get(flag, True) is not False
        return around or flagged or (bool(values) and is_secret_setting(struct.get(name)))

    return is_sensitive


_REDACT = Visitor(
    _leaf,
    _enter,
    unknown_tags=lambda tags: [(tag, REDACTED if raw else raw) for tag, raw in tags],
    copies=True,
    whole_arrays=True,
)
