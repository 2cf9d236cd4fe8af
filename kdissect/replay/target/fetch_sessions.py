"""Fetch sessions (KIP-227): what a captured session holds, and the replayer's own sessions with the target's nodes.

A fetch within a session names only what changed, so the whole set must be known to send it anywhere else: to leaders that are
other nodes, after a session was lost, in another version. `CapturedSessions` rebuilds the set; an `OwnSession` says all of it when it
begins, and then what changed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kdissect.replay.rewrite.roles import Names, Tree
from kdissect.replay.target.producers import Where

NO_SESSION = 0
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
EPOCH_LIMIT = (1 << 31) - 1
Wanted = dict[Where, Tree]  # captured topic and partition -> the partition's fields, as captured
Place = tuple[str, int]  # server and session id


class Told(NamedTuple):
    """What a captured fetch says of its session."""

    place: Place
    epoch: int
    issued: int  # the session that the captured answer opened, 0 if none
    said: Wanted
    forgotten: tuple[Where, ...]


class CapturedSessions:
    """The sets of all captured sessions. A session belongs to a broker, and is known by its id there."""

    def __init__(self, names: Names, older: Mapping[Place, Wanted] | None = None) -> None:
        """`older` are sessions that began before, with what they were about."""
        self._names = names
        self._sets: dict[Place, Wanted] = {
            place: dict(known) for place, known in (older or {}).items() if known
        }

    def known(self, place: Place) -> Wanted:
        """Give what a session is about by now, as far as it is known."""
        return dict(self._sets.get(place, {}))

    def told(self, server: str, body: Tree, issued: int) -> Told:
        """Read what a fetch says; that can be done before its turn. `issued` is the session that the captured answer opened, 0 if none."""
        forgotten = [
            (self._names.captured_topic(topic, "topic") or "", each)
            for topic in body.get("forgotten_topics_data") or ()
            for each in topic["partitions"]
        ]
        place = server, body.get("session_id", NO_SESSION)
        epoch = body.get("session_epoch", FINAL_EPOCH)
        return Told(place, epoch, issued, self._said(body), tuple(forgotten))

    def wanted(self, told: Told) -> tuple[Wanted, Wanted, Sequence[Where]] | None:
        """Give (all that a fetch is about, what it says itself, what it forgets); None if its session is older than the capture.

        All that a session is about is one object as long as the session lasts, and changes with each of its fetches.
        """
        place, epoch, issued, said, forgotten = told
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if place[1]:
                self._sets.pop(place, None)
            if not issued:
                return said, said, ()
            known = self._sets[place[0], issued] = dict(said)
            return known, said, ()
        found = self._sets.get(place)
        if found is None:
            if not said:
                return None
            found = self._sets[place] = {}
        gone = [where for where in forgotten if found.pop(where, None) is not None] if forgotten else ()
        if said:
            found.update(said)
        return found, said, gone

    def _said(self, body: Tree) -> Wanted:
        found: Wanted = {}
        for topic in body["topics"] or ():
            name = self._names.captured_topic(topic, "topic")
            for partition in topic["partitions"]:
                found[name or f"?{topic.get('topic_id', b'').hex()}", partition["partition"]] = partition
        return found


@dataclass(slots=True)
class OwnSession:
    """Our session on one link."""

    session_id: int = NO_SESSION
    epoch: int = INITIAL_EPOCH

    def request(
        self, wanted: Mapping[Where, Tree], changed: Mapping[Where, Tree], gone: Sequence[Where]
    ) -> tuple[int, int, Mapping[Where, Tree], Sequence[Where]]:
        """Give session id, epoch, the partitions to name, and those to forget; `changed` and `gone` are since the last request."""
        if not self.session_id:
            return NO_SESSION, INITIAL_EPOCH, wanted, ()
        epoch, self.epoch = self.epoch, 1 if self.epoch >= EPOCH_LIMIT else self.epoch + 1
        return self.session_id, epoch, changed, gone

    def answered(self, asked: tuple[int, int], session_id: int, error: int) -> None:
        """Take in the answer to (session id, epoch); after any error of the session a new one begins."""
        asked_id, asked_epoch = asked
        if asked_epoch == INITIAL_EPOCH and not error:
            self.session_id, self.epoch = session_id, 1
        elif asked_id == self.session_id and (error or not session_id):
            self.session_id, self.epoch = NO_SESSION, INITIAL_EPOCH
