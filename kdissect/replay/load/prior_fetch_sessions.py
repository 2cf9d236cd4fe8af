"""Fetch sessions that are older than what is played, and the partitions that they turn out to be about.

A fetch within a session names only what changed since, so a capture that begins later does not show the whole set. What an answer
brings without a request having named it before was in the set all along: at the offset of the first record that it brings,
or, if it brings none, at the end of the log. A session that was opened in the capture, but before the part of it that is
played, is known in full.
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
from kdissect.replay.load.requests import Request
from kdissect.replay.rewrite.names import Names, Tree

USUAL_BYTES = 1 << 20  # max.partition.fetch.bytes of a client that nobody configured
NOT_CHOSEN = Refusal(Disposition.POLICY, "excluded by --topic")
UNTOLD = Refusal(
    Disposition.HEADLESS, "its fetch session began before the capture, which does not tell what it is about"
)


class PriorFetchSessions:
    """Takes all fetches in order; `sessions` has what each older session was about when it was first played."""

    def __init__(self, names: Names, chosen: Callable[[str], bool]) -> None:
        """`chosen` tells whether a topic is to be played."""
        self.sessions: dict[FetchSessionKey, FetchedPartitions] = {}
        self._names, self._chosen = names, chosen
        self._tracked = CapturedFetchSessions(names)  # played or not
        self._opened: set[FetchSessionKey] = set()
        self._named: dict[FetchSessionKey, set[TopicPartition]] = {}  # what requests have named since
        self._waiting: dict[FetchSessionKey, list[int]] = {}  # fetches before one that names something
        self._narrowed: set[FetchSessionKey] = set()  # those of which nothing is chosen

    def take(self, request: Request, body: Tree, said: Tree | None, played: bool) -> list[str]:
        """Take in a fetch; give the topics that an answer tells it to be about."""
        issued = (said or {}).get("session_id", NO_SESSION)
        session, epoch = body.get("session_id", NO_SESSION), body.get("session_epoch", -1)
        place = (request.server, session)
        if epoch <= INITIAL_EPOCH:
            self._tracked.follow(self._tracked.read(request.server, body, issued))
            if issued and played:
                self._opened.add((request.server, issued))
            return []
        if place in self._opened:
            return []
        if not played:
            self._tracked.follow(self._tracked.read(request.server, body, issued))
            return []
        if place not in self.sessions:
            known = self._tracked.known(place)
            self.sessions[place] = {
                where: fields for where, fields in known.items() if self._chosen(where[0])
            }
            self._narrowed |= {place} if known and not self.sessions[place] else set()
            self._named[place], self._waiting[place] = set(), []
        return self._follow(place, request, body, said)

    def _follow(self, place: FetchSessionKey, request: Request, body: Tree, said: Tree | None) -> list[str]:
        known, named = self.sessions[place], self._named[place]
        for field in ("topics", "forgotten_topics_data"):
            for topic in body.get(field) or ():
                name = self._names.captured_topic(topic, "topic") or ""
                named.update(
                    (name, each["partition"] if field == "topics" else each) for each in topic["partitions"]
                )
        if not named:
            self._waiting[place].append(request.index)
        told = []
        for topic in (said or {}).get("responses") or ():
            name = self._names.captured_topic(topic, "topic") or ""
            for each in topic["partitions"]:
                where = (name, each["partition_index"])
                if (
                    name
                    and self._chosen(name)
                    and not each["error_code"]
                    and where not in named
                    and where not in known
                ):
                    known[where] = _as_asked(each)
                    told.append(name)
        return told

    def refusals(self) -> Iterator[tuple[int, Refusal]]:
        """Give the fetches of which nothing is known, and why they are not sent."""
        for place, indices in self._waiting.items():
            if not self.sessions[place]:
                why = NOT_CHOSEN if place in self._narrowed else UNTOLD
                yield from ((index, why) for index in indices)


def _as_asked(answered: Tree) -> Tree:
    """Say how a partition was asked for that was answered so."""
    offset = first_offset(answered["records"] or b"")
    if offset is None:
        offset = answered["high_watermark"]
    return {
        "partition": answered["partition_index"],
        "fetch_offset": max(offset, 0),
        "partition_max_bytes": USUAL_BYTES,
    }
