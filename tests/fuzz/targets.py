"""Assertions that must hold whatever the bytes are. A target reads a case and asserts; it returns nothing."""

import json
from collections.abc import Callable
from typing import Any

from kdissect.dump.jsonl import json_line
from kdissect.dump.tree_text import tree_lines
from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.describe import (
    DescribeOptions,
    describe_request,
    describe_response,
)
from kdissect.exchanges.describe_records import describe_records
from kdissect.exchanges.exchange import CapturedFrame as Captured
from kdissect.exchanges.exchange import Exchange
from kdissect.exchanges.kafka07_describe import describe_kafka07_message
from kdissect.protocol.codec.messages import (
    DecodedMessage,
    Fault,
    decode_embedded,
    decode_request,
    decode_response,
    encode,
    encode_request,
)
from kdissect.protocol.kafka07.message_codec import decode_kafka07_request, decode_kafka07_response
from kdissect.protocol.records.batch_summary import summary_of
from kdissect.protocol.records.compression import Damage, decompress
from kdissect.protocol.records.record_decoder import (
    RecordFault,
    count_records,
    read_records,
)
from kdissect.protocol.schema.registry import (
    APIS,
    MESSAGES,
    is_known,
    response_header_version,
)
from tests.fuzz.captures import check_capture, check_reader
from tests.fuzz.case import Case
from tests.fuzz.commands import command
from tests.fuzz.streams import framing, tcp
from tests.fuzz.tls import sessions
from tests.helpers.kafka07_messages import encode_kafka07_request, encode_kafka07_response
from tests.protocol.columnar.test_batch_reader import Frame, assert_agreement

LIMIT = 1 << 20  # bytes that one case may decompress
MENTIONED = frozenset({"topic", "topic_id", "group", "error", "resource", "coordinator_key"})


def check_fault(fault: Fault | None, data: bytes) -> None:
    """A fault says where it is, within the bytes, and why."""
    if fault is not None:
        assert 0 <= fault.offset <= len(data), fault
        assert fault.reason, fault


def plain_codec(case: Case) -> None:
    """Decoding ends; what has no fault encodes to what was decoded; whatever it is, it can be shown."""
    whole = _decoded(case)
    check_fault(whole.fault, case.data)
    if whole.fault is None and whole.body is not None:
        again = _encoded(case, whole)
        if again != case.data:  # a varint was longer than need be
            assert len(again) < len(case.data)
            same = _decoded(case._replace(data=again))
            assert repr((same.header, same.body)) == repr((whole.header, whole.body))
    for showing in (DescribeOptions({}), DescribeOptions({bytes(16): "zero"}, records=True, secrets=True)):
        key = case.key if case.key in APIS else None
        said = (
            describe_response(whole, key, None, showing)
            if case.response
            else describe_request(whole, showing)
        )
        check_shown(said)


def check_shown(said: dict[str, Any]) -> None:
    """Both writers can write it, and a terminal can show it."""
    assert json.loads(json_line(said))
    for half in ("header", "body"):
        assert all(line.isprintable() for line in tree_lines(said.get(half) or {}))


def _decoded(case: Case) -> DecodedMessage:
    if case.response:
        return decode_response(case.data, case.key, case.version)
    return decode_request(case.data)


def _encoded(case: Case, whole: DecodedMessage) -> bytes:
    assert whole.body is not None
    assert whole.version is not None
    if not case.response:
        return encode_request(whole.header, whole.body)
    header = encode(MESSAGES["ResponseHeader"], response_header_version(case.key, case.version), whole.header)
    return header + encode(APIS[case.key].response, whole.version, whole.body)


def columns(case: Case) -> None:
    """The columnar reader says the same as the plain codec."""
    data = case.data
    if not case.response:
        if len(data) < 4:
            return
        data = (
            case.key.to_bytes(2, "big", signed=True) + case.version.to_bytes(2, "big", signed=True) + data[4:]
        )
    if is_known(case.key, case.version) and data:
        assert_agreement([Frame(data, case.key, case.version, case.response)])


def filters(case: Case) -> None:
    """Check that filters find their matches without a complaint."""
    frame = Captured(case.data, len(case.data), 1, 1, 0)
    request, response = (None, frame) if case.response else (frame, None)
    decoded = DecodedExchange(Exchange(0, 0, "answered", case.key, case.version, 1, 1, request, response))
    list(decoded.mentions(MENTIONED))


def records(case: Case) -> None:
    """Both readers of records end and agree on how many there are."""
    found = list(read_records(case.data, LIMIT))
    good = not any(isinstance(each, RecordFault) for each in found)
    count = count_records(case.data, LIMIT)
    if good and not isinstance(count, RecordFault):
        assert count == len(found)
    summary = summary_of(case.data)
    if good and not summary["wrappers"] and not summary["fault"]:
        assert summary["records"] == len(found)
    assert json.loads(json_line(describe_records(case.data, True)))


def compression(case: Case) -> None:
    """No codec gives more than it may."""
    for codec in {case.version & 7, *range(6)}:
        plain = decompress(codec, case.data, LIMIT)
        assert isinstance(plain, Damage) or len(plain) <= max(LIMIT, len(case.data))


def old(case: Case) -> None:
    """Messages of Kafka 0.7 are shown, and encode to the same bytes where nothing is wrong."""
    whole = (
        decode_kafka07_response(case.data, case.key) if case.response else decode_kafka07_request(case.data)
    )
    check_fault(whole.fault, case.data)
    check_shown(describe_kafka07_message(whole, True))
    if whole.fault is None and whole.body is not None and len(case.data) > 2:
        if case.response:
            again = encode_kafka07_response(case.key, whole.header["error_code"], whole.body)
        else:
            again = encode_kafka07_request(whole.header["request_type"], whole.body)
        assert again == case.data


def embedded(case: Case) -> None:
    """Messages carried in bytes."""
    decoded = decode_embedded(list(MESSAGES)[case.key], case.data)
    check_fault(decoded.fault, case.data)


TARGETS: dict[str, Callable[[Case], None]] = {
    "codec": plain_codec,
    "columns": columns,
    "filters": filters,
    "records": records,
    "compression": compression,
    "old": old,
    "embedded": embedded,
    "reader": check_reader,
    "tcp": tcp,
    "framing": framing,
    "capture": check_capture,
    "tls": sessions,
    "command": command,
}

STARTS_PROGRAMS = frozenset({"command"})
"""Targets that start other programs, so that their memory is not bounded here."""
