"""How good responses are recognized by their bytes: one comparison tells that all went well.

`ExpectedAnswer` is the response that a Produce request hopes for. A response that is as long as the
expected one, and equal to it wherever no value of the target's own stands, has no error in any partition
and no throttle time. The values of the target's own are offsets and times. They are found by encoding the
response twice with other values: the bytes that change are theirs. Every other response, be it an error,
another order, or an unknown field, is decoded in full.

`AnswerCache` keeps responses of other requests that were decoded before and were good. Most are the same as
the one before.
"""

from functools import cache, lru_cache
from typing import NamedTuple

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import encode_response
from kdissect.protocol.schema.definition import fields_at
from kdissect.protocol.schema.registry import APIS
from kdissect.replay.effects import Part

INT64 = 8  # bytes
OWN_FIELDS = (
    "base_offset",
    "log_append_time_ms",
    "log_start_offset",
)  # int64, as far as the version has them
TopicKey = str | bytes  # a name, or an id where the version has ids
ProducedPartitions = tuple[tuple[TopicKey, tuple[int, ...]], ...]  # as they stand in the request


class ExpectedAnswer(NamedTuple):
    """A frame without its length: its size, which of its bits are compared, and with what."""

    size: int
    mask: int
    bits: int
    offsets: tuple[int, ...]  # where the base offset of each partition stands, in the request's order

    def matches(self, frame: bytes) -> bool:
        """Return whether a response says that all was written, and that nobody is throttled."""
        return len(frame) == self.size and int.from_bytes(frame, "big") & self.mask == self.bits


def offset_at(frame: bytes, position: int) -> int:
    """Return the offset that stands at one of the `offsets` of a response."""
    return int.from_bytes(frame[position : position + INT64], "big", signed=True)


@lru_cache(1 << 14)
def expected_answer(version: int, partitions: ProducedPartitions) -> ExpectedAnswer:
    """Return the response to a Produce request for these topics and partitions."""
    plain = _encoded(version, partitions, ())
    own = [
        position < 4 or a != b
        for position, (a, b) in enumerate(zip(plain, _encoded(version, partitions, OWN_FIELDS), strict=True))
    ]
    mask = int.from_bytes(bytes(0 if is_own else 0xFF for is_own in own), "big")
    changed = _encoded(version, partitions, OWN_FIELDS[:1])
    offsets = [position for position, (a, b) in enumerate(zip(plain, changed, strict=True)) if a != b]
    return ExpectedAnswer(len(plain), mask, int.from_bytes(plain, "big") & mask, tuple(offsets[::INT64]))


def _encoded(version: int, partitions: ProducedPartitions, changed: tuple[str, ...]) -> bytes:
    """Return a response without errors, in which the `changed` fields differ in every byte."""
    fields = _fields_at(version)
    body = {
        "responses": [
            {
                "topic_id" if isinstance(topic, bytes) else "name": topic,
                "partition_responses": [
                    {"index": index} | {name: -(name in changed) for name in OWN_FIELDS if name in fields}
                    for index in indices
                ],
            }
            for topic, indices in partitions
        ]
    }
    return encode_response(ApiKey.PRODUCE, version, {"correlation_id": 0}, body)


@cache
def _fields_at(version: int) -> frozenset[str]:
    """Return the fields of a partition in a response."""
    topics = fields_at(APIS[ApiKey.PRODUCE].response, version)[0]
    partitions = next(field for field in fields_at(topics, version) if field.array)
    return frozenset(field.name for field in fields_at(partitions, version))


LARGEST = 16 << 10  # bytes of a response that is remembered
MOST = 4 << 20  # bytes of all of them
CORRELATION_ID = 4  # bytes at the beginning of a frame, which differ
NOTHING: frozenset[bytes] = frozenset()


class AnswerCache:
    """Responses of the target without an error and without a throttle time, by API and version."""

    def __init__(self) -> None:
        self._known: dict[int, set[bytes]] = {}
        self._bytes = 0

    def knows(self, part: Part, frame: bytes) -> bool:
        """Return whether a request of this kind was answered with these bytes before."""
        return frame[CORRELATION_ID:] in self._known.get(part.key << 16 | part.version, NOTHING)

    def add(self, part: Part, frame: bytes) -> None:
        """Remember a good response.

        If there are too many, all are forgotten, and those that still come are added anew.
        """
        if len(frame) > LARGEST:
            return
        self._bytes += len(frame)
        if self._bytes > MOST:
            self._known.clear()
            self._bytes = len(frame)
        self._known.setdefault(part.key << 16 | part.version, set()).add(frame[CORRELATION_ID:])
