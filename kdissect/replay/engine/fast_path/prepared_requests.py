"""What can be made before the clock starts is made then: whole frames of requests that wait for nothing.

Reads that go to any node, and Produce requests that are no retries, are rewritten, converted, routed and encoded ahead of the run; of
fetches it is known what they ask, but for positions and sessions. What remains of a frame for its moment is the correlation id, and of idempotent batches their header: producer, epoch, sequence and a checksum
patched from these alone; it is laid over the frame. Leaders that move make what is ready stale; then each request takes its
ordinary course, as does one whose transaction is not there yet. What is ready waits in memory, so it is made only so far ahead.
"""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple

from kdissect.protocol.api_keys import READ, ApiKey
from kdissect.protocol.codec.messages import encode_request
from kdissect.protocol.records.batches import HEADER_BYTES
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.effects import ANY, Part
from kdissect.replay.engine.fast_path.expected_answer import (
    Expected,
    Topic,
    expected,
)
from kdissect.replay.handlers.fetch import FetchQuestion, fetch_question
from kdissect.replay.handlers.metadata import metadata_body
from kdissect.replay.handlers.produce import chosen_now
from kdissect.replay.handlers.produce_batches import (
    OutgoingBatch,
    make_parts,
    route_of,
    sent_batches,
    version_of,
)
from kdissect.replay.handlers.produce_delivery import captured_offsets
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.identifiers import TopicPartition
from kdissect.replay.load.replay_input import ReplayItem
from kdissect.replay.net.pool import UNEXPECTED
from kdissect.replay.rewrite.batch_rewrite import CapturedBatch, rewritten
from kdissect.replay.rewrite.versions import FIRST_BATCH_VERSION
from kdissect.replay.settings import Timestamps
from kdissect.replay.target.cluster import PARTITIONS_OF
from kdissect.replay.target.coordinators import GROUP_FIELD, GROUPS_FIELD, TRANSACTION_FIELD
from kdissect.replay.target.leaders import LEAST_METADATA

MOST_BYTES, MOST_REQUESTS = 256 << 20, 100_000  # ready at one time; a request takes 2 KB beside its bytes
PARTITION_BYTES = 500  # that a fetch waits with
EMPTY: dict[TopicPartition, int] = {}

_LATER = (Disposition.POLICY, "takes its ordinary course")


class PreparedPart(NamedTuple):
    """An encoded part; of Produce also its batches, and what its answer looks like if all is well."""

    part: Part
    sendings: tuple[OutgoingBatch, ...] = ()
    places: tuple[int, ...] = ()  # for each batch its position in the bytes
    expected: Expected | None = None


class PreparedRequest(NamedTuple):
    """A request that can be sent at once: in frames, or a fetch, whose frames need its positions and session."""

    frames: tuple[PreparedPart, ...]
    question: FetchQuestion | None = None
    offsets: dict[TopicPartition, int] = EMPTY  # where the captured cluster put its batches
    produced: list[tuple[str, int]] | None = None
    nodes: tuple[int, ...] = ()  # where each batch goes, and of a fetch its first partition
    size: int = 0  # of all frames
    numbered: bool = False  # its batches get a producer and a number when their turn comes

    @property
    def home(self) -> int | None:
        """Where it goes first; None if that is not known yet."""
        return self.frames[0].part.node if self.frames else next(iter(self.nodes), None)


class PreparedRequests:
    """What is ready: made in the order of the capture, and no more of it than there is room for.

    The room is filled before the clock starts, and again in idle moments while it runs. A request whose turn comes before it was
    made ready takes its ordinary course.
    """

    def __init__(self, context: ReplayContext, items: Iterable[ReplayItem]) -> None:
        self._context, self._items = context, iter(items)
        self._found: dict[int, PreparedRequest] = {}
        self._begun: set[int] = set()  # requests that had their turn before they were looked at
        self._turn = context.cluster.turn
        self._bytes = 0
        self._at = -1
        self._ended = False

    def __len__(self) -> int:
        return len(self._found)

    @property
    def wanting(self) -> bool:
        """Whether there is more to make, and room for it."""
        return not self._ended and len(self._found) < MOST_REQUESTS and self._bytes < MOST_BYTES

    def make(self, requests: int = 1 << 62, most_bytes: int = MOST_BYTES) -> None:
        """Make some more ready: so many requests are looked at, unless so many bytes are made of fewer."""
        if self._turn != self._context.cluster.turn:
            self._forget()
        stop = self._bytes + most_bytes
        while requests and self._bytes < stop and self.wanting:
            item = next(self._items, None)
            if item is None:
                self._ended = True
                break
            self._at = item.request.index
            if self._at in self._begun:
                self._begun.discard(self._at)
                continue
            requests -= 1
            ready = _made(self._context, item)
            if ready is not None:
                self._found[self._at] = ready
                self._bytes += ready.size

    def seen(self, index: int) -> PreparedRequest | None:
        """Give what is ready of a request whose turn has not come."""
        return self._found.get(index)

    def take(self, index: int) -> PreparedRequest | None:
        """Give what is ready of a request whose turn it is; None if nothing is, or if leaders have moved since."""
        if self._turn != self._context.cluster.turn:
            self._forget()
        found = self._found.pop(index, None)
        if found is not None:
            self._bytes -= found.size
            return found
        if index > self._at and not self._ended:
            self._begun.add(index)
        return None

    def _forget(self) -> None:
        """Make nothing of what was ready for other leaders."""
        self._turn = self._context.cluster.turn
        for index in self._found:
            self._context.notes.forget(index)  # what is rewritten anew is noted anew
        self._found.clear()
        self._bytes = 0


def prepare_requests(context: ReplayContext, items: Iterable[ReplayItem]) -> PreparedRequests:
    """Prepare as many requests as there is room for."""
    ahead = PreparedRequests(context, items)
    ahead.make()
    return ahead


def _made(context: ReplayContext, item: ReplayItem) -> PreparedRequest | None:
    if item.refusal is not None or not can_be_prepared(context, item):
        return None
    try:
        ready = PREPARERS.get(item.request.key, _ready_read)(context, item)
    except (SkipRequest, *UNEXPECTED):
        context.notes.forget(item.request.index)
        return None  # said when its turn comes
    return (
        ready if ready.question else ready._replace(size=sum(len(each.part.ready) for each in ready.frames))
    )


def can_be_prepared(context: ReplayContext, item: ReplayItem) -> bool:
    """Tell whether a request needs nothing that only the run can tell."""
    key = item.request.key
    if key == ApiKey.PRODUCE:
        moves = context.settings.timestamps is not Timestamps.KEEP
        return not (
            item.request.index in context.loaded.retries
            or item.request.index in context.loaded.repeats
            or item.request.index in context.loaded.after
            or moves
        )
    return key == ApiKey.FETCH or key == ApiKey.METADATA or (key in PLAIN)


PLAIN = (
    READ
    - GROUP_FIELD.keys()
    - GROUPS_FIELD.keys()
    - TRANSACTION_FIELD.keys()
    - PARTITIONS_OF.keys()
    - {ApiKey.METADATA, ApiKey.STREAMS_GROUP_DESCRIBE}
)


def _ready_read(context: ReplayContext, item: ReplayItem) -> PreparedRequest:
    body = context.captured.request(item.request)
    if item.request.key == ApiKey.METADATA:
        version = context.rewriter.version(item, least=LEAST_METADATA)
        body = metadata_body(context, item, body, version)
    else:
        version = context.rewriter.version(item)
        body = context.rewriter.rewrite(item, body, version)
    return PreparedRequest(
        (
            PreparedPart(
                _encoded(Part(item.request.key, version, body, client_id=context.rewriter.client_id(item)))
            ),
        )
    )


def _ready_fetch(context: ReplayContext, item: ReplayItem) -> PreparedRequest:
    question = fetch_question(context, item, context.captured.request(item.request))
    led = (context.cluster.leader(context.names.topic(name), each) for name, each in question.request.named)
    nodes = tuple(node for node in islice(led, 1) if node != ANY)
    return PreparedRequest((), question, nodes=nodes, size=PARTITION_BYTES * len(question.request.named))


def _ready_produce(context: ReplayContext, item: ReplayItem) -> PreparedRequest:
    body = context.captured.request(item.request)
    version = version_of(context, item)
    if version < FIRST_BATCH_VERSION:
        raise SkipRequest(*_LATER)
    chosen = chosen_now(context, item, body, version)
    sendings = {
        (context.names.topic(where[0]), where[1]): _outgoing(where, batch)
        for where, batches in chosen
        for batch in batches
    }
    if len(sendings) < sum(len(batches) for _, batches in chosen):
        raise SkipRequest(*_LATER)  # several batches for one partition go one after another
    if any(route_of(context, item, where)[1] == ANY for where, _ in chosen):
        raise SkipRequest(*_LATER)  # there is no leader yet
    if item.transaction and any(each.batch.producer_id < 0 for each in sendings.values()):
        raise SkipRequest(*_LATER)  # which makes no sense, and so waits for its turn
    parts = make_parts(context, item, body, version, list(sendings.values()))
    frames = tuple(_frame(context, part, sendings) for part in parts)
    in_order = [sending for frame in frames for sending in frame.sendings]
    nodes = tuple(frame.part.node for frame in frames for _ in frame.sendings)
    numbered = in_order[0].batch.producer_id >= 0
    offsets = captured_offsets(context, item) or EMPTY
    return PreparedRequest(frames, None, offsets, sent_batches(context, in_order), nodes, numbered=numbered)


def _outgoing(where: TopicPartition, batch: CapturedBatch) -> OutgoingBatch:
    """Give a batch as a client sends it; an idempotent one gets its header when its turn comes."""
    same = batch.producer_id, batch.producer_epoch, batch.base_sequence
    return OutgoingBatch(where, batch, None, -1, rewritten(batch, *same))


def _frame(context: ReplayContext, part: Part, sendings: dict[TopicPartition, OutgoingBatch]) -> PreparedPart:
    """Encode a part, and find its batches in it: they stand in its order, with little between them."""
    whole = _encoded(part)
    asked: list[tuple[Topic, tuple[int, ...]]] = []
    inside, places, at = [], [], 0
    for topic in part.body["topic_data"]:
        name = topic.get("name") or context.names.name_of(topic["topic_id"]) or ""
        indices = tuple(each["index"] for each in topic["partition_data"])
        asked.append((topic.get("name") or topic["topic_id"], indices))
        for index in indices:
            sending = sendings[name, index]
            at = whole.ready.index(sending.data[:HEADER_BYTES], at)
            places.append(at)
            at += len(sending.data)
            head = sending.batch._replace(data=sending.batch.data[:HEADER_BYTES])
            inside.append(sending._replace(batch=head, data=b""))
    return PreparedPart(whole, tuple(inside), tuple(places), expected(part.version, tuple(asked)))


def _encoded(part: Part) -> Part:
    header = {
        "request_api_key": part.key,
        "request_api_version": part.version,
        "correlation_id": 0,
        "client_id": part.client_id,
    }
    frame = encode_request(header, part.body)
    return part._replace(ready=len(frame).to_bytes(4, "big") + frame, body={})


PREPARERS: dict[int, Callable[[ReplayContext, ReplayItem], PreparedRequest]] = {
    ApiKey.PRODUCE: _ready_produce,
    ApiKey.FETCH: _ready_fetch,
}
