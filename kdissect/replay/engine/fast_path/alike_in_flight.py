"""Produce requests like an earlier one from sending to the answer: one object for each, and no parts.

In: an `AlikeProduce` whose turn has come. Out: a frame, put together of the front of the first request of its
lane, the header with producer and number, and the captured records; and the answer, at the place where the
player accounts for it. This is for requests that go out at once and are answered with success. All else (no
connection yet, a transaction, an error) is left to `in_flight`, with the same request in its parts.
"""

from collections.abc import Callable
from struct import Struct
from typing import cast

from kdissect.protocol.records.batches import HEADER_BYTES, PRODUCER_ID_AT
from kdissect.replay.disposition import Disposition
from kdissect.replay.effects import Answer
from kdissect.replay.engine.connection_queue import ConnectionQueue
from kdissect.replay.engine.fast_path.alike_produces import AlikeProduce
from kdissect.replay.engine.fast_path.in_flight import FastPath, InFlightProduce
from kdissect.replay.engine.produce_frames import length_of
from kdissect.replay.handlers.produce_delivery import learn_written
from kdissect.replay.net.connection import wait_ns_of
from kdissect.replay.rewrite.batch_rewrite import SEQUENCE_LIMIT, head_with
from kdissect.replay.target.producers import SequenceNumbering

PRODUCER = Struct(">qhii")  # producer, epoch, sequence and number of records, as they stand in a header
OFFSET_BYTES = 8


class AlikeInFlight(Answer):
    """One Produce request on its way, and its answer. Times are ns on the clock of the run."""

    __slots__ = ("alike", "cause", "due_ns", "numbering", "queue", "records", "sequence")

    def __init__(self, alike: AlikeProduce, queue: ConnectionQueue, due_ns: int, now_ns: int) -> None:
        self.part = part = alike.lane.part
        self.bucket, self.frame, self.held = Disposition.NO_ANSWER_DUE, None, ""
        self.sent_ns, self.received_ns = now_ns, None
        self.node, self.sent_bytes, self.throttle_ms, self._content = part.node, 0, 0, None
        self.alike, self.queue, self.due_ns = alike, queue, due_ns
        self.cause = queue.cause  # why it may be late
        self.numbering: SequenceNumbering | None = None
        self.sequence = self.records = 0


class AlikePath:
    """The way of these requests, of one pass.

    `ended` is called with each one that was answered with success.
    """

    def __init__(self, path: FastPath, ended: Callable[[AlikeInFlight], None]) -> None:
        self._path, self._ended = path, ended
        self._context, self._pool = path.context, path.pool
        self._done = cast("Callable[[Answer], None]", self._take)

    def send(self, queue: ConnectionQueue, alike: AlikeProduce, due_ns: int) -> bool:
        """Send a request. Return False if it has to go another way."""
        context, pool, lane, owner = self._context, self._pool, alike.lane, queue.connection
        now_ns, node = pool.now_ns, lane.part.node
        connection = pool.connections.get((owner, node))
        if lane.transaction is not None or connection is None or not connection.takes(now_ns):
            return False
        if context.order.missing_begin((lane.partition,), alike.first_ns) is not None:
            return False
        frame, begin = alike.frame, alike.begin
        head = frame[begin : begin + HEADER_BYTES]
        producer_id, epoch, sequence, records = PRODUCER.unpack_from(head, PRODUCER_ID_AT)
        request = AlikeInFlight(alike, queue, due_ns, now_ns)
        if producer_id >= 0:
            identity = context.producers.identity((producer_id, epoch))
            if identity is None:
                return False
            numbering = context.producers.numbering(identity, lane.partition)
            if numbering.unsure or not numbering.takes((owner, node), alike.request):
                return False
            request.numbering = numbering
            request.sequence = number = context.producers.number(numbering, records, (owner, node))
            producer_id, epoch, sequence = identity.producer_id, numbering.epoch, number % SEQUENCE_LIMIT
        request.records = records
        template = lane.template
        size = length_of(alike.stop - begin, template.compact)
        front, back = template.front, template.back
        whole = len(front) + len(size) + alike.stop - begin + len(back)
        request.sent_bytes = whole
        pieces: list[bytes | memoryview] = [
            whole.to_bytes(4, "big") + front[:4],
            b"",
            front[8:] + size,
            head_with(head, producer_id, epoch, sequence),
            memoryview(frame)[begin + HEADER_BYTES : alike.stop],
            back,
        ]
        connection.put_pieces(pieces, wait_ns_of(lane.part), request, self._done)
        return True

    def _take(self, request: AlikeInFlight) -> None:
        alike, frame, context = request.alike, request.frame, self._context
        lane, records = alike.lane, request.records
        expected = lane.first.parts[0].expected
        if frame is None or expected is None or not expected.matches(frame):
            return self._go_on(request)
        position = expected.offsets[0]
        offset = int.from_bytes(frame[position : position + OFFSET_BYTES], "big", signed=True)
        if request.numbering is not None:
            context.producers.ended(request.numbering, request.sequence, records, True)
        captured = alike.offset if alike.offset is None or alike.offset >= 0 else None
        learn_written(context, alike.request, lane.partition, records, captured, offset)
        context.notes.produced[alike.request] = lane.produced(records)
        return self._ended(request)

    def _go_on(self, request: AlikeInFlight) -> None:
        """Deal with an answer that does not stand for success, as that of a request in parts."""
        alike = request.alike
        whole, item = alike.whole(), self._context.loaded.items[alike.request]
        (part,) = whole.parts
        in_parts = InFlightProduce(self._path, request.queue, item, whole, request.due_ns)
        in_parts.cause = request.cause
        batch = part.batches[0]._replace(numbering=request.numbering, sequence=request.sequence)
        in_parts.take(part, (batch,), request)
