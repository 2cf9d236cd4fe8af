"""The answer that a Produce request hopes for, as bytes: one comparison tells that all went well, and where the offsets stand.

An answer that is as long as the expected one, and equal to it wherever no number of the target's own stands, has no error in
any partition and asks for no silence. Which bytes are the target's own (offsets and times) is found by encoding the answer twice with
other numbers: what changes is theirs. Everything else, be it an error, another order, or a field that is not known, is
decoded in full.
"""

from functools import cache, lru_cache
from typing import NamedTuple

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import encode_response
from kdissect.protocol.schema.definition import fields_at
from kdissect.protocol.schema.registry import APIS

INT64 = 8
THEIRS = ("base_offset", "log_append_time_ms", "log_start_offset")  # int64, as far as the version has them
Topic = str | bytes  # its name, or its id where the version has ids
Asked = tuple[tuple[Topic, tuple[int, ...]], ...]  # topics and their partitions, as they stand in the request


class Expected(NamedTuple):
    """A frame without its length: its size, which of its bits are compared, and with what."""

    size: int
    mask: int
    bits: int
    offsets: tuple[int, ...]  # where the base offset of each partition stands, in the request's order

    def holds(self, frame: bytes) -> bool:
        """Tell whether an answer says that all was written, and that nobody is throttled."""
        return len(frame) == self.size and int.from_bytes(frame, "big") & self.mask == self.bits


@lru_cache(1 << 14)
def expected(version: int, asked: Asked) -> Expected:
    """Give what answers a request for these topics and partitions."""
    plain = _encoded(version, asked, ())
    own = [
        at < 4 or a != b
        for at, (a, b) in enumerate(zip(plain, _encoded(version, asked, THEIRS), strict=True))
    ]
    mask = int.from_bytes(bytes(0 if each else 0xFF for each in own), "big")
    offsets = _encoded(version, asked, THEIRS[:1])
    starts = [at for at, (a, b) in enumerate(zip(plain, offsets, strict=True)) if a != b][::INT64]
    return Expected(len(plain), mask, int.from_bytes(plain, "big") & mask, tuple(starts))


def _encoded(version: int, asked: Asked, changed: tuple[str, ...]) -> bytes:
    """Encode an answer without errors, in which the numbers that `changed` names differ in every byte."""
    has = _fields_at(version)
    body = {
        "responses": [
            {
                "topic_id" if isinstance(topic, bytes) else "name": topic,
                "partition_responses": [
                    {"index": index} | {name: -(name in changed) for name in THEIRS if name in has}
                    for index in partitions
                ],
            }
            for topic, partitions in asked
        ]
    }
    return encode_response(ApiKey.PRODUCE, version, {"correlation_id": 0}, body)


@cache
def _fields_at(version: int) -> frozenset[str]:
    topics = fields_at(APIS[ApiKey.PRODUCE].response, version)[0]
    partitions = next(field for field in fields_at(topics, version) if field.array)
    return frozenset(field.name for field in fields_at(partitions, version))
