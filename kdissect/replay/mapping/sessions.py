"""Fetch sessions (KIP-227): what a captured session holds, and the replayer's own sessions with the target's nodes.

A fetch within a session names only what changed, so the whole set must be known to send it anywhere else: to leaders that are
other nodes, after a session was lost, in another version. `Captured` rebuilds the set; `Own` says what of a wanted set a node has not
been told yet.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kdissect.replay.mapping.producers import Where
from kdissect.replay.rewriting.roles import Names, Tree

NO_SESSION = 0
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
EPOCH_LIMIT = (1 << 31) - 1
Wanted = dict[Where, Tree]  # captured topic and partition -> the partition's fields, as captured
Place = tuple[str, int]  # server and session id


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

    def wanted(self, server: str, body: Tree, issued: int) -> tuple[Wanted, Wanted] | None:
        """Give (all that a fetch is about, what it says itself); None if its session began before the capture.

        `issued` is the session that the captured answer opened, 0 if none.
        """
        said = self._said(body)
        session, epoch = body.get("session_id", NO_SESSION), body.get("session_epoch", FINAL_EPOCH)
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session:
                self._sets.pop((server, session), None)
            if issued:
                self._sets[server, issued] = dict(said)
            return said, said
        known = self._sets.get((server, session))
        if known is None:
            if not said:
                return None
            known = self._sets[server, session] = {}
        for topic in body.get("forgotten_topics_data") or ():
            name = self._names.captured_topic(topic, "topic")
            for partition in topic["partitions"]:
                known.pop((name or "", partition), None)
        known.update(said)
        return dict(known), said

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
    told: dict[Where, Tree] = field(default_factory=dict)

    def request(self, wanted: Mapping[Where, Tree]) -> tuple[int, int, dict[Where, Tree], list[Where]]:
        """Give session id, epoch, the partitions to name, and those to forget."""
        if not self.session_id:
            self.told = dict(wanted)
            return NO_SESSION, INITIAL_EPOCH, dict(wanted), []
        changed = {where: fields for where, fields in wanted.items() if self.told.get(where) != fields}
        forgotten = [where for where in self.told if where not in wanted]
        self.told = dict(wanted)
        epoch, self.epoch = self.epoch, 1 if self.epoch >= EPOCH_LIMIT else self.epoch + 1
        return self.session_id, epoch, changed, forgotten

    def answered(self, asked: tuple[int, int], session_id: int, error: int) -> None:
        """Take in the answer to (session id, epoch); after any error of the session a new one begins."""
        asked_id, asked_epoch = asked
        if asked_epoch == INITIAL_EPOCH and not error:
            self.session_id, self.epoch = session_id, 1
        elif asked_id == self.session_id and (error or not session_id):
            self.session_id, self.epoch, self.told = NO_SESSION, INITIAL_EPOCH, {}
