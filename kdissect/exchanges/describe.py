"""Say what a decoded message means: the tree of the codec, with words beside the numbers.

What comes out has the fields of the schema with values that JSON knows (and bytes, for the writer to put as it likes).
Beside a field may stand the same name with an underscore in front (no field of Kafka begins with one): the name of an
error or an enumeration, the topic that an id means, what bytes hold inside, or why there is no value:

    "error_code": 3, "_error_code": "UNKNOWN_TOPIC_OR_PARTITION"
    "topic_id": "7Gpn0KOZQFe1SkTGPbeCOA", "_topic_id": "orders"
    "auth_bytes": null, "_auth_bytes": "redacted"

The functions that do so are compiled once for each message and version; parts of a message that need no words are passed
on as they are.
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
    """What the user wants to see, and what is known besides the message itself."""

    names: Mapping[bytes, str]  # topic id -> name
    records: bool = False
    secrets: bool = False


@dataclass(slots=True)
class _Context:
    showing: DescribeOptions
    protocol_type: str | None  # of the group that the message, or the struct being read, is about
    metadata: bool = False  # whether the topic being read is the cluster's metadata log


_Explainer = Callable[[Tree, _Context], Tree]
_Teller = Callable[[Tree, str, Any, _Context], None]  # (where to put it, field name, value, context)


def describe_request(whole: DecodedMessage, showing: DescribeOptions) -> Tree:
    """Give header, body and fault of a decoded request."""
    api = APIS.get(whole.header.get("request_api_key", -1))
    return _explain(whole, api.request if api else None, whole.body or {}, showing)


def describe_response(
    whole: DecodedMessage, key: int | None, asked: Tree | None, showing: DescribeOptions
) -> Tree:
    """Give header, body and fault of a decoded response to `key`; `asked` is the request's body, if there is one."""
    api = None if key is None else APIS.get(key)
    return _explain(whole, api.response if api else None, asked or {}, showing)


def describe_token(frame: CapturedFrame, options: DescribeOptions) -> Tree:
    """Return header and body of a raw SASL token, which follows SaslHandshake 0 and has nothing of Kafka.

    A token is secret from its first byte to its last: a PLAIN token is the password itself.
    """
    body: Tree = {"token": frame.data}
    if frame.data and not options.secrets:
        body |= {"token": None, "_token": REDACTED.value}
    return {"header": {}, "body": body}


def fault_tree(fault: Fault | None) -> Tree | None:
    """Give a fault as a tree."""
    return None if fault is None else {"path": fault.path, "offset": fault.offset, "reason": fault.reason}


def _explain(whole: DecodedMessage, message: Message | None, asked: Tree, showing: DescribeOptions) -> Tree:
    said: Tree = {"header": _plain(whole.header), "body": None}
    if message is not None and whole.body is not None and whole.version is not None:
        body = whole.body
        protocol = body.get("protocol_type", asked.get("protocol_type"))
        context = _Context(showing, protocol)
        shown = body if showing.secrets else redact(message, whole.version, body)
        said["body"] = message_describer(message, whole.version)(shown, context)
        if message.name in ENVELOPES:
            _add_enveloped(said["body"], body, asked, showing)
    if whole.fault:
        said["fault"] = fault_tree(whole.fault)
    return said


def _plain(header: Tree) -> Tree:
    """Give a header: tagged fields nobody knows are the only thing in it that JSON does not know."""
    if UNKNOWN_TAGS not in header:
        return header
    return header | {UNKNOWN_TAGS: [list(pair) for pair in header[UNKNOWN_TAGS]]}


def _add_enveloped(said: Tree, body: Tree, asked: Tree, showing: DescribeOptions) -> None:
    """Add what the whole messages inside an Envelope say (KIP-590); an Envelope in one, which Kafka refuses, stays closed."""
    if REDACTED in (body.get("request_data"), body.get("response_data"), asked.get("request_data")):
        return
    request = decode_request(body.get("request_data") or asked.get("request_data") or b"")
    key, version = request.header.get("request_api_key", -1), request.header.get("request_api_version", 0)
    if key == ApiKey.ENVELOPE:
        return
    if body.get("request_data"):
        said["_request_data"] = describe_request(request, showing)
    if body.get("response_data"):
        whole = decode_response(body["response_data"], key, version)
        said["_response_data"] = describe_response(whole, key, request.body, showing)


@cache
def message_describer(message: Message, version: int) -> _Explainer:
    """Compile the function that explains a message in one version."""
    return _struct_explainer(message, message, version) or _unchanged


def _unchanged(value: Tree, _context: _Context) -> Tree:
    return value if UNKNOWN_TAGS not in value else _with_tags(value)


def _with_tags(value: Tree) -> Tree:
    return value | {
        UNKNOWN_TAGS: [[tag, None if raw is REDACTED else raw] for tag, raw in value[UNKNOWN_TAGS]]
    }


def _struct_explainer(message: Message, owner: Message | Field, version: int) -> _Explainer | None:
    tellers = {}
    for field in fields_at(owner, version):
        teller = _teller(message, field, version)
        if teller:
            tellers[field.name] = teller
    if not tellers and version not in message.flexible:
        return None
    if version in message.flexible:
        tellers[UNKNOWN_TAGS] = _tell_tags
    topics = (field.name for field in fields_at(owner, version) if field.role in ("topic", "topic_id"))
    topic = next(topics, None) if message.name in FETCHES else None

    def explain(value: Tree, context: _Context) -> Tree:
        said: Tree = {}
        if "protocol_type" in value:
            context.protocol_type = value["protocol_type"]
        if topic is not None:
            context.metadata = value.get(topic) in (METADATA_TOPIC, METADATA_TOPIC_ID)
        for name, item in value.items():
            tell = tellers.get(name)
            if tell is None or item is None:
                said[name] = item
            elif item is REDACTED:
                said[name], said[f"_{name}"] = None, item.value
            else:
                tell(said, name, item, context)
        return said

    return explain


def _tell_tags(said: Tree, name: str, pairs: list[tuple[int, Any]], _context: _Context) -> None:
    said[name] = [[tag, None if raw is REDACTED else raw] for tag, raw in pairs]


def _teller(message: Message, field: Field, version: int) -> _Teller | None:
    if field.type == "struct":
        return _struct_teller(message, field, version)
    words = words_of(message, field)
    if words:
        return _words_teller(words, field.array)
    if field.role == "timestamp" and field.type == "int64":
        return _words_teller(timestamp_text, field.array)
    if field.embedded:
        return _embedded_teller(field.embedded)
    if field.role in ("secret", "config_value"):
        return _put
    if (message.name, field.name) == TELEMETRY:
        return _tell_metrics
    return SIMPLE.get(field.type)


def _put(said: Tree, name: str, item: Any, _context: _Context) -> None:
    said[name] = item


def _struct_teller(message: Message, field: Field, version: int) -> _Teller | None:
    explain = _struct_explainer(message, field, version)
    if explain is None:
        return None

    def tell_one(said: Tree, name: str, item: Any, context: _Context) -> None:
        said[name] = explain(item, context)

    def tell_all(said: Tree, name: str, items: Any, context: _Context) -> None:
        said[name] = [explain(item, context) for item in items]

    return tell_all if field.array else tell_one


def _words_teller(words: Callable[[int], str | None], array: bool) -> _Teller:
    def tell(said: Tree, name: str, item: Any, _context: _Context) -> None:
        said[name] = item
        word = words(item)
        if word is not None:
            said[f"_{name}"] = word

    def tell_all(said: Tree, name: str, items: Any, _context: _Context) -> None:
        said[name] = items
        said[f"_{name}"] = [words(item) for item in items]

    return tell_all if array else tell


def _tell_uuid(said: Tree, name: str, item: Any, context: _Context) -> None:
    names = context.showing.names
    if isinstance(item, list):
        said[name] = [format_uuid(raw) for raw in item]
        known = [names.get(raw) for raw in item]
        if any(known):
            said[f"_{name}"] = known
        return
    said[name] = format_uuid(item)
    if item in names:
        said[f"_{name}"] = names[item]


def _tell_float(said: Tree, name: str, item: Any, _context: _Context) -> None:
    said[name] = item if math.isfinite(item) else None
    if said[name] is None:
        said[f"_{name}"] = str(item)


def _tell_records(said: Tree, name: str, item: Any, context: _Context) -> None:
    showing, kind = context.showing, RecordsKind.PLAIN
    if context.metadata:
        kind = RecordsKind.METADATA if showing.secrets else RecordsKind.METADATA_REDACTED
    said[name] = item if showing.records and kind is not RecordsKind.METADATA_REDACTED else None
    said[f"_{name}"] = describe_records(item, showing.records, kind)


def _tell_metrics(said: Tree, name: str, item: Any, _context: _Context) -> None:
    """Say how large metrics are as sent and as meant (KIP-714); they are OpenTelemetry's, and not opened."""
    codec = said.get("compression_type", 0)
    said[name] = item
    sizes: Tree = {"codec": CODEC_NAMES.get(codec, f"codec {codec}"), "bytes": len(item)}
    plain = decompress(codec, item)
    if isinstance(plain, Damage):
        sizes["_fault"] = plain.reason
    else:
        sizes["plain_bytes"] = len(plain)
    said[f"_{name}"] = sizes


def _embedded_teller(embedded: str) -> _Teller:
    """Decode bytes in place. Groups of other protocols (Kafka Connect's, a registry's) fill the same fields differently."""
    of_consumers = embedded.startswith("ConsumerProtocol")

    def tell(said: Tree, name: str, item: Any, context: _Context) -> None:
        said[name] = item
        if not item or (of_consumers and context.protocol_type not in (None, "", "consumer")):
            return
        decoded = decode_embedded(embedded, item)
        message = MESSAGES[embedded]
        version = min(int.from_bytes(item[:2], "big"), message.versions[-1])
        inside = message_describer(message, version)(decoded.value, context) if decoded.value else {}
        said[f"_{name}"] = inside | ({"_fault": str(decoded.fault)} if decoded.fault else {})

    return tell


SIMPLE: Mapping[str, _Teller] = {
    "uuid": _tell_uuid,
    "float64": _tell_float,
    "records": _tell_records,
    "bytes": _put,
}
TELEMETRY = ("PushTelemetryRequest", "metrics")
FETCHES = ("FetchResponse", "FetchSnapshotResponse")  # those that may carry the cluster's metadata
ENVELOPES = ("EnvelopeRequest", "EnvelopeResponse")
