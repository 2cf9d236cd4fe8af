"""The records inside an exchange: what a Produce writes, and what a Fetch or ShareFetch brings.

In: a decoded exchange and the names of topic ids. Out: `TopicRecord`s with the topic and partition to which
they belong. Records of control batches have `control` set. A batch that cannot be read is passed over, and a
request of Kafka 0.7 has no records here.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.decoded_record import decode_record
from kdissect.exchanges.describe_records import PayloadOptions, RecordsPlace
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.records.record_decoder import CONTROL_NAMES, Record, RecordHeader, read_records

Body = dict[str, Any]


class TopicRecord(NamedTuple):
    """One record, and where it belongs."""

    topic: str | None  # None if only its id is known
    partition: int
    offset: int  # of a Produce: its number in the batch, since the broker gives offsets
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...]
    producer_id: int  # -1 without one
    control: str | None  # such as `commit`; None for a record of a producer


def topic_records(decoded: DecodedExchange, topic_names: Mapping[bytes, str]) -> Iterator[TopicRecord]:
    """Yield the records of an exchange in their order; none for other APIs."""
    for topic, partition, data in _fields(decoded, topic_names):
        for record in read_records(data):
            if isinstance(record, Record):
                yield TopicRecord(
                    topic=topic,
                    partition=partition,
                    offset=record.offset,
                    timestamp_ms=record.timestamp_ms,
                    key=record.key,
                    value=record.value,
                    headers=record.headers,
                    producer_id=record.batch.producer_id,
                    control=None if record.control is None else CONTROL_NAMES.get(record.control, "unknown"),
                )


def any_record_matches(
    decoded: DecodedExchange, topic_names: Mapping[bytes, str], options: PayloadOptions
) -> bool:
    """Return whether a record of an exchange passes the test of `options`; control records do not."""
    if options.where is None:
        return True
    for topic, partition, data in _fields(decoded, topic_names):
        place = RecordsPlace(topic, partition, options)
        for record in read_records(data):
            if isinstance(record, Record) and record.control is None:
                fields = decode_record(record, topic, options.decoder).fields(record, place)
                if options.where(fields):
                    return True
    return False


def _fields(
    decoded: DecodedExchange, topic_names: Mapping[bytes, str]
) -> Iterator[tuple[str | None, int, bytes]]:
    """Yield topic, partition and bytes of each field with records."""
    key = decoded.exchange.api_key
    if decoded.exchange.is_kafka07:
        return
    if key == ApiKey.PRODUCE:
        body = (decoded.request.body if decoded.request else None) or {}
        yield from _each(body, ("topic_data", "partition_data", "index"), topic_names)
    elif key in (ApiKey.FETCH, ApiKey.SHARE_FETCH):
        body = (decoded.response.body if decoded.response else None) or {}
        yield from _each(body, ("responses", "partitions", "partition_index"), topic_names)


def _each(
    body: Body, path: tuple[str, str, str], topic_names: Mapping[bytes, str]
) -> Iterator[tuple[str | None, int, bytes]]:
    topics, partitions, number = path
    for topic in body.get(topics) or ():
        name = topic.get("name") or topic.get("topic") or topic_names.get(topic.get("topic_id", b""))
        for partition in topic.get(partitions) or ():
            if partition.get("records"):
                yield name, partition.get(number, -1), partition["records"]
