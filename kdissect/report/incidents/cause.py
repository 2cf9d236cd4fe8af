"""Causes as values: the signals it starts from, the function that judges them, and what it explains.

A cause has one or more kinds of *anchor*. Each signal of these kinds makes a `Case`, which the function
`judge` accepts with a `Diagnosis` or refuses with None. It names the subject, the span, the headline
and how certain it is. Then every signal in one of the `links` is explained by it.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable
from enum import Enum, IntEnum
from typing import NamedTuple

from kdissect.protocol.error_codes import ErrorCode
from kdissect.report.model.findings import Severity
from kdissect.report.model.incidents import Signal, Subject

SECOND = 10**9


class Layer(IntEnum):
    """Which cause comes first where several explain a signal: a dead path explains a lost leader."""

    NETWORK = 0
    SERVER = 1
    CLUSTER = 2
    CLIENT = 3
    SYMPTOM = 4
    """Something changed or failed, and no other cause is known."""


class Relation(Enum):
    """How a signal must relate to an incident, beside the time, to be explained by it."""

    SUBJECT = "the same subject"
    SERVER = "a server of the incident"
    CLIENT = "a client of the incident"
    GROUP = "a group of the incident"
    TOPIC = "a topic of the incident"
    ANYWHERE = "any subject"


NAMES_OF = {
    Relation.SERVER: "servers",
    Relation.CLIENT: "clients",
    Relation.GROUP: "groups",
    Relation.TOPIC: "topics",
}
"""The field of a signal in which a relation looks for names."""


class Link(NamedTuple):
    """Signals that a cause explains: their kinds, their relation, and when they begin.

    They begin at most `before_ns` before the incident, and at most `after_ns` after its end. `codes` restrict
    signals of errors to these error codes.
    """

    kinds: tuple[str, ...]
    relation: Relation
    before_ns: int = SECOND
    after_ns: int = 5 * SECOND
    codes: frozenset[ErrorCode] = frozenset()


class Diagnosis(NamedTuple):
    """A case that was accepted. `core` are the signals of the cause itself, the anchor first."""

    subject: Subject
    begin_ns: int
    end_ns: int | None
    headline: str
    confidence: float
    core: tuple[Signal, ...]
    speaks_for: tuple[str, ...] = ()
    speaks_against: tuple[str, ...] = ()
    severity: Severity | None = None
    means: str = ""
    """In place of what the cause says, where one sentence does not fit all of its incidents."""

    def names(self, relation: Relation) -> set[str]:
        """Return the servers, clients, groups or topics of the incident itself."""
        return {name for signal in self.core for name in getattr(signal, NAMES_OF[relation])}


class SignalIndex:
    """The signals of a capture, found by kind and by the time at which they begin."""

    def __init__(self, signals: Iterable[Signal]) -> None:
        self.signals = tuple(signals)
        self._positions = {id(signal): at for at, signal in enumerate(self.signals)}
        self._of_kind: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for at, signal in enumerate(self.signals):
            self._of_kind[signal.kind].append((signal.begin_ns, at))
        for begins in self._of_kind.values():
            begins.sort()

    def position(self, signal: Signal) -> int:
        """Return the place of a signal among all."""
        return self._positions[id(signal)]

    def linked(self, diagnosis: Diagnosis, link: Link, capture_end_ns: int) -> list[int]:
        """Return the places of the signals that stand in a link to a diagnosis, in their order."""
        begin_ns = diagnosis.begin_ns - link.before_ns
        end_ns = capture_end_ns if diagnosis.end_ns is None else diagnosis.end_ns + link.after_ns
        places = []
        for kind in set(link.kinds):
            begins = self._of_kind.get(kind, [])
            for _, at in begins[bisect_left(begins, (begin_ns,)) : bisect_left(begins, (end_ns + 1,))]:
                if _is_related(diagnosis, link, self.signals[at]):
                    places.append(at)
        return sorted(places)


class Case:
    """A signal that a cause starts from, among all signals of the capture."""

    def __init__(self, anchor: Signal, index: SignalIndex, span_ns: tuple[int, int]) -> None:
        self.anchor, self.index, self.signals = anchor, index, index.signals
        self.begin_ns, self.end_ns = span_ns
        """The first and the last time of the capture."""

    def near(
        self, kinds: Iterable[str], relation: Relation, before_ns: int = SECOND, after_ns: int = SECOND
    ) -> list[Signal]:
        """Return signals of some kinds in a relation to the anchor, by time.

        They begin at most `before_ns` before it begins, and at most `after_ns` after it ends.
        """
        own = Diagnosis(
            self.anchor.subject, self.anchor.begin_ns, self.anchor.end_ns, "", 1.0, (self.anchor,)
        )
        link = Link(tuple(kinds), relation, before_ns, after_ns)
        near = (self.signals[at] for at in self.index.linked(own, link, self.end_ns))
        return [signal for signal in near if signal is not self.anchor]

    def beside(self, anchor: Signal) -> "Case":
        """Return the case of another signal of the same capture."""
        return Case(anchor, self.index, (self.begin_ns, self.end_ns))


def joined_core(diagnoses: Iterable[Diagnosis]) -> tuple[Signal, ...]:
    """Return the signals that several diagnoses are made of, each once."""
    return tuple({id(signal): signal for one in diagnoses for signal in one.core}.values())


def _is_related(diagnosis: Diagnosis, link: Link, signal: Signal) -> bool:
    """Return whether a signal, of a kind and a time that a link names, is related as the link says."""
    if link.codes and signal.measures.get("code") not in link.codes:
        return False
    if link.relation is Relation.ANYWHERE:
        return True
    if link.relation is Relation.SUBJECT:
        return signal.subject == diagnosis.subject
    return not diagnosis.names(link.relation).isdisjoint(getattr(signal, NAMES_OF[link.relation]))


class Cause(NamedTuple):
    """One row of the table of causes; names stay. `needs` and `against` are words for the documentation."""

    name: str
    layer: Layer
    severity: Severity
    anchors: tuple[str, ...]
    judge: Callable[[Case], Diagnosis | None]
    links: tuple[Link, ...]
    needs: str
    against: str
    means: str
    next: str
