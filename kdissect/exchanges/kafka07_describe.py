"""An exchange of Kafka 0.7 in words: the trees that a dump shows, as `meaning` makes them for all later versions.

The header of a request is its type, that of a response its error code. `messages` are said what they hold and, on request,
what is in them; a message inside a compressed one stands below the one that it came in.
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
    old_error_name,
    old_name,
    parts_of,
)
from kdissect.protocol.kafka07.message_sets import (
    OldFrame,
    OldRecord,
    cut_bytes,
    old_frames,
    read_old_records,
)
from kdissect.protocol.records.batches import CODEC_NAMES
from kdissect.protocol.records.record_decoder import RecordFault

TIMES = {-1: "latest", -2: "earliest"}
MOST_RECORDS = 1 << 18  # shown of one field: a small compressed message may hold millions


def describe_kafka07_message(message: DecodedMessage, with_records: bool) -> Tree:
    """Give header, body and fault of a decoded request or response."""
    header = dict(message.header)
    if "request_type" in header:
        header["_request_type"] = old_name(header["request_type"])
    if "error_code" in header:
        header["_error_code"] = old_error_name(header["error_code"])
    said: Tree = {
        "header": header,
        "body": None if message.body is None else _body(message.body, with_records),
    }
    if message.fault:
        said["fault"] = fault_tree(message.fault)
    return said


def kafka07_mentions(
    request: DecodedMessage | None, response: DecodedMessage | None, roles: frozenset[str]
) -> Iterator[Mention]:
    """Give the topics that a request names and the error codes of its response, as far as these roles want them."""
    if request and "topic" in roles:
        yield from (("topic", part["topic"], part) for part in parts_of(request.body) if "topic" in part)
    if response and "error" in roles and response.header:
        answers = (response.body or {}).get(ANSWERS, ())
        yield from (("error", said["error_code"], said) for said in (response.header, *answers))


def _body(body: Tree, with_records: bool) -> Tree:
    said: Tree = {}
    for name, value in body.items():
        if name in (PARTS, ANSWERS):
            said[name] = [_body(part, with_records) for part in value]
        elif name == "messages" and value is not None:
            said[name] = value if with_records else None
            said["_messages"] = describe_message_set(value, with_records)
        else:
            said[name] = value
    if "error_code" in said:
        said["_error_code"] = old_error_name(said["error_code"])
    if said.get("time") in TIMES:
        said["_time"] = TIMES[said["time"]]
    return said


def describe_message_set(data: bytes, with_records: bool) -> Tree:
    """Say what a message set holds: its messages, and what is wrong with them."""
    batches: dict[int, dict[str, Any]] = {}
    for frame in old_frames(data):
        batches[frame.position] = _fault(frame) if isinstance(frame, RecordFault) else _frame(frame)
    if with_records:
        _add_records(data, batches)
    said = list(batches.values())
    if cut := cut_bytes(data):
        said.append({"cut": f"{cut} bytes of a message"})
    return {"bytes": len(data), "batches": said}


def _frame(frame: OldFrame) -> Tree:
    said: Tree = {
        "position": frame.position,
        "size": frame.size,
        "magic": frame.magic,
        "attributes": frame.attributes,
    }
    said["_attributes"] = CODEC_NAMES.get(frame.codec, f"codec {frame.codec}")
    return said if frame.checksum_holds else said | {"_crc": "wrong"}


def _fault(fault: RecordFault) -> Tree:
    return {"fault": f"no message at byte {fault.position}: {fault.reason}"}


def _add_records(data: bytes, batches: dict[int, dict[str, Any]]) -> None:
    for number, found in enumerate(read_old_records(data)):
        if number >= MOST_RECORDS:
            list(batches.values())[-1]["fault"] = (
                f"more than {MOST_RECORDS:,} messages: the rest is not shown"
            )
            return
        if isinstance(found, OldRecord):
            batches[found.frame.position].setdefault("records", []).append({"value": found.value})
        else:
            batches[found.position].setdefault("fault", found.reason)
