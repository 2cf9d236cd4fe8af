"""Facts learnt from the first request of each shape, and from them the facts of all others.

In: the first request of each shape, decoded (see `request_shapes`). Out: of the requests that need no look
the same as a look would find out: their items, their bodies if these are equal, the records that they wrote
and read. Requests of groups are looked at one by one even so, since the order between members depends on each
of them, but none is decoded.
"""

from dataclasses import dataclass

import numpy as np

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.identifiers import ClientKey
from kdissect.replay.load.policy import Refusal
from kdissect.replay.load.replay_input import ReplayInput
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.load.request_shapes import SAME_BODY
from kdissect.replay.load.retries import RetryFinder
from kdissect.replay.load.unseen_records import UnseenRecords
from kdissect.replay.rewrite.names import Tree
from kdissect.replay.settings import Groups, ReplaySettings

OF_MEMBERS = frozenset({ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.OFFSET_COMMIT})


@dataclass(frozen=True, slots=True)
class LearnedShape:
    """The first request of a shape."""

    key: int
    body: Tree
    response: Tree | None
    client: ClientKey
    refusal: Refusal | None


class LearnedShapes:
    """The shapes of a capture, as far as they were looked at."""

    def __init__(self, loaded: ReplayInput, settings: ReplaySettings) -> None:
        self._loaded = loaded
        self._full = settings.groups is Groups.FULL
        self._learned: dict[int, LearnedShape] = {}  # by the first request

    def of(self, index: int) -> LearnedShape | None:
        """Return what is known of a request that is looked at; None if it has to be decoded."""
        known = self._loaded.known
        first = known.first_of(index)
        learned = None if first == index else self._learned.get(first)
        return learned if learned is not None and learned.key in OF_MEMBERS else None

    def add(self, item: ReplayItem, body: Tree, response: Tree | None) -> None:
        """Learn from a request, which may be the first of a shape."""
        known, request = self._loaded.known, item.request
        if known.first_of(request.index) != request.index or known.count_like(request.index) < 2:
            return
        client = self._loaded.capture.client_host(request.connection), item.client_id
        self._learned[request.index] = LearnedShape(request.key, body, response, client, item.refusal)
        sent_commit = request.key == ApiKey.OFFSET_COMMIT and item.refusal is None
        if request.key in OF_MEMBERS and (self._full or sent_commit):
            known.mark_shape(request.index)

    def learn_unseen(self, retries: RetryFinder) -> None:
        """Learn from all requests that were not decoded."""
        loaded, known = self._loaded, self._loaded.known
        if known.logged is None:
            return
        records = UnseenRecords(loaded)
        for first, learned in self._learned.items():
            if learned.refusal is None and learned.response is not None:
                records.learn(known.shape_of(first), learned.key, learned.response, learned.client)
        again = [first for first, learned in self._learned.items() if learned.key in OF_MEMBERS]
        for facts in known.logged.facts():
            end = facts.first + len(facts.edges) - 1
            unseen = known.unseen(facts.first, end)
            records.add(facts, unseen)
            every = np.arange(facts.first, end)
            repeated = every[np.isin(known.firsts_of(every), again)]
            for copied in (unseen, repeated[~np.isin(repeated, again)]):
                loaded.items.copy(copied, known.firsts_of(copied))
        loaded.bodies.share(
            known.first_of, (first for first, learned in self._learned.items() if learned.key in SAME_BODY)
        )
        for first, learned in self._learned.items():
            if learned.key == ApiKey.PRODUCE:
                retries.note_last(loaded.items[first].request.connection, known.last_like(first))
