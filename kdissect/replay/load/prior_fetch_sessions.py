"""Fetch sessions (KIP-227) that are older than what is sent, and what they turn out to be about.

A fetch within a session names only what changed, so a capture that begins later does not show the whole set.
A partition in a response that no request named before was in the set all along: at the offset of the first
record in the response or, if there is none, at the end of the log. A session that was opened in the capture,
but before the part of it that is sent, is known in full.
"""

from collections.abc import Callable, Iterator

from kdissect.protocol.records.batches import first_offset
from kdissect.replay.disposition import Disposition
from kdissect.replay.identifiers import FetchSessionKey, TopicPartition
from kdissect.replay.load.captured_fetch_sessions import (
    INITIAL_EPOCH,
    NO_SESSION,
    CapturedFetchSessions,
    FetchedPartitions,
)
from kdissect.replay.load.policy import Refusal
from kdissect.replay.load.request_table import Request
from kdissect.replay.rewrite.names import Names, Tree

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
