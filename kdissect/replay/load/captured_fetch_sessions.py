"""Captured fetch sessions (KIP-227): all that a fetch is about, and not only what it names.

A fetch within a session names only what changed, so the whole set must be known to send it anywhere else: to
leaders on other nodes, after a session was lost, in another version. `CapturedFetchSessions` rebuilds the
sets, fetch by fetch in the order of the capture. A session belongs to a broker, and is known by its id there.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from kdissect.replay.identifiers import FetchSessionKey, TopicPartition
from kdissect.replay.rewrite.names import Names, Tree

NO_SESSION = 0
INITIAL_EPOCH, FINAL_EPOCH = 0, -1  # a session is asked for; no session, or its end

FetchedPartitions: TypeAlias = dict[TopicPartition, Tree]
"""Captured partition -> its fields in a Fetch request, as captured."""


class SessionRequest(NamedTuple):
    """What a captured Fetch request says about its session."""

    session: FetchSessionKey
    epoch: int
    issued: int  # id of the session that the captured response opened, 0 if none
    named: FetchedPartitions
    forgotten: tuple[TopicPartition, ...]


class FetchScope(NamedTuple):
    """What a captured fetch is about when its turn has come."""

    partitions: (
        FetchedPartitions  # all of the session: one object while it lasts, which changes with each fetch
    )
    named: FetchedPartitions  # those that the request names itself
    forgotten: Sequence[TopicPartition]  # those that left the session with it


class CapturedFetchSessions:
    """The partitions of all captured sessions."""

    def __init__(
        self, names: Names, older: Mapping[FetchSessionKey, FetchedPartitions] | None = None
    ) -> None:
        """`older` are sessions that began before, with the partitions that they were about."""
        self._names = names
        self._partitions: dict[FetchSessionKey, FetchedPartitions] = {
            session: dict(known) for session, known in (older or {}).items() if known
        }

    def known(self, session: FetchSessionKey) -> FetchedPartitions:
        """Return what a session is about by now, as far as it is known."""
        return dict(self._partitions.get(session, {}))

    def read(self, server: str, body: Tree, issued: int) -> SessionRequest:
        """Return what a Fetch request says, which can be read before its turn.

        `issued` is the session that the captured response opened, 0 if none.
        """
        forgotten = [
            (self._names.captured_topic(topic, "topic") or "", partition)
            for topic in body.get("forgotten_topics_data") or ()
            for partition in topic["partitions"]
        ]
        session = server, body.get("session_id", NO_SESSION)
        epoch = body.get("session_epoch", FINAL_EPOCH)
        return SessionRequest(session, epoch, issued, self._named(body), tuple(forgotten))

    def follow(self, request: SessionRequest) -> FetchScope | None:
        """Learn from a request in its turn, and return what it is about.

        None if its session is older than the capture.
        """
        session, epoch, issued, named, forgotten = request
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session[1]:
                self._partitions.pop(session, None)
            if not issued:
                return FetchScope(named, named, ())
            opened = self._partitions[session[0], issued] = dict(named)
            return FetchScope(opened, named, ())
        known = self._partitions.get(session)
        if known is None:
            if not named:
                return None
            known = self._partitions[session] = {}
        gone = [each for each in forgotten if known.pop(each, None) is not None] if forgotten else ()
        if named:
            known.update(named)
        return FetchScope(known, named, gone)

    def _named(self, body: Tree) -> FetchedPartitions:
        named: FetchedPartitions = {}
        for topic in body["topics"] or ():
            name = self._names.captured_topic(topic, "topic") or f"?{topic.get('topic_id', b'').hex()}"
            for partition in topic["partitions"]:
                named[name, partition["partition"]] = partition
        return named
