"""How modules of signals make them: a function with the defaults of what a signal does not have."""

from collections.abc import Iterable, Mapping, Sequence

from kdissect.report.model.findings import Evidence
from kdissect.report.model.incidents import Signal, Subject, SubjectKind

EVIDENCE_KEPT = 5


def make_signal(
    kind: str,
    subject: tuple[SubjectKind, str],
    span_ns: tuple[int, int | None],
    sentence: str,
    *,
    measures: Mapping[str, int] | None = None,
    servers: Iterable[str] = (),
    clients: Iterable[str] = (),
    groups: Iterable[str] = (),
    topics: Iterable[str] = (),
    requests: int = 0,
    wait_ns: int = 0,
    evidence: Sequence[Evidence] = (),
) -> Signal:
    """Return a signal; names are sorted, and the subject is among the servers or clients that it touches."""
    of_kind = {
        SubjectKind.SERVER: set(servers),
        SubjectKind.CLIENT: set(clients),
        SubjectKind.GROUP: set(groups),
        SubjectKind.TOPIC: set(topics),
    }
    if subject[0] in of_kind:
        of_kind[subject[0]].add(subject[1])
    return Signal(
        kind=kind,
        subject=Subject(kind=subject[0], name=subject[1]),
        begin_ns=span_ns[0],
        end_ns=span_ns[1],
        sentence=sentence,
        measures=dict(measures or {}),
        servers=tuple(sorted(of_kind[SubjectKind.SERVER])),
        clients=tuple(sorted(of_kind[SubjectKind.CLIENT])),
        groups=tuple(sorted(of_kind[SubjectKind.GROUP])),
        topics=tuple(sorted(of_kind[SubjectKind.TOPIC])),
        requests=requests,
        wait_ns=wait_ns,
        evidence=tuple(evidence[:EVIDENCE_KEPT]),
    )
