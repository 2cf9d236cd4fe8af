"""Produce requests like an earlier one: found many at a time, by their bytes, and kept as they were captured.

In: captured requests, and what an earlier one with the same bytes before its records became (`ProduceLane`).
Out: an `AlikeProduce` for each one: where its records lie in its frame, and the offset that the captured
cluster gave them. Nothing is decoded, and no object but this one is made. The frame that is sent is put
together when its turn has come (see `alike_in_flight`). `AlikeProduce.whole` is the same request as the plain
way prepares it, for whoever needs its parts.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.records.batches import (
    ATTRIBUTES_AT,
    CONTROL,
    PRODUCER_ID_AT,
    is_only_batch,
)
from kdissect.replay.effects import Part
from kdissect.replay.engine.fast_path.expected_answer import expected_answer
from kdissect.replay.engine.fast_path.prepared_parts import NO_OFFSETS, PreparedPart, PreparedRequest
from kdissect.replay.engine.fast_path.produce_templates import (
    FilledProduce,
    ProduceTemplate,
    ProduceTemplates,
    only_partition,
)
from kdissect.replay.handlers.produce_delivery import captured_offsets
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.identifiers import TopicPartition
from kdissect.replay.load.replay_items import ReplayItem, request_column
from kdissect.replay.pass_state import Batches, Texts
from kdissect.replay.settings import Timestamps

COLUMNS = ("index", "connection", "first_ns", "frame_at", "frame_size")
RESPONSE_COLUMNS = ("response_at", "response_size", "response_complete")
NO_OFFSET = -1  # the captured cluster gave none
FLAGS_AT = ATTRIBUTES_AT + 1  # the last byte of the attributes
BELOW_ZERO = 0x80  # in the first byte of a number


class ProduceLane:
    """The first of Produce requests that are alike, but for their records, and what all of them share."""

    __slots__ = ("batches", "first", "notes", "partition", "spoken", "template", "transaction", "version")

    def __init__(
        self,
        template: ProduceTemplate,
        first: PreparedRequest,
        notes: Texts,
        transaction: str | None,
        spoken: tuple[int, int] | None,
    ) -> None:
        self.template, self.first = template, first
        self.notes = notes  # on how it was rewritten
        self.transaction = transaction
        self.spoken = spoken  # the versions of Produce that the target spoke
        self.partition: TopicPartition = first.parts[0].batches[0].partition
        self.batches: dict[int, Batches] = {}  # for the files of the run, by how many records there are

    @property
    def part(self) -> Part:
        """The part of the first request."""
        return self.first.parts[0].part

    def produced(self, records: int) -> Batches:
        """Return what a request with so many records is in the files of the run."""
        known = self.batches.get(records)
        if known is None:
            names = self.first.produced or ()
            known = self.batches[records] = tuple((name, records) for name, _ in names)
        return known


class AlikeProduce(NamedTuple):
    """A Produce request like the first one of its lane."""

    request: int  # its index
    first_ns: int
    frame: bytes  # as captured
    begin: int  # of the batch in it
    stop: int
    offset: int | None  # of the batch on the captured cluster
    lane: ProduceLane

    @property
    def size(self) -> int:
        """Return how many bytes of memory it takes."""
        return len(self.frame)

    @property
    def first_node(self) -> int:
        """Return the node that it goes to."""
        return self.lane.part.node

    @property
    def captured_offsets(self) -> dict[TopicPartition, int]:
        """Return the offset by the partition of the batch."""
        offset = self.offset
        return NO_OFFSETS if offset is None or offset < 0 else {self.lane.partition: offset}

    def whole(self) -> PreparedRequest:
        """Return the request as the plain way prepares it."""
        lane, first = self.lane, self.lane.first
        filled = lane.template.fill(self.frame[self.begin : self.stop])
        assert filled is not None  # it was seen to be one batch
        (like,) = first.parts
        batch = like.batches[0]._replace(batch=filled.batch)
        part = like.part._replace(ready=filled.ready)
        return first._replace(
            parts=(PreparedPart(part, (batch,), (filled.position,), like.expected),),
            captured_offsets=self.captured_offsets,
            produced=lane.produced(filled.batch.records),
            size=len(filled.ready),
            numbered=filled.batch.producer_id >= 0,
        )


class AlikeProduces:
    """The lanes of a pass, and the search for requests that belong to them."""

    def __init__(self, context: ReplayContext) -> None:
        self._context = context
        self._templates = ProduceTemplates[ProduceLane]()
        self._keeps_times = context.settings.timestamps is Timestamps.KEEP

    def forget(self) -> None:
        """Drop all lanes, since leaders have moved."""
        self._templates.forget()

    def noted(self, alike: AlikeProduce) -> AlikeProduce:
        """Return a request, about which is noted how it was rewritten."""
        notes = alike.lane.notes
        if notes:
            self._context.notes.by_request[alike.request] = notes
        return alike

    def among(self, items: Sequence[ReplayItem], first: int, stop: int) -> dict[int, AlikeProduce]:
        """Return those of some items that are like an earlier request, by their places."""
        if not self._templates or not self._keeps_times:
            return {}
        keys, sent = (request_column(items, name, first, stop) for name in ("key", "sent"))
        rows = np.flatnonzero((keys == ApiKey.PRODUCE) & sent)
        if not len(rows):
            return {}
        columns = [request_column(items, name, first, stop)[rows].tolist() for name in COLUMNS]
        at, size, complete = (request_column(items, name, first, stop)[rows] for name in RESPONSE_COLUMNS)
        captured, loaded = self._context.captured, self._context.loaded
        frames = captured.frames(*columns[3:])
        responses = captured.frames(at.tolist(), np.where(complete, size, 0).tolist())
        waits = loaded.retries.keys() | loaded.repeats.keys() | loaded.after.keys()
        found: dict[int, AlikeProduce] = {}
        for row, index, connection, first_ns, frame, response in zip(
            rows.tolist(), *columns[:3], frames, responses, strict=True
        ):
            alike = self._alike(index, connection, first_ns, frame, response)
            if alike is not None and alike.offset is not None and index not in waits:
                found[first + row] = alike
        return found

    def find(self, item: ReplayItem) -> AlikeProduce | None:
        """Return a Produce request that waits for nothing, if it is like an earlier one.

        Raise CodecError for a captured answer that cannot be read.
        """
        request, captured = item.request, self._context.captured
        frame = captured.frame(request.frame) or b""
        response = captured.frame(request.response) if request.response_complete else None
        alike = self._alike(request.index, request.connection, request.first_ns, frame, response or b"")
        if alike is None:
            return None
        if alike.offset is None:
            offset = captured_offsets(self._context, item).get(alike.lane.partition)
            alike = alike._replace(offset=NO_OFFSET if offset is None else offset)
        return self.noted(alike)

    def _alike(
        self, index: int, connection: int, first_ns: int, frame: bytes, response: bytes
    ) -> AlikeProduce | None:
        """Return a request, without its offset if the captured answer does not stand for success."""
        found = self._templates.find(connection, frame)
        if found is None:
            return None
        template, lane, begin, stop = found
        if not is_only_batch(frame, begin, stop) or frame[begin + FLAGS_AT] & CONTROL:
            return None
        if lane.spoken != self._context.cluster.versions.get(ApiKey.PRODUCE):
            return None
        if lane.transaction and frame[begin + PRODUCER_ID_AT] & BELOW_ZERO:
            return None
        return AlikeProduce(index, first_ns, frame, begin, stop, template.offset(response), lane)

    def learn(self, item: ReplayItem, prepared: PreparedRequest) -> PreparedRequest:
        """Have later requests be found that are like one with one batch, and return it."""
        context, request = self._context, item.request
        if len(prepared.nodes) != 1 or prepared.parts[0].part.answerless:
            return prepared
        only = only_partition(context.captured.request(request)["topic_data"])
        if only is None:
            return prepared
        topic, partition, records = only
        (part,) = prepared.parts
        sent = FilledProduce(part.part.ready, part.positions[0], part.batches[0].batch)
        answer = expected_answer(request.version or 0, ((topic, (partition,)),))
        notes = context.notes.by_request.get(request.index, ())
        spoken = context.cluster.versions.get(ApiKey.PRODUCE)
        frame = context.captured.frame(request.frame) or b""
        self._templates.learn(
            request.connection,
            frame,
            records,
            sent,
            answer,
            lambda template: ProduceLane(template, prepared, notes, item.transaction, spoken),
        )
        return prepared
