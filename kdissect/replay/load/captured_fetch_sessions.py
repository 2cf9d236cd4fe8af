"""Captured fetch sessions (KIP-227): all that a fetch is about, and not only what it names.

A fetch within a session names only what changed, so the whole set must be known to send it anywhere else:
to leaders on other nodes, after a session was lost, in another version. `CapturedFetchSessions` rebuilds
the sets, fetch by fetch in the order of the capture. A session belongs to a broker, and is known by its id
there.

`PriorFetchSessions` are older than what is sent, so the capture does not show the whole set. A partition in
a response that no request named before was in the set all along: at the offset of the first record in the
response or, if there is none, at the end of the log. A session that was opened in the capture, but before
the part of it that is sent, is known in full.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from kdissect.protocol.records.batches import first_offset
from kdissect.replay.disposition import Disposition
from kdissect.replay.identifiers import FetchSessionKey, TopicPartition
from kdissect.replay.load.policy import Refusal
from kdissect.replay.load.request_table import Request
from kdissect.replay.rewrite.names import Names, Tree

NO_SESSION = 0
INITIAL_EPOCH, FINAL_EPOCH = 0, -1  # a session is asked for; no session, or its end

FetchedPartitions: TypeAlias = dict[TopicPartition, Tree]
"""Captured partition -> its fields in a Fetch request, as captured."""


class SessionRequest(NamedTuple):
    """Facts of a captured Fetch request about its session."""

    session: FetchSessionKey
    epoch: int
    issued: int  # id of the session that the captured response opened, 0 if none
    named: FetchedPartitions
    forgotten: tuple[TopicPartition, ...]


class FetchScope(NamedTuple):
    """Scope of a captured fetch when its turn has come."""

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


USUAL_BYTES = 1 << 20  # max.partition.fetch.bytes of a client that nobody configured
NOT_SELECTED = Refusal(Disposition.POLICY, "excluded by --topic")
UNTOLD = Refusal(
    Disposition.HEADLESS, "its fetch session began before the capture, which does not tell what it is about"
)


class PriorFetchSessions:
    """Learns from all fetches in order; `sessions` has what each older one was about when first sent."""

    def __init__(self, names: Names, selected: Callable[[str], bool]) -> None:
        """Begin without a fetch; `selected` returns whether a topic is to be sent."""
        self.sessions: dict[FetchSessionKey, FetchedPartitions] = {}
        self._names, self._selected = names, selected
        self._tracked = CapturedFetchSessions(names)  # sent or not
        self._opened: set[FetchSessionKey] = set()
        self._named: dict[FetchSessionKey, set[TopicPartition]] = {}  # what requests have named since
        self._waiting: dict[FetchSessionKey, list[int]] = {}  # fetches before one that names something
        self._narrowed: set[FetchSessionKey] = set()  # those of which nothing is selected

    def take(self, request: Request, body: Tree, response: Tree | None, sent: bool) -> list[str]:
        """Learn from a fetch, and return the topics that the response shows it to be about."""
        issued = (response or {}).get("session_id", NO_SESSION)
        session = (request.server, body.get("session_id", NO_SESSION))
        if body.get("session_epoch", -1) <= INITIAL_EPOCH:
            self._tracked.follow(self._tracked.read(request.server, body, issued))
            if issued and sent:
                self._opened.add((request.server, issued))
            return []
        if session in self._opened:
            return []
        if not sent:
            self._tracked.follow(self._tracked.read(request.server, body, issued))
            return []
        if session not in self.sessions:
            known = self._tracked.known(session)
            selected = {each: fields for each, fields in known.items() if self._selected(each[0])}
            self.sessions[session] = selected
            self._narrowed |= {session} if known and not selected else set()
            self._named[session], self._waiting[session] = set(), []
        return self._follow(session, request, body, response or {})

    def needs_all(self, request: Request, body: Tree) -> bool:
        """Return whether later fetches of the session of this one tell what it is about."""
        session = (request.server, body.get("session_id", NO_SESSION))
        return body.get("session_epoch", -1) > INITIAL_EPOCH and session not in self._opened

    def _follow(self, session: FetchSessionKey, request: Request, body: Tree, response: Tree) -> list[str]:
        known, named = self.sessions[session], self._named[session]
        for topic in body.get("topics") or ():
            name = self._names.captured_topic(topic, "topic") or ""
            named.update((name, each["partition"]) for each in topic["partitions"])
        for topic in body.get("forgotten_topics_data") or ():
            name = self._names.captured_topic(topic, "topic") or ""
            named.update((name, each) for each in topic["partitions"])
        if not named:
            self._waiting[session].append(request.index)
        shown = []
        for topic in response.get("responses") or ():
            name = self._names.captured_topic(topic, "topic") or ""
            if not name or not self._selected(name):
                continue
            for each in topic["partitions"]:
                partition = (name, each["partition_index"])
                if not each["error_code"] and partition not in named and partition not in known:
                    known[partition] = _as_requested(each)
                    shown.append(name)
        return shown

    def refusals(self) -> Iterator[tuple[int, Refusal]]:
        """Return the fetches of which nothing is known, and why they are not sent."""
        for session, indices in self._waiting.items():
            if not self.sessions[session]:
                why = NOT_SELECTED if session in self._narrowed else UNTOLD
                yield from ((index, why) for index in indices)


def _as_requested(response: Tree) -> Tree:
    """Return the fields with which a partition was requested that has this response."""
    offset = first_offset(response["records"] or b"")
    if offset is None:
        offset = response["high_watermark"]
    return {
        "partition": response["partition_index"],
        "fetch_offset": max(offset, 0),
        "partition_max_bytes": USUAL_BYTES,
    }
