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
from functools import cache, partial
from typing import Any

from kdissect.exchanges.describe_records import (
    PayloadOptions,
    RecordsKind,
    RecordsPlace,
    describe_records,
    timestamp_text,
)
from kdissect.exchanges.exchange import CapturedFrame
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import (
    DecodedMessage,
    Fault,
    decode_request,
    decode_response,
)
from kdissect.protocol.enums import words_of
from kdissect.protocol.metadata_records import TOPIC as METADATA_TOPIC
from kdissect.protocol.metadata_records import TOPIC_ID as METADATA_TOPIC_ID
from kdissect.protocol.records.batches import CODEC_NAMES
from kdissect.protocol.records.compression import Damage, decompress
from kdissect.protocol.redact import REDACTED, redact
from kdissect.protocol.schema.definition import UNKNOWN_TAGS, Field, Message, fields_at
from kdissect.protocol.schema.registry import APIS
from kdissect.protocol.visitor import (
    CONSUMER_MESSAGES,
    Enter,
    Leaf,
    Noted,
    Tree,
    Visit,
    Visitor,
    compile_visit,
    embedded_message,
    is_consumer_protocol,
)
from kdissect.text import format_uuid

RAW_SASL_NAME = "SaslToken"


@dataclass(frozen=True, slots=True)
class DescribeOptions:
    """Choices of the user, and the names of topics."""

    names: Mapping[bytes, str]  # topic id -> name
    records: bool = False
    secrets: bool = False
    payload: PayloadOptions = PayloadOptions()  # noqa: RUF009 - frozen


@dataclass(slots=True)
class _Context:
    options: DescribeOptions
    protocol_type: str | None  # of the group that the message, or the struct being read, is about
    metadata: bool = False  # whether the topic being read is the cluster's metadata log
    topic: str | None = None  # the topic being read, of a message with records
    partition: int | None = None


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
def message_describer(message: Message, version: int) -> Visit[_Context]:
    """Return the function that describes a message in one version; what it is given stays as it is."""
    return compile_visit(_DESCRIBE, message, version) or (lambda value, _context: value)


def _enter(message: Message, owner: Message | Field, version: int) -> Enter[_Context]:
    topics = (field.name for field in fields_at(owner, version) if field.role in ("topic", "topic_id"))
    topic = next(topics, None) if message.name in WITH_RECORDS else None
    number = next((field.name for field in fields_at(owner, version) if field.role == "partition"), None)

    def enter(struct: Tree, context: _Context) -> _Context:
        if "protocol_type" in struct:
            context.protocol_type = struct["protocol_type"]
        if topic is not None:
            context.metadata = struct.get(topic) in (METADATA_TOPIC, METADATA_TOPIC_ID)
            name = struct.get(topic)
            context.topic = context.options.names.get(name) if isinstance(name, bytes) else name
        if number is not None:
            context.partition = struct.get(number)
        return context

    return enter


def _leaf(message: Message, field: Field, _version: int) -> Leaf[_Context] | None:
    leaf = _description(message, field)
    if leaf is None:
        return None

    def describe(value: Any, struct: Tree, context: _Context) -> Any:
        return Noted(None, value.value) if value is REDACTED else leaf(value, struct, context)

    return describe


def _description(message: Message, field: Field) -> Leaf[_Context] | None:
    words = number_words(message, field)
    if words:
        return _in_words(words, field.array)
    if field.embedded:
        return partial(_describe_embedded, field.embedded)
    if (message.name, field.name) == TELEMETRY:
        return _describe_metrics
    if field.role in ("secret", "config_value"):
        return _as_it_is
    return SIMPLE.get(field.type)


def number_words(message: Message, field: Field) -> Callable[[int], str | None] | None:
    """Return the function that puts the numbers of a field in words; None if they have none."""
    is_time = field.role == "timestamp" and field.type == "int64"
    return words_of(message, field) or (timestamp_text if is_time else None)


def _as_it_is(value: Any, _struct: Tree, _context: _Context) -> Any:
    return value


def _in_words(words: Callable[[int], str | None], array: bool) -> Leaf[_Context]:
    def one(value: int, _struct: Tree, _context: _Context) -> Any:
        word = words(value)
        return value if word is None else Noted(value, word)

    def each(values: list[int], _struct: Tree, _context: _Context) -> Any:
        return Noted(values, [words(value) for value in values])

    return each if array else one


def _describe_uuid(value: Any, _struct: Tree, context: _Context) -> Any:
    names = context.options.names
    if isinstance(value, list):
        texts, known = [format_uuid(raw) for raw in value], [names.get(raw) for raw in value]
        return Noted(texts, known) if any(known) else texts
    return Noted(format_uuid(value), names[value]) if value in names else format_uuid(value)


def _describe_float(value: float, _struct: Tree, _context: _Context) -> Any:
    return value if math.isfinite(value) else Noted(None, str(value))


def _describe_records(value: bytes, _struct: Tree, context: _Context) -> Noted:
    options, kind = context.options, RecordsKind.PLAIN
    if context.metadata:
        kind = RecordsKind.METADATA if options.secrets else RecordsKind.METADATA_REDACTED
    shown = value if options.records and kind is not RecordsKind.METADATA_REDACTED else None
    place = RecordsPlace(context.topic, context.partition, options.payload)
    return Noted(shown, describe_records(value, options.records, kind, place))


def _describe_metrics(value: bytes, struct: Tree, _context: _Context) -> Noted:
    """Return the sizes of metrics as sent and uncompressed (KIP-714).

    Their content is OpenTelemetry's and stays closed.
    """
    codec = struct.get("compression_type", 0)
    sizes: Tree = {"codec": CODEC_NAMES.get(codec, f"codec {codec}"), "bytes": len(value)}
    plain = decompress(codec, value)
    if isinstance(plain, Damage):
        sizes["_fault"] = plain.reason
    else:
        sizes["plain_bytes"] = len(plain)
    return Noted(value, sizes)


def _describe_embedded(name: str, value: bytes, _struct: Tree, context: _Context) -> Any:
    if not value or (name in CONSUMER_MESSAGES and not is_consumer_protocol(context.protocol_type)):
        return value
    message, version, decoded = embedded_message(name, value)
    inside = message_describer(message, version)(decoded.value, context) if decoded.value else {}
    return Noted(value, inside | ({"_fault": str(decoded.fault)} if decoded.fault else {}))


SIMPLE: Mapping[str, Leaf[_Context]] = {
    "uuid": _describe_uuid,
    "float64": _describe_float,
    "records": _describe_records,
    "bytes": _as_it_is,
}
TELEMETRY = ("PushTelemetryRequest", "metrics")
WITH_RECORDS = ("ProduceRequest", "FetchResponse", "ShareFetchResponse", "FetchSnapshotResponse")
ENVELOPES = ("EnvelopeRequest", "EnvelopeResponse")

_DESCRIBE = Visitor(
    _leaf,
    _enter,
    unknown_tags=lambda tags: [[tag, None if raw is REDACTED else raw] for tag, raw in tags],
    copies=True,
    whole_arrays=True,
)
