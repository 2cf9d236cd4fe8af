"""Answers of the target in memory to Produce requests: batches get offsets that follow each other.

In: a frame with its length. Out: the response, without length and correlation id.

A producer writes to a partition with the same bytes before the records each time, all but the correlation id.
So the answer to the first such request is kept by these bytes, and later ones are read no further than where
their records begin: this target must not be what a replay into it waits for.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

from kdissect.replay.engine.fast_path.expected_answer import ExpectedAnswer, TopicKey, expected_answer
from kdissect.replay.engine.produce_frames import (
    FLEXIBLE,
    Produced,
    produced_in,
    records_in,
    records_span,
)

CORRELATION_BYTES, OFFSET_BYTES = 4, 8
API, VERSION, CLIENT_SIZE = slice(4, 8), slice(6, 8), slice(12, 14)  # in a frame with its length
AFTER_CORRELATION = CLIENT_SIZE.start
MOST_FRONTS, MOST_SIZES = 1 << 12, 8


@dataclass(slots=True)
class DryPartition:
    """A partition of the target."""

    following: int = 0  # the offset of the next record


class KnownFront(NamedTuple):
    """The answer to requests that begin with the same bytes, up to the length of their records."""

    before: bytes  # of the answer, what stands before the offset,
    after: bytes  # and behind it
    partition: DryPartition
    compact: bool


class DryProduces:
    """The offsets of all partitions of the target, and the answers that are kept."""

    def __init__(self) -> None:
        self._partitions: defaultdict[tuple[TopicKey, int], DryPartition] = defaultdict(DryPartition)
        self._known: dict[bytes, KnownFront] = {}
        # The sizes of fronts, the one that was learnt last first, by how long the client id is.
        self._sizes: defaultdict[bytes, list[int]] = defaultdict(list)

    def answer(self, frame: bytes) -> bytes:
        """Return the answer to a Produce request, whose records get the next offsets."""
        api = frame[API]
        for size in self._sizes.get(frame[CLIENT_SIZE], ()):
            known = self._known.get(api + frame[AFTER_CORRELATION:size])
            span = None if known is None else records_span(frame, size, known.compact)
            if known is not None and span is not None:
                base = known.partition.following
                known.partition.following = base + records_in(frame, *span)
                return b"".join((known.before, base.to_bytes(OFFSET_BYTES, "big"), known.after))
        return self._read(frame)

    def _read(self, frame: bytes) -> bytes:
        """Return the answer to a request whose front is not known, and learn it."""
        version = int.from_bytes(frame[VERSION], "big")
        produced = produced_in(frame, version)
        expected = expected_answer(version, produced.partitions)
        response, number = bytearray(expected.bits.to_bytes(expected.size, "big")), 0
        for topic, indices in produced.partitions:
            for index in indices:
                partition, position = self._partitions[topic, index], expected.offsets[number]
                response[position : position + OFFSET_BYTES] = partition.following.to_bytes(
                    OFFSET_BYTES, "big"
                )
                partition.following += produced.records[number]
                number += 1
        if number == 1:
            self._learn(frame, version, produced, expected)
        return bytes(response[CORRELATION_BYTES:])

    def _learn(self, frame: bytes, version: int, produced: Produced, expected: ExpectedAnswer) -> None:
        compact, at = version >= FLEXIBLE, produced.at
        if records_span(frame, at, compact) is None:
            return
        if len(self._known) >= MOST_FRONTS:
            self._known.clear()
            self._sizes.clear()
        sizes = self._sizes[frame[CLIENT_SIZE]]
        if at not in sizes:
            sizes[MOST_SIZES - 1 :] = []
            sizes.insert(0, at)
        ((topic, (index,)),) = produced.partitions
        response, (position,) = expected.bits.to_bytes(expected.size, "big"), expected.offsets
        before, after = response[CORRELATION_BYTES:position], response[position + OFFSET_BYTES :]
        front = frame[API] + frame[AFTER_CORRELATION:at]
        self._known[front] = KnownFront(before, after, self._partitions[topic, index], compact)
