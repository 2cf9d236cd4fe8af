"""Produce requests like an earlier one: found many at a time, by their bytes, and kept as they were captured.

In: captured requests, and what an earlier one with the same bytes before its records became (`ProduceForm`).
Out: an `AlikeProduce` for each one: where its records lie in its frame, and the offset that the captured
cluster gave them. Nothing is decoded, and no object but this one is made. The frame that is sent is put
together when its turn has come (see `alike_in_flight`). `AlikeProduce.whole` is the same request as the plain
way prepares it, for whoever needs its parts.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdissect.array_types import Int64s
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
    AFTER_CORRELATION,
    CORRELATION,
    LENGTH,
    FilledProduce,
    ProduceTemplate,
    ProduceTemplates,
    only_partition,
)
from kdissect.replay.engine.produce_frames import length_of
from kdissect.replay.handlers.produce_delivery import captured_offsets
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.identifiers import ProducerKey, TopicPartition
from kdissect.replay.load.replay_items import ReplayItem, request_columns
from kdissect.replay.net.connection import wait_ns_of
from kdissect.replay.pass_state import Batches, Texts
from kdissect.replay.settings import Timestamps
from kdissect.replay.target.producers import ProducerIdentity, SequenceNumbering

KEY_AND_SIZE = ("key", "frame_size")
COLUMNS = (
    "index",
    "connection",
    "first_ns",
    "response_complete",
    "frame_at",
    "frame_size",
    "response_at",
    "response_size",
)
NO_OFFSET = -1  # the captured cluster gave none
MOST_SIZES = 1 << 12  # of records, for each form
FLAGS_AT = ATTRIBUTES_AT + 1  # the last byte of the attributes
BELOW_ZERO = 0x80  # in the first byte of a number


class FramePieces(NamedTuple):
    """Bytes that frames with records of one size have in common."""

    front: bytes  # with the length of the frame, up to the correlation id,
    middle: bytes  # from there up to the records, with their length,
    back: bytes  # and behind them
    size: int  # of the frame


class ProduceForm:
    """The first of Produce requests that are alike, but for their records, and what all of them share."""

    __slots__ = (
        "batches",
        "expected",
        "first",
        "fronts",
        "identity",
        "node",
        "notes",
        "numbering",
        "part",
        "partition",
        "producer",
        "spoken",
        "template",
        "transaction",
        "turn",
        "wait_ns",
    )

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
        (only,) = first.parts
        self.part: Part = only.part  # of the first request
        self.expected = only.expected
        self.node, self.wait_ns = self.part.node, wait_ns_of(self.part)
        self.partition: TopicPartition = only.batches[0].partition
        self.fronts: dict[int, FramePieces] = {}  # by the size of records
        self.batches: dict[int, int] = {}  # how many records there are -> what was noted of that
        # The producer of the last request, what it stands for, and when that was looked up.
        self.producer: ProducerKey | None = None
        self.identity: ProducerIdentity | None = None
        self.numbering: SequenceNumbering | None = None
        self.turn = -1

    def produced(self, records: int) -> Batches:
        """Return what a request with so many records is in the files of the run."""
        return tuple((name, records) for name, _ in self.first.produced or ())

    def pieces(self, size: int) -> FramePieces:
        """Return what stands around records of a size, and around the correlation id."""
        known = self.fronts.get(size)
        if known is None:
            if len(self.fronts) >= MOST_SIZES:
                self.fronts.clear()
            front, back = self.template.front, self.template.back
            middle = front[AFTER_CORRELATION:] + length_of(size, self.template.compact)
            whole = AFTER_CORRELATION + len(middle) + size + len(back)
            known = FramePieces(
                whole.to_bytes(LENGTH, "big") + front[: CORRELATION.start], middle, back, whole
            )
            self.fronts[size] = known
        return known


class AlikeProduce(NamedTuple):
    """A Produce request like the first one of its form."""

    request: int  # its index
    first_ns: int
    frame: bytes  # as captured
    begin: int  # of the batch in it
    stop: int
    offset: int  # of the batch on the captured cluster, or NO_OFFSET
    form: ProduceForm

    @property
    def size(self) -> int:
        """Return how many bytes of memory it takes."""
        return len(self.frame)

    @property
    def first_node(self) -> int:
        """Return the node that it goes to."""
        return self.form.node

    @property
    def captured_offsets(self) -> dict[TopicPartition, int]:
        """Return the offset by the partition of the batch."""
        return NO_OFFSETS if self.offset < 0 else {self.form.partition: self.offset}

    def whole(self) -> PreparedRequest:
        """Return the request as the plain way prepares it."""
        form, first = self.form, self.form.first
        filled = form.template.fill(self.frame[self.begin : self.stop])
        assert filled is not None  # it was seen to be one batch
        (like,) = first.parts
        batch = like.batches[0]._replace(batch=filled.batch)
        part = like.part._replace(ready=filled.ready)
        return first._replace(
            parts=(PreparedPart(part, (batch,), (filled.position,), like.expected),),
            captured_offsets=self.captured_offsets,
            produced=form.produced(filled.batch.records),
            size=len(filled.ready),
            numbered=filled.batch.producer_id >= 0,
        )


class AlikeProduces:
    """The forms of a pass, and the search for requests that belong to them."""

    def __init__(self, context: ReplayContext) -> None:
        self._context = context
        self._templates = ProduceTemplates[ProduceForm]()
        self._keeps_times = context.settings.timestamps is Timestamps.KEEP

    def forget(self) -> None:
        """Drop all forms, since leaders have moved."""
        self._templates.forget()

    def note(self, alike: AlikeProduce) -> None:
        """Note how a request is rewritten."""
        notes = alike.form.notes
        if notes:
            self._context.notes.by_request[alike.request] = notes

    def among(
        self, items: Sequence[ReplayItem], places: Int64s, most_bytes: int
    ) -> list[tuple[int, AlikeProduce | None]]:
        """Return the first of some places of items, each with its request if that is like an earlier one.

        Their frames have so many bytes at most, or there is one only.
        """
        first, stop = int(places[0]), int(places[-1]) + 1
        keys, sizes = (each[places - first] for each in request_columns(items, KEY_AND_SIZE, first, stop))
        few = places[: max(int((sizes.cumsum() <= most_bytes).sum()), 1)]
        produces = few[keys[: len(few)] == ApiKey.PRODUCE]
        found: dict[int, AlikeProduce | None] = {}
        if len(produces) and self._templates and self._keeps_times:
            columns = request_columns(items, COLUMNS, first, int(produces[-1]) + 1)
            alike = self._search([each[produces - first] for each in columns])
            found = dict(zip(produces.tolist(), alike, strict=True))
        return [(place, found.get(place)) for place in few.tolist()]

    def _search(self, columns: list[NDArray[Any]]) -> Iterator[AlikeProduce | None]:
        """Yield each of some Produce requests; None for one that is not like an earlier one."""
        indices, connections, times_ns, complete, *at = columns
        at[3] = np.where(complete, at[3], 0)
        positions, sizes = (np.stack(each, axis=1).ravel().tolist() for each in (at[::2], at[1::2]))
        frames = self._context.captured.frames(positions, sizes)  # request and response in turns
        waits, spoken, find = self._context.loaded.produce_waits, self._spoken, self._templates.find
        for index, connection, first_ns, frame, response in zip(
            indices.tolist(), connections.tolist(), times_ns.tolist(), frames[::2], frames[1::2], strict=True
        ):
            known = find(connection, frame)
            if known is None or waits(index):
                yield None
                continue
            template, form, begin, end = known
            offset = template.offset(response)
            if offset is None or not _fits(form, spoken, frame, begin, end):
                yield None
            else:
                yield AlikeProduce(index, first_ns, frame, begin, end, offset, form)

    def find(self, item: ReplayItem) -> AlikeProduce | None:
        """Return a Produce request that waits for nothing, if it is like an earlier one.

        Raise CodecError for a captured answer that cannot be read.
        """
        request, captured = item.request, self._context.captured
        frame = captured.frame(request.frame) or b""
        known = self._templates.find(request.connection, frame)
        if known is None:
            return None
        template, form, begin, end = known
        if not _fits(form, self._spoken, frame, begin, end):
            return None
        response = captured.frame(request.response) if request.response_complete else None
        offset = template.offset(response or b"")
        if offset is None:
            offset = captured_offsets(self._context, item).get(form.partition, NO_OFFSET)
        alike = AlikeProduce(request.index, request.first_ns, frame, begin, end, offset, form)
        self.note(alike)
        return alike

    @property
    def _spoken(self) -> tuple[int, int] | None:
        """The versions of Produce that the target speaks."""
        return self._context.cluster.versions.get(ApiKey.PRODUCE)

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
        spoken = self._spoken
        frame = context.captured.frame(request.frame) or b""
        self._templates.learn(
            request.connection,
            frame,
            records,
            sent,
            answer,
            lambda template: ProduceForm(template, prepared, notes, item.transaction, spoken),
        )
        return prepared


def _fits(form: ProduceForm, spoken: tuple[int, int] | None, frame: bytes, begin: int, end: int) -> bool:
    """Return whether frame[begin:end] is one batch that may be sent as the first one of a form was."""
    if form.spoken != spoken or not is_only_batch(frame, begin, end) or frame[begin + FLAGS_AT] & CONTROL:
        return False
    return form.transaction is None or not frame[begin + PRODUCER_ID_AT] & BELOW_ZERO
