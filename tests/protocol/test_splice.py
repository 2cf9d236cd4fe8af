"""Splicing gives what decoding, changing and encoding gives, byte for byte, and changes nothing else."""

from random import Random
from typing import Any

import pytest
from kafka.record.default_records import DefaultRecordBatch

from kdissect.protocol.codec.messages import (
    decode_request,
    decode_response,
    encode_embedded,
    encode_request,
    encode_response,
)
from kdissect.protocol.schema.definition import (
    Field,
    Message,
    fields_at,
)
from kdissect.protocol.schema.registry import (
    APIS,
    ROLES,
    request_header_version,
)
from kdissect.protocol.spans import Span
from kdissect.protocol.splice import enveloped_request, find, splice
from tests.helpers.random_messages import random_message

PAIRS = [(key, version) for key, api in APIS.items() for version in api.versions]
STRINGS = ("", "renamed", "a much longer name than any that stood there before " * 4)


def replacement(rng: Random, value: Any, kind: str) -> Any:
    if kind in ("string", "int16_string"):
        return rng.choice(STRINGS)
    if kind in ("bytes", "records"):
        return rng.randbytes(rng.choice((0, 3, 300)))
    return {"bool": not value, "uuid": bytes(range(16)), "float64": 2.5}.get(kind, 77)


def changed(
    rng: Random, owner: Message | Field, version: int, tree: dict[str, Any], role: str, log: list[Any]
) -> None:
    """Replace all values of a role in a decoded tree, in wire order."""
    for field in fields_at(owner, version):
        if tree.get(field.name) is None and not (field.name in tree and not field.array):
            continue
        value = tree[field.name]
        if field.type == "struct":
            for item in (value if field.array else [value]) if value is not None else ():
                changed(rng, field, version, item, role, log)
        elif field.role == role and field.array:
            tree[field.name] = [_note(rng, item, field.type, log) for item in value]
        elif field.role == role:
            tree[field.name] = _note(rng, value, field.type, log)


def _note(rng: Random, value: Any, kind: str, log: list[Any]) -> Any:
    new = replacement(rng, value, kind)
    log.append((value, new))
    return new


def plain_roles(message: Message, version: int) -> list[str]:
    """The roles of fields that hold nothing further inside."""

    def walk(owner: Message | Field):
        for field in fields_at(owner, version):
            yield field
            yield from walk(field)

    fields = list(walk(message))
    held = {field.role for field in fields if field.embedded}
    return sorted({field.role for field in fields if field.role} - held - {None})


def encoded(header: dict[str, Any], key: int, version: int, response: bool, body: dict[str, Any]) -> bytes:
    return encode_response(key, version, header, body) if response else encode_request(header, body)


@pytest.mark.parametrize("response", [False, True], ids=["request", "response"])
@pytest.mark.parametrize("key", list(APIS))
def test_splicing_equals_decoding_changing_and_encoding(key: int, response: bool) -> None:
    rng = Random(key * 2 + response)
    for version in APIS[key].versions:
        message = APIS[key].response if response else APIS[key].request
        header: dict[str, Any] = {"correlation_id": 7}
        if not response:
            header |= {"request_api_key": key, "request_api_version": version}
            if request_header_version(key, version):
                header["client_id"] = "someone"
        body = random_message(rng, message, version)
        if key == 18 and response and body["error_code"] == 35:
            body["error_code"] = 0

        frame = encoded(header, key, version, response, body)
        for role in plain_roles(message, version):
            found = find(frame, key, version, response, {role})
            assert found.fault is None
            assert splice(frame, [(span, span.value) for span in found.spans]) == frame
            tree = (decode_response(frame, key, version) if response else decode_request(frame)).body
            log: list[Any] = []
            changed(rng, message, version, tree, role, log)
            spans = [span for span in found.spans if span.batch is None]
            # Where tagged fields stand in another order on the wire than in the tree, values tell which is which.
            assert [span.value for span in spans] == [old for old, _ in log]
            edits = [(span, new) for span, (_, new) in zip(spans, log, strict=True)]
            assert splice(frame, edits) == encoded(header, key, version, response, tree), (
                version,
                role,
            )


def test_all_roles_of_a_frame_are_found_at_once() -> None:
    header = {"request_api_key": 0, "request_api_version": 9, "correlation_id": 5, "client_id": "me"}
    body = {
        "transactional_id": None,
        "acks": 1,
        "timeout_ms": 9,
        "topic_data": [{"name": "t", "partition_data": []}],
    }
    frame = encode_request(header, body)
    spans = find(frame, 0, 9, False, ROLES).spans
    assert [(span.role, span.value) for span in spans] == [
        ("api_key", 0),
        ("api_version", 9),
        ("correlation_id", 5),
        ("client_id", "me"),
        ("transactional_id", None),
        ("acks", 1),
        ("topic", "t"),
    ]
    edited = splice(
        frame, [(span, "x" * 200) for span in spans if span.role in ("client_id", "transactional_id")]
    )
    whole = decode_request(edited)
    assert whole.fault is None
    assert (whole.header["client_id"], whole.body["transactional_id"]) == ("x" * 200, "x" * 200)


@pytest.mark.parametrize("version", [5, 6, 9])
def test_topics_inside_a_subscription_are_renamed_with_every_length_around_them(version: int) -> None:
    def frame(topics: list[str]) -> bytes:
        owned = [{"topic": topic, "partitions": [1]} for topic in topics]
        inner = encode_embedded(
            "ConsumerProtocolSubscription", 1, {"topics": topics, "owned_partitions": owned}
        )
        body = {
            "group_id": "g",
            "protocols": [{"name": "range", "metadata": inner}],
            "protocol_type": "consumer",
        }
        header = {
            "request_api_key": 11,
            "request_api_version": version,
            "correlation_id": 1,
            "client_id": "c",
        }
        return encode_request(header, body)

    before, after = frame(["a", "b"]), frame(["a" * 300, "b" * 300])
    spans = find(before, 11, version, False, {"topic"}).spans
    assert [span.value for span in spans] == ["a", "b", "a", "b"]
    assert splice(before, [(span, span.value * 300) for span in spans]) == after


def enveloped(inner: bytes) -> bytes:
    header = {"request_api_key": 58, "request_api_version": 0, "correlation_id": 1, "client_id": "b"}
    address = {"request_principal": None, "client_host_address": b"\x7f\0\0\1"}
    return encode_request(header, {"request_data": inner} | address)


def answered(inner: bytes | None) -> bytes:
    return encode_response(58, 0, {"correlation_id": 1}, {"response_data": inner, "error_code": 0})


@pytest.mark.parametrize("name", ["n", "n" * 500])
def test_what_is_in_an_envelope_is_spliced_too_both_ways(name: str) -> None:
    header = {"request_api_key": 20, "request_api_version": 4, "correlation_id": 1, "client_id": "c"}

    def asked(topic: str) -> bytes:
        return enveloped(encode_request(header, {"topic_names": [topic], "timeout_ms": 1}))

    def told(topic: str) -> bytes:
        body = {"throttle_time_ms": 0, "responses": [{"name": topic, "error_code": 3}]}
        return answered(encode_response(20, 4, {"correlation_id": 1}, body))

    spans = find(asked("orders"), 58, 0, False, {"topic"}).spans
    assert splice(asked("orders"), [(span, name) for span in spans]) == asked(name)
    what = enveloped_request(asked("orders"))
    assert what == (20, 4)
    found = find(told("orders"), 58, 0, True, {"topic", "correlation_id", "error"}, what)
    assert [(span.role, span.value) for span in found.spans] == [
        ("correlation_id", 1),
        ("correlation_id", 1),
        ("topic", "orders"),
        ("error", 3),
        ("error", 0),
    ]
    edits = [(span, name) for span in found.spans if span.role == "topic"]
    assert splice(told("orders"), edits) == told(name)
    assert not find(told("orders"), 58, 0, True, {"topic"}).spans  # nobody can know what it is


def test_envelopes_that_hold_nothing_known() -> None:
    assert find(answered(None), 58, 0, True, {"topic"}, (20, 4)) == ((), None)
    assert find(answered(b"\0"), 58, 0, True, {"topic"}, (20, 4)) == ((), None)
    for inner in (b"", b"\0", b"\x7f\xff" * 9, enveloped(b"")):
        assert enveloped_request(enveloped(inner)) is None
        assert find(enveloped(inner), 58, 0, False, {"topic"}).fault is None


def test_envelopes_in_envelopes_in_envelopes_stay_closed() -> None:
    frame = b""
    for _ in range(2000):
        frame = enveloped(frame)
    assert [span.value for span in find(frame, 58, 0, False, {"client_id"}).spans] == ["b"]


def test_a_cut_frame_gives_what_stands_before_the_cut() -> None:
    header = {"request_api_key": 3, "request_api_version": 12, "correlation_id": 1, "client_id": "c"}
    frame = encode_request(
        header, {"topics": [{"topic_id": bytes(16), "name": name} for name in ("aaaa", "bbbb")]}
    )
    found = find(frame[:-6], 3, 12, False, {"topic", "client_id"})
    assert [span.value for span in found.spans][:2] == ["c", "aaaa"]
    assert found.fault is not None
    assert find(frame, 3, 99, False, {"topic"}).fault is not None
    assert find(frame, 999, 0, False, {"topic"}).fault is not None


@pytest.mark.parametrize("damage", ["cut", "flip", "more"])
@pytest.mark.parametrize("response", [False, True], ids=["request", "response"])
def test_faults_are_those_of_the_codec_with_path_and_offset(response: bool, damage: str) -> None:
    rng = Random(11 + response)
    faults = 0
    for key, version in PAIRS:
        message = APIS[key].response if response else APIS[key].request
        header: dict[str, Any] = {"correlation_id": 1}
        if not response:
            header |= {"request_api_key": key, "request_api_version": version}
        frame = encoded(header, key, version, response, random_message(rng, message, version))
        at = rng.randrange(4, len(frame) + 1)
        flipped = bytes([rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF))])
        damaged = {"cut": frame[:at], "flip": frame[:at] + flipped + frame[at + 1 :], "more": frame + b"!"}
        data = damaged[damage]
        fault = (decode_response(data, key, version) if response else decode_request(data)).fault
        assert find(data, key, version, response, ROLES).fault == fault
        assert find(data, key, version, response, {"topic"}).fault == fault
        faults += fault is not None
    assert faults > 50


def test_a_fault_names_its_field() -> None:
    topics = [{"topic_id": bytes(16), "name": name} for name in ("aaaa", "bbbb")]
    header = {"request_api_key": 3, "request_api_version": 12, "correlation_id": 1, "client_id": "c"}
    frame = encode_request(header, {"topics": topics})
    fault = find(frame[:-6], 3, 12, False, {"topic"}).fault
    assert fault is not None
    assert (fault.path, fault.offset) == ("topics[1].name", 51)


def test_random_cuts_and_flips_never_raise() -> None:
    rng = Random(3)
    for key, version in PAIRS:
        for response in (False, True):
            message = APIS[key].response if response else APIS[key].request
            body = random_message(rng, message, version)
            header = {"correlation_id": 1} | (
                {} if response else {"request_api_key": key, "request_api_version": version}
            )
            frame = bytearray(
                encode_response(key, version, header, body) if response else encode_request(header, body)
            )
            frame[rng.randrange(len(frame))] ^= 1 << rng.randrange(8)
            damaged = bytes(frame[: rng.randrange(len(frame) + 1)])
            found = find(damaged, key, version, response, ROLES)
            assert all(0 <= span.start <= span.stop <= len(damaged) for span in found.spans)
            assert splice(damaged, [(span, span.value) for span in found.spans]) == damaged


def _batch(records: int, codec: int) -> bytes:
    from kafka.record.default_records import DefaultRecordBatchBuilder

    builder = DefaultRecordBatchBuilder(2, codec, True, 1234, 5, 6, 1 << 20)
    for number in range(records):
        builder.append(number, 1000 + number, b"key %d" % number, b"value" * number, [])
    return bytes(builder.build())


def _produce(records: bytes) -> tuple[bytes, Any]:
    header = {"request_api_key": 0, "request_api_version": 9, "correlation_id": 1, "client_id": "c"}
    partition = {"index": 0, "records": records}
    return encode_request(
        header, {"acks": -1, "timeout_ms": 1, "topic_data": [{"name": "t", "partition_data": [partition]}]}
    ), header


NEW = {"producer_id": 2**62 + 3, "producer_epoch": 32_000, "base_sequence": 123_456_789, "leader_epoch": 42}


@pytest.mark.parametrize("codec", [0, 1])
@pytest.mark.parametrize("records", [1, 2, 700])
def test_the_checksum_of_an_edited_batch_holds_by_another_implementation(records: int, codec: int) -> None:
    batches = _batch(records, codec) + _batch(3, 0)
    frame, _ = _produce(batches)
    spans = find(frame, 0, 9, False, NEW).spans
    assert [span.role for span in spans] == [
        "leader_epoch",
        "producer_id",
        "producer_epoch",
        "base_sequence",
    ] * 2
    assert [span.value for span in spans[1:4]] == [1234, 5, 6]
    edited = splice(frame, [(span, NEW[span.role]) for span in spans])
    assert len(edited) == len(frame)
    field = decode_request(edited).body["topic_data"][0]["partition_data"][0]["records"]
    first = DefaultRecordBatch(field[: len(field) - len(_batch(3, 0))])
    second = DefaultRecordBatch(field[-len(_batch(3, 0)) :])
    for batch in (first, second):
        assert batch.validate_crc()
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (
            2**62 + 3,
            32_000,
            123_456_789,
        )
        assert batch.leader_epoch == 42
    assert [record.value for record in second] == [b"value" * number for number in range(3)]
    changed_bytes = [at for at, (old, new) in enumerate(zip(batches, field, strict=True)) if old != new]
    assert {at % len(batches) for at in changed_bytes} <= {
        start + at
        for start in (0, len(batches) - len(_batch(3, 0)))
        for at in (*range(12, 16), *range(17, 21), *range(43, 57))
    }


def test_a_wrong_checksum_stays_wrong_and_comes_back_with_the_old_value() -> None:
    batch = bytearray(_batch(5, 0))
    batch[18] ^= 0x40
    frame, _ = _produce(bytes(batch))
    spans = find(frame, 0, 9, False, {"producer_id"}).spans
    edited = splice(frame, [(spans[0], 99)])
    field = decode_request(edited).body["topic_data"][0]["partition_data"][0]["records"]
    assert not DefaultRecordBatch(field).validate_crc()
    back = find(edited, 0, 9, False, {"producer_id"}).spans
    assert splice(edited, [(back[0], 1234)]) == frame


def test_tagged_sizes_grow_with_what_is_in_them() -> None:
    body = {
        "responses": [],
        "throttle_time_ms": 0,
        "node_endpoints": [{"node_id": 1, "host": "h", "port": 1, "rack": None}],
    }
    frame = encode_response(0, 10, {"correlation_id": 1}, body)
    spans: tuple[Span, ...] = find(frame, 0, 10, True, {"host"}).spans
    body["node_endpoints"][0]["host"] = "h" * 20_000
    assert splice(frame, [(spans[0], "h" * 20_000)]) == encode_response(0, 10, {"correlation_id": 1}, body)
