"""Decoded messages for people and programs: the tree of the codec, with words beside the numbers.

In comes a decoded message, out goes a tree with the fields of the schema. Its values are those of JSON, and
bytes, which the writer puts as it likes. Beside a field may stand the same name with an underscore in front
(no field of Kafka begins with one): the name of an error or an enumeration, the topic of an id, the message
inside bytes, or why a value is absent:

    "error_code": 3, "_error_code": "UNKNOWN_TOPIC_OR_PARTITION"
    "topic_id": "7Gpn0KOZQFe1SkTGPbeCOA", "_topic_id": "orders"
    "auth_bytes": null, "_auth_bytes": "redacted"

The functions that do so are made once for each message and version. Parts of a message that need no words
stay as they are. Secrets are redacted unless the user asks for them.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from kdissect.exchanges.describe_records import (
    RecordsKind,
    describe_records,
    timestamp_text,
)
from kdissect.exchanges.exchange import CapturedFrame
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import (
    DecodedMessage,
    Fault,
    decode_embedded,
    decode_request,
    decode_response,
)
from kdissect.protocol.enums import words_of
from kdissect.protocol.metadata_records import TOPIC as METADATA_TOPIC
from kdissect.protocol.metadata_records import TOPIC_ID as METADATA_TOPIC_ID
from kdissect.protocol.records.batches import CODEC_NAMES
from kdissect.protocol.records.compression import Damage, decompress
from kdissect.protocol.redact import REDACTED, redact
from kdissect.protocol.schema.definition import (
    UNKNOWN_TAGS,
    Field,
    Message,
    fields_at,
)
from kdissect.protocol.schema.registry import APIS, MESSAGES
from kdissect.text import format_uuid

Tree = dict[str, Any]
RAW_SASL_NAME = "SaslToken"


@dataclass(frozen=True, slots=True)
class DescribeOptions:
    """What the user wants to see, and the names of topics."""

    names: Mapping[bytes, str]  # topic id -> name
    records: bool = False
    secrets: bool = False


@dataclass(slots=True)
class _Context:
    options: DescribeOptions
    protocol_type: str | None  # of the group that the message, or the struct being read, is about
    metadata: bool = False  # whether the topic being read is the cluster's metadata log


_StructDescriber = Callable[[Tree, _Context], Tree]
_FieldDescriber = Callable[[Tree, str, Any, _Context], None]  # (fields to add to, name, value, context)


def describe_request(decoded: DecodedMessage, options: DescribeOptions) -> Tree:
    """Return header, body and fault of a decoded request."""
    api = APIS.get(decoded.header.get("request_api_key", -1))
    return _describe(decoded, api.request if api else None, decoded.body or {}, options)


def describe_response(
    decoded: DecodedMessage, key: int | None, request_body: Tree | None, options: DescribeOptions
) -> Tree:
    """Return header, body and fault of a decoded response of the API `key`; `request_body` may be None."""
    api = None if key is None else APIS.get(key)
    return _describe(decoded, api.response if api else None, request_body or {}, options)


def describe_token(frame: CapturedFrame, options: DescribeOptions) -> Tree:
    """Return header and body of a raw SASL token, which follows SaslHandshake 0 and has nothing of Kafka.

    A token is secret from its first byte to its last: a PLAIN token is the password itself.
    """
    body: Tree = {"token": frame.data}
    if frame.data and not options.secrets:
        body |= {"token": None, "_token": REDACTED.value}
    return {"header": {}, "body": body}


def fault_tree(fault: Fault | None) -> Tree | None:
    """Return a fault as a tree with path, offset and reason."""
    return None if fault is None else {"path": fault.path, "offset": fault.offset, "reason": fault.reason}


def _describe(
    decoded: DecodedMessage, message: Message | None, request_body: Tree, options: DescribeOptions
) -> Tree:
    fields: Tree = {"header": _header_tree(decoded.header), "body": None}
    if message is not None and decoded.body is not None and decoded.version is not None:
        body = decoded.body
        protocol = body.get("protocol_type", request_body.get("protocol_type"))
        context = _Context(options, protocol)
        visible = body if options.secrets else redact(message, decoded.version, body)
        fields["body"] = message_describer(message, decoded.version)(visible, context)
        if message.name in ENVELOPES:
            _add_enveloped(fields["body"], body, request_body, options)
    if decoded.fault:
        fields["fault"] = fault_tree(decoded.fault)
    return fields


def _header_tree(header: Tree) -> Tree:
    """Return a header; its unknown tagged fields, pairs of number and bytes, become lists."""
    if UNKNOWN_TAGS not in header:
        return header
    return header | {UNKNOWN_TAGS: [list(pair) for pair in header[UNKNOWN_TAGS]]}


def _add_enveloped(fields: Tree, body: Tree, request_body: Tree, options: DescribeOptions) -> None:
    """Add the messages inside an Envelope (KIP-590).

    An Envelope in one, which Kafka refuses, stays closed.
    """
    if REDACTED in (body.get("request_data"), body.get("response_data"), request_body.get("request_data")):
        return
    request = decode_request(body.get("request_data") or request_body.get("request_data") or b"")
    key, version = request.header.get("request_api_key", -1), request.header.get("request_api_version", 0)
    if key == ApiKey.ENVELOPE:
        return
    if body.get("request_data"):
        fields["_request_data"] = describe_request(request, options)
    if body.get("response_data"):
        decoded = decode_response(body["response_data"], key, version)
        fields["_response_data"] = describe_response(decoded, key, request.body, options)


@cache
def message_describer(message: Message, version: int) -> _StructDescriber:
    """Return the function that describes a message in one version."""
    return _struct_describer(message, message, version) or _unchanged


def _unchanged(value: Tree, _context: _Context) -> Tree:
    return value if UNKNOWN_TAGS not in value else _with_tags(value)


def _with_tags(value: Tree) -> Tree:
    return value | {
        UNKNOWN_TAGS: [[tag, None if raw is REDACTED else raw] for tag, raw in value[UNKNOWN_TAGS]]
    }


def _struct_describer(message: Message, owner: Message | Field, version: int) -> _StructDescriber | None:
    describers = {}
    for field in fields_at(owner, version):
        describer = _field_describer(message, field, version)
        if describer:
            describers[field.name] = describer
    if not describers and version not in message.flexible:
        return None
    if version in message.flexible:
        describers[UNKNOWN_TAGS] = _put_tags
    topics = (field.name for field in fields_at(owner, version) if field.role in ("topic", "topic_id"))
    topic = next(topics, None) if message.name in FETCHES else None

    def describe(value: Tree, context: _Context) -> Tree:
        fields: Tree = {}
        if "protocol_type" in value:
            context.protocol_type = value["protocol_type"]
        if topic is not None:
            context.metadata = value.get(topic) in (METADATA_TOPIC, METADATA_TOPIC_ID)
        for name, item in value.items():
            put = describers.get(name)
            if put is None or item is None:
                fields[name] = item
            elif item is REDACTED:
                fields[name], fields[f"_{name}"] = None, item.value
            else:
                put(fields, name, item, context)
        return fields

    return describe


def _put_tags(fields: Tree, name: str, pairs: list[tuple[int, Any]], _context: _Context) -> None:
    fields[name] = [[tag, None if raw is REDACTED else raw] for tag, raw in pairs]


def _field_describer(message: Message, field: Field, version: int) -> _FieldDescriber | None:
    if field.type == "struct":
        return _nested_describer(message, field, version)
    words = words_of(message, field)
    if words:
        return _words_describer(words, field.array)
    if field.role == "timestamp" and field.type == "int64":
        return _words_describer(timestamp_text, field.array)
    if field.embedded:
        return _embedded_describer(field.embedded)
    if field.role in ("secret", "config_value"):
        return _put
    if (message.name, field.name) == TELEMETRY:
        return _put_metrics
    return SIMPLE.get(field.type)


def _put(fields: Tree, name: str, item: Any, _context: _Context) -> None:
    fields[name] = item


def _nested_describer(message: Message, field: Field, version: int) -> _FieldDescriber | None:
    describe = _struct_describer(message, field, version)
    if describe is None:
        return None

    def put_one(fields: Tree, name: str, item: Any, context: _Context) -> None:
        fields[name] = describe(item, context)

    def put_all(fields: Tree, name: str, items: Any, context: _Context) -> None:
        fields[name] = [describe(item, context) for item in items]

    return put_all if field.array else put_one


def _words_describer(words: Callable[[int], str | None], array: bool) -> _FieldDescriber:
    def put(fields: Tree, name: str, item: Any, _context: _Context) -> None:
        fields[name] = item
        word = words(item)
        if word is not None:
            fields[f"_{name}"] = word

    def put_all(fields: Tree, name: str, items: Any, _context: _Context) -> None:
        fields[name] = items
        fields[f"_{name}"] = [words(item) for item in items]

    return put_all if array else put


def _put_uuid(fields: Tree, name: str, item: Any, context: _Context) -> None:
    names = context.options.names
    if isinstance(item, list):
        fields[name] = [format_uuid(raw) for raw in item]
        topics = [names.get(raw) for raw in item]
        if any(topics):
            fields[f"_{name}"] = topics
        return
    fields[name] = format_uuid(item)
    if item in names:
        fields[f"_{name}"] = names[item]


def _put_float(fields: Tree, name: str, item: Any, _context: _Context) -> None:
    fields[name] = item if math.isfinite(item) else None
    if fields[name] is None:
        fields[f"_{name}"] = str(item)


def _put_records(fields: Tree, name: str, item: Any, context: _Context) -> None:
    options, kind = context.options, RecordsKind.PLAIN
    if context.metadata:
        kind = RecordsKind.METADATA if options.secrets else RecordsKind.METADATA_REDACTED
    fields[name] = item if options.records and kind is not RecordsKind.METADATA_REDACTED else None
    fields[f"_{name}"] = describe_records(item, options.records, kind)


def _put_metrics(fields: Tree, name: str, item: Any, _context: _Context) -> None:
    """Put the sizes of metrics as sent and uncompressed (KIP-714).

    Their content is OpenTelemetry's and stays closed.
    """
    codec = fields.get("compression_type", 0)
    fields[name] = item
    sizes: Tree = {"codec": CODEC_NAMES.get(codec, f"codec {codec}"), "bytes": len(item)}
    plain = decompress(codec, item)
    if isinstance(plain, Damage):
        sizes["_fault"] = plain.reason
    else:
        sizes["plain_bytes"] = len(plain)
    fields[f"_{name}"] = sizes


def _embedded_describer(embedded: str) -> _FieldDescriber:
    """Return the function that decodes bytes in place.

    Groups of other protocols (Kafka Connect, a schema registry) fill the same fields differently.
    """
    of_consumers = embedded.startswith("ConsumerProtocol")

    def put(fields: Tree, name: str, item: Any, context: _Context) -> None:
        fields[name] = item
        if not item or (of_consumers and context.protocol_type not in (None, "", "consumer")):
            return
        decoded = decode_embedded(embedded, item)
        message = MESSAGES[embedded]
        version = min(int.from_bytes(item[:2], "big"), message.versions[-1])
        inside = message_describer(message, version)(decoded.value, context) if decoded.value else {}
        fields[f"_{name}"] = inside | ({"_fault": str(decoded.fault)} if decoded.fault else {})

    return put


SIMPLE: Mapping[str, _FieldDescriber] = {
    "uuid": _put_uuid,
    "float64": _put_float,
    "records": _put_records,
    "bytes": _put,
}
TELEMETRY = ("PushTelemetryRequest", "metrics")
FETCHES = ("FetchResponse", "FetchSnapshotResponse")  # those that may carry the cluster's metadata
ENVELOPES = ("EnvelopeRequest", "EnvelopeResponse")
