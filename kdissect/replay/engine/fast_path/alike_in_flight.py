"""Produce requests like an earlier one from sending to the answer: one object for each, and no parts.

In: an `AlikeProduce` whose turn has come. Out: a frame, put together of the front of the first request of its
form, the header with producer and number, and the captured records; and the answer, at the place where the
player accounts for it. This is for requests that go out at once and are answered with success. All else (no
connection yet, a wait, an error) is left to `in_flight`, with the same request in its parts.
"""

from collections.abc import Callable
from struct import Struct
from typing import cast

from kdissect.protocol.records.batches import HEADER_BYTES, PRODUCER_ID_AT
from kdissect.replay.disposition import Disposition
from kdissect.replay.effects import Answer
from kdissect.replay.engine.connection_queue import ConnectionQueue
from kdissect.replay.engine.fast_path.alike_produces import AlikeProduce, ProduceForm
from kdissect.replay.engine.fast_path.expected_answer import offset_at
from kdissect.replay.engine.fast_path.in_flight import FastPath, InFlightProduce
from kdissect.replay.handlers.produce_batches import in_its_transaction
from kdissect.replay.handlers.produce_delivery import learn_written, note_open
from kdissect.replay.identifiers import ProducerKey
from kdissect.replay.rewrite.batch_rewrite import SEQUENCE_LIMIT, head_with
from kdissect.replay.target.producers import SequenceNumbering

NUMBERS = Struct(">qhii")  # producer, epoch, sequence and number of records, as they stand in a header


class AlikeInFlight(Answer):
    """One Produce request on its way, and its answer. Times are ns on the clock of the run."""

    __slots__ = ("alike", "cause", "due_ns", "numbering", "queue", "records", "sequence")

    def __init__(self, alike: AlikeProduce, queue: ConnectionQueue, due_ns: int, now_ns: int) -> None:
        self.part = part = alike.form.part
        self.bucket, self.frame, self.held = Disposition.NO_ANSWER_DUE, None, ""
        self.sent_ns, self.received_ns = now_ns, None
        self.node, self.throttle_ms, self._content = part.node, 0, None
        self.sent_bytes = self.sequence = self.records = 0
        self.alike, self.queue, self.due_ns = alike, queue, due_ns
        self.cause = queue.cause  # why it may be late
        self.numbering: SequenceNumbering | None = None


class AlikePath:
    """The way of these requests, of one pass.

    `ended` is called with each one that was answered with success.
    """

    def __init__(self, path: FastPath, ended: Callable[[AlikeInFlight], None]) -> None:
        self._path, self._ended = path, ended
        self._context, self._pool = path.context, path.pool
        self._producers, self._produced = path.context.producers, path.context.notes.produced
        self._order, self._awaits_begins = path.context.order, path.context.order.awaits_begins
        self._done = cast("Callable[[Answer], None]", self._take)

    def send(self, queue: ConnectionQueue, alike: AlikeProduce, due_ns: int) -> bool:
        """Send a request. Return False if it has to go another way."""
        _, first_ns, frame, begin, stop, _, form = alike
        pool = self._pool
        now_ns, route = pool.now_ns, (queue.connection, form.node)
        connection = pool.connections.get(route)
        if connection is None or not connection.takes(now_ns):
            return False
        if form.transaction is not None and not in_its_transaction(
            self._context, alike.request, form.transaction, form.part.version, (form.partition,)
        ):
            return False
        if self._awaits_begins and self._order.missing_begin((form.partition,), first_ns) is not None:
            return False
        request = AlikeInFlight(alike, queue, due_ns, now_ns)
        rest = begin + HEADER_BYTES
        head = frame[begin:rest]
        producer_id, epoch, sequence, request.records = NUMBERS.unpack_from(head, PRODUCER_ID_AT)
        if producer_id >= 0:
            numbering = self._numbering(form, (producer_id, epoch))
            if numbering is None or numbering.unsure or not numbering.takes(route, alike.request):
                return False
            assert form.identity is not None
            number = self._producers.number(numbering, request.records, route)
            request.numbering, request.sequence = numbering, number
            producer_id, epoch, sequence = form.identity[0], numbering.epoch, number % SEQUENCE_LIMIT
        front, middle, back, request.sent_bytes = form.pieces(stop - begin)
        rewritten = head_with(head, producer_id, epoch, sequence)
        records = memoryview(frame)[rest:stop]
        pieces: list[bytes | memoryview] = [front, b"", middle, rewritten, records, back]
        connection.put_pieces(pieces, form.wait_ns, request, self._done)
        return True

    def _numbering(self, form: ProduceForm, producer: ProducerKey) -> SequenceNumbering | None:
        """Return the numbering of a captured producer; None if it stands for nothing yet."""
        producers = self._producers
        if form.producer != producer or form.turn != producers.turn:
            form.identity = identity = producers.identity(producer)
            form.numbering = None if identity is None else producers.numbering(identity, form.partition)
            form.producer, form.turn = producer, producers.turn
        return form.numbering

    def _take(self, request: AlikeInFlight) -> None:
        alike, frame, records = request.alike, request.frame, request.records
        form, offset, expected = alike.form, alike.offset, alike.form.expected
        if frame is None or expected is None or not expected.matches(frame):
            return self._go_on(request)
        written = offset_at(frame, expected.offsets[0])
        if request.numbering is not None:
            self._producers.ended(request.numbering, request.sequence, records, True)
        captured = offset if offset >= 0 else None
        learn_written(self._context, alike.request, form.partition, records, captured, written)
        if form.transaction and written >= 0:
            producer_id, epoch, *_ = NUMBERS.unpack_from(alike.frame, alike.begin + PRODUCER_ID_AT)
            note_open(self._context, form.transaction, (producer_id, epoch))
        noted = form.batches.get(records)
        if noted is None:
            noted = form.batches[records] = self._produced.number_of(form.produced(records))
        self._produced.put(alike.request, noted)
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
