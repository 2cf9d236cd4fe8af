"""Names replaced in decoded messages, for `dump --anonymize`: an exchange that is told under other names from here on.

What a text means decides, by role, which kind of name stands for it. A text without a role is replaced unless its field is
known to hold words of the protocol (`OWN_WORDS`): what the schema will learn is hidden until somebody says that it may be
told. Messages carried in bytes (subscriptions, assignments) are decoded, replaced and encoded again; bytes and tagged
fields that nobody can read are left out, and so is what an Envelope carries. Numbers stay.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kdissect.exchanges.decoded import DecodedExchange
from kdissect.protocol.codec.messages import (
    DecodedMessage,
    decode_embedded,
    encode_embedded,
)
from kdissect.protocol.kafka07.message_codec import ANSWERS, PARTS
from kdissect.protocol.redact import REDACTED
from kdissect.protocol.schema.definition import (
    UNKNOWN_TAGS,
    Field,
    Message,
    fields_at,
)
from kdissect.protocol.schema.registry import APIS, MESSAGES
from kdissect.tables.anonymize import Pseudonyms
from kdissect.text import format_address, format_uuid, parse_address, parse_uuid

Tree = dict[str, Any]

KINDS = {
    "topic": "topic", "group": "group", "member": "member", "instance": "instance", "transactional_id": "transaction",
    "client_id": "client", "host": "host", "client_host": "host", "sasl_mechanism": "mechanism",
    "group_leader": "member", "topic_pattern": "pattern", "transactional_id_pattern": "pattern", "error_message": "message",
}  # fmt: skip
"""Roles of text whose kind of name has another word than the role; the rest go by their role."""

OWN_ROLES = frozenset(("client_software_name", "client_software_version", "quota_entity_type"))
OWN_WORDS = frozenset(
    (
        "assignor_name", "configuration_keys", "documentation", "feature", "group_state", "group_type", "name", "owner_principal_type",
        "principal_type", "protocol_data", "protocol_name", "protocol_type", "requested_metrics", "server_assignor", "state_filters",
        "states_filter", "token_requester_principal_type", "transaction_state", "type", "types_filter", "unknown_state_filters",
    )
)  # fmt: skip
"""Fields without a role that hold names of states, protocols, features, listeners and settings."""

RESOURCES: Mapping[Any, str | None] = {
    2: "topic",
    3: "group",
    4: None,
    5: "transaction",
    7: "principal",
    8: None,
    32: "group",
}
"""Kinds by type of resource; 4 and 8 are brokers and the cluster, known by number or as `kafka-cluster`."""

COORDINATED: Mapping[Any, str] = {0: "group", 1: "transaction"}
QUOTA_ENTITIES = {"user": "principal", "client-id": "client", "ip": "host"}
PLAIN_VALUE = re.compile(r"-?\d+(\.\d+)?|true|false")
EVERYTHING = "*"


@dataclass(slots=True)
class _Context:
    pseudonyms: Pseudonyms
    asked: Tree  # the body of the request
    protocol_type: str | None


_Hider = Callable[[Tree, _Context], Tree]
_Step = Callable[[Any, Tree, _Context], Any]  # (value, struct around it, context) -> what stands for it


class AnonymizedExchange(DecodedExchange):
    """An exchange under other names."""

    __slots__ = ("_pseudonyms", "_shown")

    def __init__(self, spoken: DecodedExchange, pseudonyms: Pseudonyms) -> None:
        super().__init__(spoken.exchange)
        self._shown, self._pseudonyms = spoken, pseudonyms

    @property
    def request(self) -> DecodedMessage | None:
        """The request, if there is one."""
        if self._request is None and self._shown.request is not None:
            self._request = self._hidden(self._shown.request, "request")
        return self._request

    @property
    def response(self) -> DecodedMessage | None:
        """The response, if there is one."""
        if self._response is None and self._shown.response is not None:
            self._response = self._hidden(self._shown.response, "response")
        return self._response

    def _enveloped(self) -> None:
        return None

    def _hidden(self, whole: DecodedMessage, half: str) -> DecodedMessage:
        header = {name: value for name, value in whole.header.items() if name != UNKNOWN_TAGS}
        if header.get("client_id"):
            header["client_id"] = self._pseudonyms.name("client", header["client_id"])
        return DecodedMessage(header, self._body(whole, half), whole.version, whole.fault)

    def _body(self, whole: DecodedMessage, half: str) -> Tree | None:
        if whole.body is None:
            return None
        if self.exchange.is_kafka07:
            return _old(whole.body, self._pseudonyms)
        api = APIS.get(-1 if self.exchange.api_key is None else self.exchange.api_key)
        if api is None or whole.version is None:
            return None
        asked = (self._shown.request.body if self._shown.request else None) or {}
        protocol = whole.body.get("protocol_type", asked.get("protocol_type"))
        message = api.request if half == "request" else api.response
        return _hider(message, whole.version)(whole.body, _Context(self._pseudonyms, asked, protocol))


def anonymize_heading(said: Tree, pseudonyms: Pseudonyms) -> Tree:
    """Give what stands above an exchange under other names."""
    kinds = {"client_id": "client", "capture_file": "capture", "sasl_mechanism": "mechanism"}
    ends = {end: _end(said[end], pseudonyms) for end in ("client", "server")}
    names = {name: pseudonyms.name(kind, said[name]) for name, kind in kinds.items() if name in said}
    return said | {"connection": pseudonyms.number(said["connection"])} | ends | names


def anonymize_topic_names(names: Mapping[bytes, str], pseudonyms: Pseudonyms) -> dict[bytes, str]:
    """Give the names of topics by their ids, both replaced."""
    return {_topic_id(raw, pseudonyms): pseudonyms.name("topic", name) or "" for raw, name in names.items()}


def _end(text: str, pseudonyms: Pseudonyms) -> str:
    host, port = parse_address(text)
    return format_address(pseudonyms.name("host", host), port)


def _topic_id(raw: bytes, pseudonyms: Pseudonyms) -> bytes:
    if not any(raw):
        return raw
    return parse_uuid(pseudonyms.name("topic_id", format_uuid(raw)) or "")


@cache
def _hider(message: Message, version: int) -> _Hider:
    """Compile the function that gives a message under other names; what it is given stays as it is."""
    return _struct(message, version)


def _struct(owner: Message | Field, version: int) -> _Hider:
    found = ((field, _step(field, version)) for field in fields_at(owner, version))
    steps = [(field.name, field.array, step) for field, step in found if step]

    def hide(value: Tree, context: _Context) -> Tree:
        if "protocol_type" in value:
            context.protocol_type = value["protocol_type"]
        said = dict(value)
        for name, array, step in steps:
            item = value.get(name)
            if item is None:
                continue
            said[name] = (
                [each if each is None else step(each, value, context) for each in item]
                if array
                else step(item, value, context)
            )
        if UNKNOWN_TAGS in said:
            said[UNKNOWN_TAGS] = [(tag, REDACTED) for tag, _ in said[UNKNOWN_TAGS]]
        return said

    return hide


def _step(field: Field, version: int) -> _Step | None:
    if field.type == "struct":
        inner = _struct(field, version)
        return lambda value, _, context: inner(value, context)
    if field.type == "uuid":
        return _hide_topic_id if field.role == "topic_id" else None
    if field.type in ("string", "int16_string"):
        return _text(field)
    if field.type == "bytes":
        return _bytes(field)
    return None


def _text(field: Field) -> _Step | None:
    role = field.role
    if role in OWN_ROLES or (role is None and field.name in OWN_WORDS):
        return None
    rule = RULES.get(role or "")
    if rule:
        return rule
    kind = KINDS.get(role or "", role or field.name)
    return lambda value, _, context: _named(value, kind, context)


def _named(value: str, kind: str | None, context: _Context) -> str | None:
    return value if kind is None or value == EVERYTHING else context.pseudonyms.name(kind, value)


def _hide_topic_id(value: bytes, _: Tree, context: _Context) -> bytes:
    return _topic_id(value, context.pseudonyms)


def _hide_resource(value: str, struct: Tree, context: _Context) -> str | None:
    kind = struct.get("resource_type", struct.get("resource_type_filter"))
    return _named(value, RESOURCES.get(kind, "resource"), context)


def _hide_coordinator(value: str, struct: Tree, context: _Context) -> str | None:
    kind = struct.get("key_type", context.asked.get("key_type", 0))
    return _named(value, COORDINATED.get(kind, "coordinator"), context)


def _hide_quota_entity(value: str, struct: Tree, context: _Context) -> str | None:
    return _named(value, QUOTA_ENTITIES.get(struct.get("entity_type", ""), "entity"), context)


def _hide_setting(value: str, _: Tree, context: _Context) -> str | None:
    return value if PLAIN_VALUE.fullmatch(value) else _named(value, "value", context)


RULES: dict[str, _Step] = {
    "resource": _hide_resource,
    "coordinator_key": _hide_coordinator,
    "quota_entity": _hide_quota_entity,
    "config_value": _hide_setting,
}


def _bytes(field: Field) -> _Step:
    if field.embedded is None:
        return lambda value, _, __: REDACTED if value else value
    embedded, of_consumers = field.embedded, field.embedded.startswith("ConsumerProtocol")

    def hide(value: bytes, _: Tree, context: _Context) -> Any:
        if not value:
            return value
        if of_consumers and context.protocol_type not in (None, "", "consumer"):
            return REDACTED
        decoded = decode_embedded(embedded, value)
        message = MESSAGES[embedded]
        version = min(int.from_bytes(value[:2], "big"), message.versions[-1])
        if decoded.fault:
            return REDACTED
        said = _hider(message, version)(decoded.value, context)
        plain = {name: b"" if item is REDACTED else item for name, item in said.items() if name != UNKNOWN_TAGS}  # fmt: skip
        return encode_embedded(embedded, version, plain)

    return hide


def _old(body: Tree, pseudonyms: Pseudonyms) -> Tree:
    """Hide in a message of Kafka 0.7, which names nothing but topics."""
    said = dict(body)
    if said.get("topic"):
        said["topic"] = pseudonyms.name("topic", said["topic"])
    for part in (PARTS, ANSWERS):
        if part in said:
            said[part] = [_old(each, pseudonyms) for each in said[part]]
    return said
