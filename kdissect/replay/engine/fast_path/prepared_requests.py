"""Requests encoded ahead of their moment: whole frames of those that wait for nothing.

In: captured requests in their order. Out: for each that can be prepared, its parts as bytes.

Reads that any node answers, and Produce requests that are no retries, are rewritten, converted, routed and
encoded by the functions of their handlers. All that a fetch asks is known, but for positions and
sessions. Left for the moment of sending are the correlation id, and the header of an idempotent batch:
producer, epoch, sequence, and a checksum that is patched from these alone. Headers are laid over the frame.

When leaders move, what was prepared is stale and is dropped. Prepared requests wait in memory, so only so
much is prepared ahead. A request whose turn comes earlier is prepared then: that takes less than its handler.
"""

import time
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

import numpy as np

from kdissect.protocol.api_keys import READ, ApiKey
from kdissect.protocol.codec.messages import CodecError, encode_request
from kdissect.protocol.records.batches import HEADER_BYTES
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.effects import ANY, Part
from kdissect.replay.engine.fast_path.expected_answer import ExpectedAnswer, TopicKey, expected_answer
from kdissect.replay.engine.fast_path.produce_templates import (
    FilledProduce,
    ProduceTemplates,
    only_partition,
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
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.pass_state import Batches, Texts
from kdissect.replay.request_numbers import RequestNumbers
from kdissect.replay.rewrite.batch_rewrite import CapturedBatch, rewritten
from kdissect.replay.rewrite.names import Tree
from kdissect.replay.rewrite.versions import FIRST_BATCH_VERSION
from kdissect.replay.settings import Timestamps
from kdissect.replay.target.cluster import PARTITIONS_OF
from kdissect.replay.target.coordinators import GROUP_FIELD, GROUPS_FIELD, TRANSACTION_FIELD
from kdissect.replay.target.leaders import LEAST_METADATA

MOST_BYTES, MOST_REQUESTS = 256 << 20, 100_000  # prepared at a time; a request takes 2 KB beside its bytes
PATIENCE_S, AT_ONCE = 2.0, 1000  # seconds before the clock starts, and requests between two looks at it
FETCH_PARTITION_BYTES = 500  # of memory, for each partition that a fetch names
NO_OFFSETS: dict[TopicPartition, int] = {}
LEFT_TO_HANDLER = (Disposition.POLICY, "is left to its handler")

READS = (
    READ
    - GROUP_FIELD.keys()
    - GROUPS_FIELD.keys()
    - TRANSACTION_FIELD.keys()
    - PARTITIONS_OF.keys()
    - {ApiKey.METADATA, ApiKey.STREAMS_GROUP_DESCRIBE}
)
"""The APIs beside Metadata that any node answers."""


class PreparedPart(NamedTuple):
    """An encoded part; of Produce also its batches, and the response if all goes well."""

    part: Part
    batches: tuple[OutgoingBatch, ...] = ()
    positions: tuple[int, ...] = ()  # of each batch, in the bytes
    expected: ExpectedAnswer | None = None


class PreparedRequest(NamedTuple):
    """A request that can be sent at once.

    In parts, or a fetch, whose parts need its positions and sessions.
    """

    parts: tuple[PreparedPart, ...]
    question: FetchQuestion | None = None
    captured_offsets: dict[TopicPartition, int] = NO_OFFSETS  # of its batches, on the captured cluster
    produced: Batches | None = None  # its batches, for the files of the run
    nodes: tuple[int, ...] = ()  # where each batch goes, and of a fetch its first partition
    size: int = 0  # bytes of memory
    numbered: bool = False  # its batches get a producer and a number when its turn comes

    @property
    def first_node(self) -> int | None:
        """Return the node that it goes to first; None if that is not known yet."""
        return self.parts[0].part.node if self.parts else next(iter(self.nodes), None)


class LikeRequest(NamedTuple):
    """The first of Produce requests that are alike, but for their records."""

    version: int  # in which they are sent
    prepared: PreparedRequest
    notes: Texts  # on how it was rewritten


class PreparedRequests:
    """Requests that are prepared: in the order of the capture, and no more than there is room for.

    The room is filled before the clock starts, and again in idle moments while it runs.
    """

    def __init__(self, context: ReplayContext, items: Iterable[ReplayItem] | None = None) -> None:
        """Without items nothing is prepared."""
        self._context, self._items = context, iter(items or ())
        self._prepared: dict[int, PreparedRequest] = {}  # by index
        self._templates = ProduceTemplates[LikeRequest]()
        self._passed = RequestNumbers(
            np.uint8
        )  # 1 for requests that had their turn before they were prepared
        self._turn = context.cluster.turn  # of the leaders that all this is for
        self._bytes = 0  # of all that is prepared
        self._last_index = -1  # the last request that was looked at
        self._stale_index = -1  # up to this one, requests were prepared for leaders that have moved
        self._exhausted = items is None  # no request is left

    def __len__(self) -> int:
        return len(self._prepared)

    @property
    def wanting(self) -> bool:
        """Return whether there are more requests to prepare, and room for them."""
        return not self._exhausted and len(self._prepared) < MOST_REQUESTS and self._bytes < MOST_BYTES

    def make(self, most_requests: int = 1 << 62, most_bytes: int = MOST_BYTES) -> None:
        """Prepare more: look at so many requests, or fewer if so many bytes are made of them."""
        if self._turn != self._context.cluster.turn:
            self._forget()
        stop = self._bytes + most_bytes
        while most_requests and self._bytes < stop and self.wanting:
            item = next(self._items, None)
            if item is None:
                self._exhausted = True
                break
            index = self._last_index = item.request.index
            if index < len(passed := self._passed.values) and passed[index]:
                continue
            most_requests -= 1
            prepared = _prepare(self._context, item, self._templates)
            if prepared is not None:
                self._prepared[index] = prepared
                self._bytes += prepared.size

    def seen(self, index: int) -> PreparedRequest | None:
        """Return a prepared request whose turn has not come; None if it is not prepared."""
        return self._prepared.get(index)

    def take(self, index: int) -> PreparedRequest | None:
        """Return a prepared request whose turn has come.

        None if it is not prepared, or leaders have moved since.
        """
        if self._turn != self._context.cluster.turn:
            self._forget()
        prepared = self._prepared.pop(index, None)
        if prepared is not None:
            self._bytes -= prepared.size
            return prepared
        if index > self._last_index and not self._exhausted:
            self._passed[index] = 1
        return None

    def make_now(self, item: ReplayItem) -> PreparedRequest | None:
        """Return a request prepared whose turn has come, and that was not prepared for the present leaders.

        None if its handler has to send it.
        """
        looked_at = self._exhausted or item.request.index <= self._last_index
        if looked_at and item.request.index > self._stale_index:
            return None
        return _prepare(self._context, item, self._templates)

    def _forget(self) -> None:
        """Drop all that was prepared for other leaders."""
        self._turn, self._stale_index = self._context.cluster.turn, self._last_index
        for index in self._prepared:
            self._context.notes.forget(index)  # what is rewritten anew is noted anew
        self._prepared.clear()
        self._templates.forget()
        self._bytes = 0


def prepare_requests(context: ReplayContext, items: Iterable[ReplayItem]) -> PreparedRequests:
    """Return as many requests prepared as there is room and, before anything is sent, patience for."""
    prepared = PreparedRequests(context, items)
    deadline = time.monotonic() + PATIENCE_S
    while prepared.wanting and time.monotonic() < deadline:
        prepared.make(AT_ONCE)
    return prepared


def _prepare(
    context: ReplayContext, item: ReplayItem, templates: ProduceTemplates[LikeRequest]
) -> PreparedRequest | None:
    """Return a request prepared; None for one that its handler has to send, or to skip."""
    if item.refusal is not None or not can_be_prepared(context, item):
        return None
    try:
        if item.request.key == ApiKey.PRODUCE:
            prepared = _prepare_produce(context, item, templates)
        elif item.request.key == ApiKey.FETCH:
            prepared = _prepare_fetch(context, item)
        else:
            prepared = _prepare_read(context, item)
    except (SkipRequest, CodecError):
        context.notes.forget(item.request.index)
        return None
    if prepared.question is not None:
        return prepared
    return prepared._replace(size=sum(len(each.part.ready) for each in prepared.parts))


def can_be_prepared(context: ReplayContext, item: ReplayItem) -> bool:
    """Return whether a request needs nothing that only the run can tell."""
    key, index, loaded = item.request.key, item.request.index, context.loaded
    if key == ApiKey.PRODUCE:
        waits = index in loaded.retries or index in loaded.repeats or index in loaded.after
        return not waits and context.settings.timestamps is Timestamps.KEEP
    return key in (ApiKey.FETCH, ApiKey.METADATA) or key in READS


def _prepare_read(context: ReplayContext, item: ReplayItem) -> PreparedRequest:
    key, body = item.request.key, context.captured.request(item.request)
    if key == ApiKey.METADATA:
        version = context.rewriter.version(item, least=LEAST_METADATA)
        body = metadata_body(context, item, body, version)
    else:
        version = context.rewriter.version(item)
        body = context.rewriter.rewrite(item, body, version)
    part = Part(key, version, body, client_id=context.rewriter.client_id(item))
    return PreparedRequest((PreparedPart(_encoded(part)),))


def _prepare_fetch(context: ReplayContext, item: ReplayItem) -> PreparedRequest:
    question = fetch_question(context, item, context.captured.request(item.request))
    named = question.request.named
    leaders = (context.cluster.leader(context.names.topic(topic), number) for topic, number in named)
    nodes = tuple(node for node in islice(leaders, 1) if node != ANY)
    return PreparedRequest((), question, nodes=nodes, size=FETCH_PARTITION_BYTES * len(named))


def _prepare_produce(
    context: ReplayContext, item: ReplayItem, templates: ProduceTemplates[LikeRequest]
) -> PreparedRequest:
    """Prepare the batches of a request, from its bytes if it is like an earlier one.

    Raise SkipRequest if the handler has to wait, or to send several rounds.
    """
    frame, version = context.captured.frame(item.request.frame) or b"", version_of(context, item)
    prepared = _prepare_like(context, item, version, frame, templates)
    if prepared is None:
        body = context.captured.request(item.request)
        prepared = _prepare_anew(context, item, body, version)
        _learn(context, item, body, version, frame, prepared, templates)
    return prepared


def _prepare_like(
    context: ReplayContext,
    item: ReplayItem,
    version: int,
    frame: bytes,
    templates: ProduceTemplates[LikeRequest],
) -> PreparedRequest | None:
    """Return a request prepared from the bytes of an earlier one; None if there is none like it."""
    found = templates.find(item.request.connection, frame)
    if found is None or found[1].version != version:
        return None
    template, like, records = found
    filled = template.fill(records)
    if filled is None or (item.transaction and filled.batch.producer_id < 0):
        return None
    (first,) = like.prepared.parts
    partition = first.batches[0].partition
    response = context.captured.frame(item.request.response) if item.request.response_complete else None
    offset = template.offset(response)
    if offset is None:
        offsets = captured_offsets(context, item)
    else:
        offsets = {partition: offset} if offset >= 0 else {}
    if like.notes:
        context.notes.by_request[item.request.index] = like.notes
    batch = first.batches[0]._replace(batch=filled.batch)
    part = first.part._replace(ready=filled.ready)
    produced = tuple((name, filled.batch.records) for name, _ in like.prepared.produced or ())
    return like.prepared._replace(
        parts=(PreparedPart(part, (batch,), (filled.position,), first.expected),),
        captured_offsets=offsets or NO_OFFSETS,
        produced=produced,
        numbered=filled.batch.producer_id >= 0,
    )


def _learn(
    context: ReplayContext,
    item: ReplayItem,
    body: Tree,
    version: int,
    frame: bytes,
    prepared: PreparedRequest,
    templates: ProduceTemplates[LikeRequest],
) -> None:
    """Have later requests prepared like this one, if it has one batch only."""
    only = only_partition(body["topic_data"])
    if only is None or len(prepared.nodes) != 1:
        return
    topic, partition, records = only
    (part,) = prepared.parts
    sent = FilledProduce(part.part.ready, part.positions[0], part.batches[0].batch)
    answer = expected_answer(item.request.version or 0, ((topic, (partition,)),))
    notes = context.notes.by_request.get(item.request.index, ())
    like = LikeRequest(version, prepared, notes)
    templates.learn(item.request.connection, frame, records, sent, answer, like)


def _prepare_anew(context: ReplayContext, item: ReplayItem, body: Tree, version: int) -> PreparedRequest:
    """Prepare the batches of a request. Raise SkipRequest if it is left to its handler."""
    if version < FIRST_BATCH_VERSION:
        raise SkipRequest(*LEFT_TO_HANDLER)
    chosen = chosen_now(context, item, body, version)
    batches = {
        (context.names.topic(partition[0]), partition[1]): _outgoing(partition, batch)
        for partition, captured in chosen
        for batch in captured
    }
    several = len(batches) < sum(len(captured) for _, captured in chosen)
    leaderless = any(route_of(context, item, partition)[1] == ANY for partition, _ in chosen)
    nameless = item.transaction and any(each.batch.producer_id < 0 for each in batches.values())
    if several or leaderless or nameless:
        raise SkipRequest(*LEFT_TO_HANDLER)
    outgoing = make_parts(context, item, body, version, list(batches.values()))
    parts = tuple(_produce_part(context, part, batches) for part in outgoing)
    in_order = [batch for each in parts for batch in each.batches]
    return PreparedRequest(
        parts,
        None,
        captured_offsets(context, item) or NO_OFFSETS,
        tuple(sent_batches(context, in_order)),
        tuple(each.part.node for each in parts for _ in each.batches),
        numbered=in_order[0].batch.producer_id >= 0,
    )


def _outgoing(partition: TopicPartition, batch: CapturedBatch) -> OutgoingBatch:
    """Return a batch as a client sends it; an idempotent one gets its header when its turn comes."""
    captured = batch.producer_id, batch.producer_epoch, batch.base_sequence
    return OutgoingBatch(partition, batch, None, -1, rewritten(batch, *captured))


def _produce_part(
    context: ReplayContext, part: Part, batches: dict[TopicPartition, OutgoingBatch]
) -> PreparedPart:
    """Encode a part, and find its batches in the bytes: they stand in its order, with little between them."""
    encoded = _encoded(part)
    asked: list[tuple[TopicKey, tuple[int, ...]]] = []
    inside, positions, position = [], [], 0
    for topic in part.body["topic_data"]:
        name = topic.get("name") or context.names.name_of(topic["topic_id"]) or ""
        indices = tuple(fields["index"] for fields in topic["partition_data"])
        asked.append((topic.get("name") or topic["topic_id"], indices))
        for index in indices:
            outgoing = batches[name, index]
            position = encoded.ready.index(outgoing.data[:HEADER_BYTES], position)
            positions.append(position)
            position += len(outgoing.data)
            header = outgoing.batch._replace(data=outgoing.batch.data[:HEADER_BYTES])
            inside.append(outgoing._replace(batch=header, data=b""))
    expected = expected_answer(part.version, tuple(asked))
    return PreparedPart(encoded, tuple(inside), tuple(positions), expected)


def _encoded(part: Part) -> Part:
    header = {
        "request_api_key": part.key,
        "request_api_version": part.version,
        "correlation_id": 0,
        "client_id": part.client_id,
    }
    frame = encode_request(header, part.body)
    return part._replace(ready=len(frame).to_bytes(4, "big") + frame, body={})
