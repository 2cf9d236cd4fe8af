"""Messages of Kafka 0.7 for people and programs: the trees that `describe` makes of all later versions.

In comes a decoded message, out goes a tree. The header of a request is its type, that of a response its error
code. The messages of a message set are listed and, on request, shown; one inside a compressed message stands
below that one.
"""

from collections.abc import Iterator
from typing import Any

from kdissect.exchanges.describe import fault_tree
from kdissect.exchanges.field_search import Mention
from kdissect.protocol.codec.messages import DecodedMessage
from kdissect.protocol.kafka07.message_codec import (
    ANSWERS,
    PARTS,
    Tree,
    kafka07_error_name,
    parts_of,
    request_name,
)
from kdissect.protocol.kafka07.message_sets import (
    SetMessage,
    SetRecord,
    cut_bytes,
    read_set_records,
    set_messages,
)
from kdissect.protocol.records.batches import CODEC_NAMES
from kdissect.protocol.records.record_decoder import RecordFault

TIMES = {-1: "latest", -2: "earliest"}
MOST_RECORDS = 1 << 18  # shown of one field: a small compressed message may hold millions


def describe_kafka07_message(message: DecodedMessage, with_records: bool) -> Tree:
    """Return header, body and fault of a decoded request or response."""
    header = dict(message.header)
    if "request_type" in header:
        header["_request_type"] = request_name(header["request_type"])
    if "error_code" in header:
        header["_error_code"] = kafka07_error_name(header["error_code"])
    fields: Tree = {
        "header": header,
        "body": None if message.body is None else _body(message.body, with_records),
    }
    if message.fault:
        fields["fault"] = fault_tree(message.fault)
    return fields


def kafka07_mentions(
    request: DecodedMessage | None, response: DecodedMessage | None, roles: frozenset[str]
) -> Iterator[Mention]:
    """Yield the topics of a request and the error codes of its response, those of the wanted roles."""
    if request and "topic" in roles:
        yield from (("topic", part["topic"], part) for part in parts_of(request.body) if "topic" in part)
    if response and "error" in roles and response.header:
        answers = (response.body or {}).get(ANSWERS, ())
        yield from (("error", fields["error_code"], fields) for fields in (response.header, *answers))


def _body(body: Tree, with_records: bool) -> Tree:
    fields: Tree = {}
    for name, value in body.items():
        if name in (PARTS, ANSWERS):
            fields[name] = [_body(part, with_records) for part in value]
        elif name == "messages" and value is not None:
            fields[name] = value if with_records else None
            fields["_messages"] = describe_message_set(value, with_records)
        else:
            fields[name] = value
    if "error_code" in fields:
        fields["_error_code"] = kafka07_error_name(fields["error_code"])
    if fields.get("time") in TIMES:
        fields["_time"] = TIMES[fields["time"]]
    return fields


def describe_message_set(data: bytes, with_records: bool) -> Tree:
    """Return the messages of a message set, with the fault of each that has one."""
    batches: dict[int, dict[str, Any]] = {}
    for frame in set_messages(data):
        batches[frame.position] = _fault(frame) if isinstance(frame, RecordFault) else _frame(frame)
    if with_records:
        _add_records(data, batches)
    fields = list(batches.values())
    if cut := cut_bytes(data):
        fields.append({"cut": f"{cut} bytes of a message"})
    return {"bytes": len(data), "batches": fields}


def _frame(frame: SetMessage) -> Tree:
    fields: Tree = {
        "position": frame.position,
        "size": frame.size,
        "magic": frame.magic,
        "attributes": frame.attributes,
    }
    fields["_attributes"] = CODEC_NAMES.get(frame.codec, f"codec {frame.codec}")
    return fields if frame.checksum_holds else fields | {"_crc": "wrong"}


def _fault(fault: RecordFault) -> Tree:
    return {"fault": f"no message at byte {fault.position}: {fault.reason}"}


def _add_records(data: bytes, batches: dict[int, dict[str, Any]]) -> None:
    for number, item in enumerate(read_set_records(data)):
        if number >= MOST_RECORDS:
            list(batches.values())[-1]["fault"] = (
                f"more than {MOST_RECORDS:,} messages: the rest is not shown"
            )
            return
        if isinstance(item, SetRecord):
            batches[item.frame.position].setdefault("records", []).append({"value": item.value})
        else:
            batches[item.position].setdefault("fault", item.reason)
