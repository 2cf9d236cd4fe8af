"""Names in decoded messages replaced by pseudonyms, for `dump --anonymize` and `slice --anonymize`.

In comes a decoded exchange, out goes one whose messages have pseudonyms, so that nothing that is written has
seen a name.

The role of a text decides which kind of pseudonym stands for it. A text without a role is replaced unless its
field is known to hold words of the protocol (`KEPT_FIELDS`), so a field that a later schema adds is hidden
until somebody lists it. Messages inside bytes (subscriptions, assignments) are decoded, replaced and encoded
again. Bytes and tagged fields without a schema are left out, and so is the content of an Envelope. Numbers
stay.

A slice needs messages of the same length. `fill_redacted` puts as many zeros where something was left out,
and with `keep_lengths` messages inside bytes are filled, too.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from kdissect.exchanges.decoded import DecodedExchange
from kdissect.protocol.codec.messages import (
    DecodedMessage,
    encode_embedded,
)
from kdissect.protocol.kafka07.message_codec import ANSWERS, PARTS
from kdissect.protocol.redact import REDACTED
from kdissect.protocol.schema.definition import UNKNOWN_TAGS, Field, Message
from kdissect.protocol.schema.registry import APIS
from kdissect.protocol.visitor import (
    CONSUMER_MESSAGES,
    Enter,
    Leaf,
    Tree,
    Visit,
    Visitor,
    compile_visit,
    coordinator_type,
    embedded_message,
    is_consumer_protocol,
    resource_type,
)
from kdissect.tables.anonymize import Pseudonyms
from kdissect.text import format_address, format_uuid, parse_address, parse_uuid

KINDS = {
    "topic": "topic",
    "group": "group",
    "member": "member",
    "instance": "instance",
    "transactional_id": "transaction",
    "client_id": "client",
    "host": "host",
    "client_host": "host",
    "sasl_mechanism": "mechanism",
    "group_leader": "member",
    "topic_pattern": "pattern",
    "transactional_id_pattern": "pattern",
    "error_message": "message",
}
"""Roles of text whose kind of name has another word than the role; the rest go by their role."""

KEPT_ROLES = frozenset(("client_software_name", "client_software_version", "quota_entity_type"))
KEPT_FIELDS = frozenset(
    (
        "assignor_name",
        "configuration_keys",
        "documentation",
        "feature",
        "group_state",
        "group_type",
        "name",
        "owner_principal_type",
        "principal_type",
        "protocol_data",
        "protocol_name",
        "protocol_type",
        "requested_metrics",
        "server_assignor",
        "state_filters",
        "states_filter",
        "token_requester_principal_type",
        "transaction_state",
        "type",
        "types_filter",
        "unknown_state_filters",
    )
)
"""Fields without a role that hold names of states, protocols, features, listeners and settings."""

RESOURCES: Mapping[Any, str | None] = {
    2: "topic",
    3: "group",
    4: "broker",
    5: "transaction",
    7: "principal",
    8: "broker",
    32: "group",
}
"""Kinds by type of resource; 4 and 8 are brokers, known by number, and the cluster, `kafka-cluster`."""

NAMELESS_RESOURCE = re.compile(r"-?\d+|kafka-cluster")
"""Names of brokers and of the cluster that name nothing of the user.

Another name of a broker that a client sends may be that of a host.
"""

COORDINATED: Mapping[Any, str] = {0: "group", 1: "transaction"}
QUOTA_ENTITIES = {"user": "principal", "client-id": "client", "ip": "host"}
PLAIN_VALUE = re.compile(r"-?\d+(\.\d+)?|true|false")
EVERYTHING = "*"


@dataclass(slots=True)
class _Context:
    pseudonyms: Pseudonyms
    request_body: Tree  # the body of the request
    protocol_type: str | None
    keep_lengths: bool = False


class AnonymizedExchange(DecodedExchange):
    """An exchange whose messages have pseudonyms in place of names."""

    __slots__ = ("_keep_lengths", "_original", "_pseudonyms")

    def __init__(self, original: DecodedExchange, pseudonyms: Pseudonyms, keep_lengths: bool = False) -> None:
        """Replace names by `pseudonyms`; `keep_lengths` needs pseudonyms as long as the names."""
        super().__init__(original.exchange)
        self._original, self._pseudonyms, self._keep_lengths = original, pseudonyms, keep_lengths

    @property
    def request(self) -> DecodedMessage | None:
        """The request; None if there is none."""
        if self._request is None and self._original.request is not None:
            self._request = self._anonymized(self._original.request, "request")
        return self._request

    @property
    def response(self) -> DecodedMessage | None:
        """The response; None if there is none."""
        if self._response is None and self._original.response is not None:
            self._response = self._anonymized(self._original.response, "response")
        return self._response

    def _enveloped(self) -> None:
        return None

    def _anonymized(self, decoded: DecodedMessage, half: str) -> DecodedMessage:
        header = {name: value for name, value in decoded.header.items() if name != UNKNOWN_TAGS}
        if header.get("client_id"):
            header["client_id"] = self._pseudonyms.name("client", header["client_id"])
        return DecodedMessage(header, self._body(decoded, half), decoded.version, decoded.fault)

    def _body(self, decoded: DecodedMessage, half: str) -> Tree | None:
        if decoded.body is None:
            return None
        if self.exchange.is_kafka07:
            return _kafka07_body(decoded.body, self._pseudonyms)
        api = APIS.get(-1 if self.exchange.api_key is None else self.exchange.api_key)
        if api is None or decoded.version is None:
            return None
        request_body = (self._original.request.body if self._original.request else None) or {}
        protocol = decoded.body.get("protocol_type", request_body.get("protocol_type"))
        message = api.request if half == "request" else api.response
        return _message_anonymizer(message, decoded.version)(
            decoded.body, _Context(self._pseudonyms, request_body, protocol, self._keep_lengths)
        )


def anonymize_heading(fields: Tree, pseudonyms: Pseudonyms) -> Tree:
    """Return the heading of an exchange with pseudonyms in place of names."""
    kinds = {"client_id": "client", "capture_file": "capture", "sasl_mechanism": "mechanism"}
    ends = {end: _address(fields[end], pseudonyms) for end in ("client", "server")}
    names = {name: pseudonyms.name(kind, fields[name]) for name, kind in kinds.items() if name in fields}
    return fields | {"connection": pseudonyms.number(fields["connection"])} | ends | names


def anonymize_topic_names(names: Mapping[bytes, str], pseudonyms: Pseudonyms) -> dict[bytes, str]:
    """Return the names of topics by their ids, both replaced by pseudonyms."""
    return {_topic_id(raw, pseudonyms): pseudonyms.name("topic", name) or "" for raw, name in names.items()}


def _address(text: str, pseudonyms: Pseudonyms) -> str:
    host, port = parse_address(text)
    return format_address(pseudonyms.name("host", host), port)


def _topic_id(raw: bytes, pseudonyms: Pseudonyms) -> bytes:
    if not any(raw):
        return raw
    return parse_uuid(pseudonyms.name("topic_id", format_uuid(raw)) or "")


@cache
def _message_anonymizer(message: Message, version: int) -> Visit[_Context]:
    """Return the function that returns a message with pseudonyms; the message it is given stays as it is."""
    return compile_visit(_ANONYMIZE, message, version) or (lambda tree, _context: tree)


def _enter(_message: Message, _owner: Message | Field, _version: int) -> Enter[_Context]:
    def enter(struct: Tree, context: _Context) -> _Context:
        if "protocol_type" in struct:
            context.protocol_type = struct["protocol_type"]
        return context

    return enter


def _leaf(_message: Message, field: Field, _version: int) -> Leaf[_Context] | None:
    if field.type == "uuid":
        return _replace_topic_id if field.role == "topic_id" else None
    if field.type in ("string", "int16_string"):
        return _text(field)
    return _bytes(field) if field.type == "bytes" else None


def _text(field: Field) -> Leaf[_Context] | None:
    role = field.role
    if role in KEPT_ROLES or (role is None and field.name in KEPT_FIELDS):
        return None
    rule = RULES.get(role or "")
    if rule:
        return rule
    kind = KINDS.get(role or "", role or field.name)
    return lambda value, _, context: _pseudonym(value, kind, context)


def _pseudonym(value: str, kind: str | None, context: _Context) -> str | None:
    return value if kind is None or value == EVERYTHING else context.pseudonyms.name(kind, value)


def _replace_topic_id(value: bytes, _: Tree, context: _Context) -> bytes:
    return _topic_id(value, context.pseudonyms)


def _replace_resource(value: str, struct: Tree, context: _Context) -> str | None:
    kind = RESOURCES.get(resource_type(struct), "resource")
    if kind == "broker" and NAMELESS_RESOURCE.fullmatch(value):
        return value
    return _pseudonym(value, kind, context)


def _replace_coordinator(value: str, struct: Tree, context: _Context) -> str | None:
    kind = coordinator_type(struct, context.request_body)
    return _pseudonym(value, COORDINATED.get(kind, "coordinator"), context)


def _replace_quota_entity(value: str, struct: Tree, context: _Context) -> str | None:
    return _pseudonym(value, QUOTA_ENTITIES.get(struct.get("entity_type", ""), "entity"), context)


def _replace_setting(value: str, _: Tree, context: _Context) -> str | None:
    return value if PLAIN_VALUE.fullmatch(value) else _pseudonym(value, "value", context)


RULES: dict[str, Leaf[_Context]] = {
    "resource": _replace_resource,
    "coordinator_key": _replace_coordinator,
    "quota_entity": _replace_quota_entity,
    "config_value": _replace_setting,
}


def _bytes(field: Field) -> Leaf[_Context]:
    if field.embedded is None:
        return lambda value, _struct, _context: REDACTED if value else value
    return partial(_replace_embedded, field.embedded)


def _replace_embedded(name: str, value: bytes, _struct: Tree, context: _Context) -> Any:
    if not value:
        return value
    if name in CONSUMER_MESSAGES and not is_consumer_protocol(context.protocol_type):
        return REDACTED
    message, version, decoded = embedded_message(name, value)
    if decoded.fault:
        return REDACTED
    fields = _message_anonymizer(message, version)(decoded.value, context)
    if context.keep_lengths:
        filled = encode_embedded(name, version, fill_redacted(decoded.value, fields))
        return filled if len(filled) == len(value) else REDACTED
    known = {
        field: b"" if item is REDACTED else item for field, item in fields.items() if field != UNKNOWN_TAGS
    }
    return encode_embedded(name, version, known)


def fill_redacted(original: Any, replaced: Any) -> Any:
    """Return a replaced tree with as many zeros as the original has bytes wherever something is REDACTED."""
    if replaced is REDACTED:
        size = len(original.encode("utf-8", "surrogateescape") if isinstance(original, str) else original)
        return "0" * size if isinstance(original, str) else bytes(size)
    if isinstance(replaced, dict):
        return {name: fill_redacted(original[name], value) for name, value in replaced.items()}
    if isinstance(replaced, list | tuple) and isinstance(original, list | tuple):
        pairs = zip(original, replaced, strict=True)
        return type(replaced)(fill_redacted(before, after) for before, after in pairs)
    return replaced


_ANONYMIZE = Visitor(
    _leaf, _enter, unknown_tags=lambda tags: [(tag, REDACTED) for tag, _ in tags], copies=True
)


def _kafka07_body(body: Tree, pseudonyms: Pseudonyms) -> Tree:
    """Return the body of a message of Kafka 0.7, which names only topics, with pseudonyms."""
    fields = dict(body)
    if fields.get("topic"):
        fields["topic"] = pseudonyms.name("topic", fields["topic"])
    for part in (PARTS, ANSWERS):
        if part in fields:
            fields[part] = [_kafka07_body(item_of_array, pseudonyms) for item_of_array in fields[part]]
    return fields
