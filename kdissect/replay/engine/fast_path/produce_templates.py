"""Produce requests like an earlier one, made of its bytes: nothing is decoded, and nothing is encoded.

In: the captured frame and the prepared bytes of a request with one batch. Out: for every later request with
the same bytes before and behind its records, one such as a producer sends by the million, what is sent.

The bytes before the records (all but the correlation id) are compared as a whole, so they mean what they
meant in the earlier request. Behind the records nothing may stand but empty tagged fields. A frame that is
not of this form is left to the plain way.
"""

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

from kdissect.protocol.records.batches import HEADER_BYTES, is_only_batch
from kdissect.replay.engine.fast_path.expected_answer import ExpectedAnswer, TopicKey, offset_at
from kdissect.replay.engine.produce_frames import FLEXIBLE, NO_TAGS, length_of, records_span
from kdissect.replay.handlers.produce import ZSTD_VERSION
from kdissect.replay.rewrite.batch_rewrite import CapturedBatch, batch_of, rewritten_head

VERSION, CORRELATION = slice(2, 4), slice(4, 8)  # in a captured frame
AFTER_CORRELATION = CORRELATION.stop
LENGTH = 4  # bytes before a frame that is sent
MOST_TEMPLATES, MOST_SIZES = 1 << 12, 8

V = TypeVar("V")


class FilledProduce(NamedTuple):
    """A Produce request as it is sent."""

    ready: bytes  # the whole frame, but for its correlation id
    position: int  # of its batch
    batch: CapturedBatch  # as captured, with its header only


class ProduceTemplate(NamedTuple):
    """Bytes of Produce requests that differ in their records only."""

    front: bytes  # what is sent from the API key on, up to the length of the records
    back: bytes  # what is sent behind the records
    compact: bool  # how that length is written there
    answer: ExpectedAnswer  # the captured response, if all went well

    def fill(self, records: bytes) -> FilledProduce | None:
        """Return a request with these records; None if they are not one batch of magic 2."""
        if not is_only_batch(records, 0, len(records)):
            return None
        batch = batch_of(records)
        head = rewritten_head(batch, batch.producer_id, batch.producer_epoch, batch.base_sequence)
        size = length_of(len(records), self.compact)
        position = LENGTH + len(self.front) + len(size)
        whole = position - LENGTH + len(records) + len(self.back)
        rest = memoryview(records)[HEADER_BYTES:]
        ready = b"".join((whole.to_bytes(LENGTH, "big"), self.front, size, head, rest, self.back))
        return FilledProduce(ready, position, batch._replace(data=records[:HEADER_BYTES]))

    def offset(self, response: bytes) -> int | None:
        """Return the offset that a captured response tells; None if it is not the one of success."""
        if not self.answer.matches(response):
            return None
        return offset_at(response, self.answer.offsets[0])


FoundTemplate = tuple[ProduceTemplate, V, int, int]  # with its value, and where the records begin and end
LastFound = tuple[bytes, bytes, bytes, FoundTemplate[V]]  # with what stands before and behind the records


class ProduceTemplates(Generic[V]):
    """Templates of a pass, each with a value, by the bytes of captured frames before their records."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[ProduceTemplate, V]] = {}
        self._sizes: dict[int, list[int]] = {}  # connection -> how many bytes stand before the records
        self._last: dict[tuple[int, int], LastFound[V]] = {}  # by connection and size of the frame

    def forget(self) -> None:
        """Drop all templates, since leaders have moved."""
        self._known.clear()
        self._sizes.clear()
        self._last.clear()

    def __len__(self) -> int:
        return len(self._known)

    def find(self, connection: int, frame: bytes) -> FoundTemplate[V] | None:
        """Return the template of a frame, its value, and where the records of the frame begin and end.

        None if none is known. Two frames of one size with the same front have their records at one place.
        """
        place = connection, len(frame)
        last = self._last.get(place)
        if last is not None:
            front, middle, back, found = last
            if (
                frame.startswith(front)
                and frame.startswith(middle, AFTER_CORRELATION)
                and frame.endswith(back)
            ):
                return found
        for size in self._sizes.get(connection, ()):
            known = self._known.get(frame[: CORRELATION.start] + frame[AFTER_CORRELATION:size])
            if known is not None:
                span = records_span(frame, size, int.from_bytes(frame[VERSION], "big") >= FLEXIBLE)
                if span is not None:
                    begin, stop = span
                    found = (*known, begin, stop)
                    if len(self._last) >= MOST_TEMPLATES:
                        self._last.clear()
                    front, middle = frame[: CORRELATION.start], frame[AFTER_CORRELATION:begin]
                    self._last[place] = front, middle, frame[stop:], found
                    return found
        return None

    def learn(
        self,
        connection: int,
        frame: bytes,
        records: bytes,
        sent: FilledProduce,
        answer: ExpectedAnswer,
        value: Callable[[ProduceTemplate], V],
    ) -> None:
        """Learn from a request that was prepared in the plain way, unless its form cannot be repeated.

        `value` returns what is kept with a template.
        """
        compact = int.from_bytes(frame[VERSION], "big") >= FLEXIBLE
        sent_version = int.from_bytes(sent.ready[LENGTH + 2 : LENGTH + 4], "big")
        sent_compact = sent_version >= FLEXIBLE
        tail = NO_TAGS if compact else b""
        size = len(frame) - len(tail) - len(records) - len(length_of(len(records), compact))
        if sent_version < ZSTD_VERSION or size < AFTER_CORRELATION:
            return
        begin = sent.position - len(length_of(len(records), sent_compact))
        back = sent.ready[sent.position + len(records) :]
        template = ProduceTemplate(sent.ready[LENGTH:begin], back, sent_compact, answer)
        span = records_span(frame, size, compact)
        if span is None or frame[slice(*span)] != records or template.fill(records) != sent:
            return
        self._last.clear()
        if len(self._known) >= MOST_TEMPLATES:
            self.forget()
        sizes = self._sizes.setdefault(connection, [])
        if size not in sizes:
            sizes[MOST_SIZES - 1 :] = []
            sizes.insert(0, size)
        self._known[frame[: CORRELATION.start] + frame[AFTER_CORRELATION:size]] = template, value(template)


def only_partition(topics: Iterable[dict[str, Any]]) -> tuple[TopicKey, int, bytes] | None:
    """Return topic, partition and records of a captured request; None if it writes to several, or nothing."""
    found = [
        (topic.get("name") or topic["topic_id"], each["index"], each["records"])
        for topic in topics
        for each in topic["partition_data"]
    ]
    return found[0] if len(found) == 1 and found[0][2] else None
