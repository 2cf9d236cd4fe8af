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
from collections import deque
from collections.abc import Sequence
from itertools import islice

import numpy as np

from kdissect.protocol.api_keys import READ, ApiKey
from kdissect.protocol.codec.messages import CodecError
from kdissect.replay.disposition import SkipRequest
from kdissect.replay.effects import ANY, Part
from kdissect.replay.engine.fast_path.alike_produces import AlikeProduce, AlikeProduces
from kdissect.replay.engine.fast_path.prepared_parts import (
    PreparedPart,
    PreparedRequest,
    encoded_part,
    prepare_produce,
)
from kdissect.replay.handlers.fetch import fetch_question
from kdissect.replay.handlers.metadata import metadata_body
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.load.replay_items import ReplayItem, sent_mask
from kdissect.replay.request_numbers import RequestNumbers
from kdissect.replay.settings import Pace, Timestamps
from kdissect.replay.target.cluster import PARTITIONS_OF
from kdissect.replay.target.coordinators import GROUP_FIELD, GROUPS_FIELD, TRANSACTION_FIELD
from kdissect.replay.target.leaders import LEAST_METADATA

MOST_BYTES, MOST_REQUESTS = 256 << 20, 100_000  # prepared at a time; a request takes 2 KB beside its bytes
PATIENCE_S, AT_ONCE = 2.0, 1000  # seconds before the clock starts, and requests between two looks at it
FETCH_PARTITION_BYTES = 500  # of memory, for each partition that a fetch names
AT_A_MISS = 16  # requests that are prepared when one is wanted, at pace asap
FIRST_BLOCK, LARGEST_BLOCK = 16, 256  # requests that are searched together for those like earlier ones,
BLOCK_BYTES, MOST_PLACES = 1 << 20, 2048  # bytes of their frames, and places among which they are
ALIKE_COST, PLAIN_COST = 1, 8  # of those that are prepared at once

READS = (
    READ
    - GROUP_FIELD.keys()
    - GROUPS_FIELD.keys()
    - TRANSACTION_FIELD.keys()
    - PARTITIONS_OF.keys()
    - {ApiKey.METADATA, ApiKey.STREAMS_GROUP_DESCRIBE}
)
"""The APIs beside Metadata that any node answers."""


class PreparedRequests:
    """Requests that are prepared: in the order of the capture, and no more than there is room for.

    The room is filled before the clock starts, and again in idle moments while it runs.
    """

    def __init__(self, context: ReplayContext, items: Sequence[ReplayItem] | None = None) -> None:
        """Without items nothing is prepared."""
        self._context, self._items = context, items or ()
        self._place = 0  # in the items, of the next one that is in no block yet
        self._alike = AlikeProduces(context)
        self._block: deque[tuple[int, AlikeProduce | None]] = deque()  # the places before that are to come
        self._block_size = 0
        self._prepared: dict[int, PreparedRequest | AlikeProduce] = {}  # by index
        self._looked_at: dict[int, ReplayItem] = {}  # the items of those that are prepared in parts
        self._passed = RequestNumbers(
            np.uint8
        )  # 1 for requests that had their turn before they were prepared
        self._at_once = context.settings.pace is Pace.ASAP
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

    def make(self, most_requests: int = 1 << 59, most_bytes: int = MOST_BYTES) -> None:
        """Prepare more: look at so many requests, or fewer if so many bytes are made of them.

        There may be more of those that are like earlier ones, as many as take the same time.
        """
        if self._turn != self._context.cluster.turn:
            self._forget()
        stop, left = min(self._bytes + most_bytes, MOST_BYTES), most_requests * PLAIN_COST
        ready = self._prepared
        while left > 0 and self._bytes < stop and len(ready) < MOST_REQUESTS and not self._exhausted:
            if not self._block and not self._search_block():
                self._exhausted = True
                break
            place, alike = self._block.popleft()
            if alike is None:
                left -= PLAIN_COST * self._look_at(self._items[place])
            elif not self._had_its_turn(alike.request):
                left -= ALIKE_COST
                self._alike.note(alike)
                ready[alike.request] = alike
                self._bytes += len(alike.frame)

    def _search_block(self) -> bool:
        """Search the next requests for those that are like earlier ones. Return False if none is left.

        Blocks grow, since the first requests of connections are like none. Requests that are refused are
        passed over.
        """
        self._block_size = min(max(2 * self._block_size, FIRST_BLOCK), LARGEST_BLOCK)
        while self._place < len(self._items):
            begin, end = self._place, self._place + MOST_PLACES
            self._place = end
            places = begin + np.flatnonzero(sent_mask(self._items, begin, end))[: self._block_size]
            if len(places):
                found = self._alike.among(self._items, places, BLOCK_BYTES)
                self._block.extend(found)
                self._place = found[-1][0] + 1
                return True
        return False

    def _had_its_turn(self, index: int) -> bool:
        """Return whether the turn of a request came before it is looked at, which is now."""
        self._last_index, passed = index, self._passed.values
        return index < len(passed) and passed[index] == 1

    def _look_at(self, item: ReplayItem) -> bool:
        """Prepare a request, unless its turn is over: then return False."""
        index = item.request.index
        if self._had_its_turn(index):
            return False
        prepared = self._prepare(item)
        if prepared is not None:
            self._prepared[index] = prepared
            self._bytes += prepared.size
            if isinstance(prepared, PreparedRequest):
                self._looked_at[index] = item
        return True

    def seen(self, index: int) -> PreparedRequest | AlikeProduce | None:
        """Return a prepared request whose turn has not come; None if it is not prepared."""
        return self._prepared.get(index)

    def take_item(self, index: int) -> ReplayItem | None:
        """Return the item of a request that was prepared, if it is still there, so that none is made anew."""
        return self._looked_at.pop(index, None)

    def take(self, index: int) -> PreparedRequest | AlikeProduce | None:
        """Return a prepared request whose turn has come.

        None if it is not prepared, or leaders have moved since.
        """
        if self._turn != self._context.cluster.turn:
            self._forget()
        prepared = self._prepared.pop(index, None)
        if prepared is None and self._at_once and index > self._last_index and self.wanting:
            self.make(AT_A_MISS)  # many at once, since no idle moment may come
            prepared = self._prepared.pop(index, None)
        if prepared is not None:
            self._bytes -= prepared.size
            return prepared
        if index > self._last_index and not self._exhausted:
            self._passed[index] = 1
        return None

    def make_now(self, item: ReplayItem) -> PreparedRequest | AlikeProduce | None:
        """Return a request prepared whose turn has come, and that was not prepared for the present leaders.

        None if its handler has to send it.
        """
        looked_at = self._exhausted or item.request.index <= self._last_index
        if looked_at and item.request.index > self._stale_index:
            return None
        return self._prepare(item)

    def _forget(self) -> None:
        """Drop all that was prepared for other leaders."""
        self._turn, self._stale_index = self._context.cluster.turn, self._last_index
        for index in self._prepared:
            self._context.notes.forget(index)  # what is rewritten anew is noted anew
        self._prepared.clear()
        self._looked_at.clear()
        self._alike.forget()
        self._place, self._block_size = self._block[0][0] if self._block else self._place, 0
        self._block.clear()
        self._bytes = 0

    def _prepare(self, item: ReplayItem) -> PreparedRequest | AlikeProduce | None:
        """Return a request prepared; None for one that its handler has to send, or to skip."""
        context, key = self._context, item.request.key
        if item.refusal is not None or not can_be_prepared(context, item):
            return None
        try:
            if key == ApiKey.PRODUCE:
                return self._alike.find(item) or self._alike.learn(item, prepare_produce(context, item))
            return _prepare_fetch(context, item) if key == ApiKey.FETCH else _prepare_read(context, item)
        except (SkipRequest, CodecError):
            context.notes.forget(item.request.index)
            return None


def prepare_requests(context: ReplayContext, items: Sequence[ReplayItem]) -> PreparedRequests:
    """Return as many requests prepared as there is room and, before anything is sent, patience for."""
    prepared = PreparedRequests(context, items)
    deadline = time.monotonic() + PATIENCE_S
    while prepared.wanting and time.monotonic() < deadline:
        prepared.make(AT_ONCE)
    return prepared


def can_be_prepared(context: ReplayContext, item: ReplayItem) -> bool:
    """Return whether a request needs nothing that only the run can tell."""
    key = item.request.key
    if key == ApiKey.PRODUCE:
        waits = context.loaded.produce_waits(item.request.index)
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
    return PreparedRequest.of((PreparedPart(encoded_part(part)),))


def _prepare_fetch(context: ReplayContext, item: ReplayItem) -> PreparedRequest:
    question = fetch_question(context, item, context.captured.request(item.request))
    named = question.request.named
    leaders = (context.cluster.leader(context.names.topic(topic), number) for topic, number in named)
    nodes = tuple(node for node in islice(leaders, 1) if node != ANY)
    return PreparedRequest((), question, nodes=nodes, size=FETCH_PARTITION_BYTES * len(named))
