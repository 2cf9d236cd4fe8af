"""Seeds of fuzzing: frames of the recorded captures, random messages, record sets by kafka-python, and
Kafka 0.7."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.exchanges.filter import ExchangeFilter
from kdissect.exchanges.prescan import prescan_capture
from kdissect.exchanges.reader import ExchangeReader
from kdissect.protocol.codec.messages import (
    encode_embedded,
    encode_request,
    encode_response,
)
from kdissect.protocol.kafka07.message_codec import RequestType
from kdissect.protocol.records.record_decoder import read_records
from kdissect.protocol.schema.registry import (
    APIS,
    MESSAGES,
    request_header_version,
)
from tests.fuzz.case import Case
from tests.helpers.kafka07_messages import encode_kafka07_request, encode_kafka07_response
from tests.helpers.kafka_python_records import FORMATS, record_set
from tests.helpers.random_messages import random_message

CAPTURES = Path(__file__).parents[2] / "captures"
OF_EACH = 3  # frames of an API, version and half that are taken from a capture
LARGEST = 1 << 14  # bytes


def captured() -> Iterator[Case]:
    """Yield different frames of all recorded captures."""
    taken: Counter[tuple[int, int, bool]] = Counter()
    for path in sorted(CAPTURES.glob("*.pcap*")):
        splits = index_captures(open_inputs([str(path)], "").files).splits
        for exchange in ExchangeReader(splits, (), prescan_capture(splits)).exchanges(
            ExchangeFilter().header_mask
        ):
            for frame, response in ((exchange.request, False), (exchange.response, True)):
                what = (exchange.api_key or 0, exchange.api_version or 0, response)
                if frame and len(frame.data) <= LARGEST and taken[what] < OF_EACH:
                    taken[what] += 1
                    yield Case(*what, frame.data)


def invented(rng: Random) -> Iterator[Case]:
    """Yield one random message of every API, version and half."""
    for key, api in APIS.items():
        for version in api.versions:
            header = {"request_api_key": key, "request_api_version": version, "correlation_id": 7}
            if request_header_version(key, version):
                header["client_id"] = "me"
            body = random_message(rng, api.request, version)
            yield Case(key, version, False, encode_request(header, body))
            body = random_message(rng, api.response, version)
            yield Case(key, version, True, encode_response(key, version, {"correlation_id": 7}, body))


def record_fields() -> list[Case]:
    """Return records fields of every magic and codec, and what is inside compressed batches."""
    sets = [record_set(magic, codec) for magic, codec in FORMATS]
    assert all(list(read_records(data)) for data in sets)
    return [Case(0, 0, False, data) for data in (*sets, b"".join(sets))]


def compressed() -> list[Case]:
    """Return compressed bytes; `version` is the codec."""
    cases = []
    for magic, codec in FORMATS:
        if codec:
            data = record_set(magic, codec)
            start = {0: 26, 1: 34, 2: 61}[magic]
            cases.append(Case(0, codec, False, data[start:]))
    return cases


def old() -> list[Case]:
    """Return messages of Kafka 0.7; `key` is their type."""
    messages = bytes.fromhex("0000000b 01 00 12345678") + b"hello"
    part = {"topic": "orders", "partition": 3, "offset": 4711, "max_size": 307200}
    sent = {"topic": "orders", "partition": 3, "messages": messages * 2}
    time = {"topic": "orders", "partition": 3, "time": -2, "max_number": 2}
    answers = {"responses": [{"error_code": 0, "messages": messages}, {"error_code": 3, "messages": b""}]}
    asked = [
        (RequestType.PRODUCE, sent),
        (RequestType.FETCH, part),
        (RequestType.MULTI_FETCH, {"requests": [part, part]}),
        (RequestType.MULTI_PRODUCE, {"requests": [sent, sent]}),
        (RequestType.OFFSETS, time),
    ]
    told = [
        (RequestType.FETCH, {"messages": messages}),
        (RequestType.MULTI_FETCH, answers),
        (RequestType.OFFSETS, {"offsets": [9000, 0]}),
    ]
    return [
        *(Case(kind, 0, False, encode_kafka07_request(kind, body)) for kind, body in asked),
        *(Case(kind, 0, True, encode_kafka07_response(kind, 0, body)) for kind, body in told),
    ]


def embedded(rng: Random) -> list[Case]:
    """Return messages that are carried inside others; `key` is the place of their name among all."""
    names = [name for name in MESSAGES if not name.endswith("Header")]
    return [
        Case(
            list(MESSAGES).index(name),
            version,
            False,
            encode_embedded(name, version, random_message(rng, MESSAGES[name], version)),
        )
        for name in names
        for version in MESSAGES[name].versions
    ]
