"""Incidents without a known cause: an error that repeats, latency that changed its level."""

from kdissect.protocol.schema.registry import api_name
from kdissect.report.incidents.cause import Case, Diagnosis, Relation
from kdissect.report.incidents.slow_server_causes import (
    SAME_MOMENT_NS,
    is_busy,
    is_marked,
    is_usual,
    paused_ns,
    rivals_rose,
)
from kdissect.report.model.findings import Severity
from kdissect.report.model.incidents import Signal, Subject, SubjectKind
from kdissect.report.wording import capitalized, counted, listed
from kdissect.text import format_clock, format_duration

WENT_AWAY = 4
"""A client that sends so many times fewer requests has ended, or moved to another host."""

CLIENTS_NAMED = 3
LOST, LOST_CLIENTS = 3, 2
"""So many connections, of so many clients, do not end together by chance."""

TIMES = ("before", "after")
MORE_REQUESTS = 2
"""A client that sends so many times the requests as latency rises makes it rise."""

UNKNOWN = 0.3
"""How certain a change without a reason is to be the cause of anything: less than causes that are known."""


def errors_repeated(case: Case) -> Diagnosis | None:
    """The same error again and again."""
    errors = case.anchor
    sentence = errors.sentence
    return Diagnosis(
        errors.subject,
        errors.begin_ns,
        errors.end_ns,
        capitalized(sentence),
        0.8,
        (errors,),
    )


def latency_changed(case: Case) -> Diagnosis | None:
    """Latency of a server, of several or of a client changed its level."""
    rose = case.anchor
    if rose.subject.kind is SubjectKind.TOPIC:
        return _topic_changed(rose)
    if not is_marked(rose, case.end_ns, paused_ns(case)) or _went_away(rose):
        return None
    together = [
        signal
        for signal in case.near(("latency_rose",), Relation.ANYWHERE, SAME_MOMENT_NS, 0)
        if abs(signal.begin_ns - rose.begin_ns) <= SAME_MOMENT_NS and is_marked(signal, case.end_ns)
    ]
    of_server = rose.subject.kind is SubjectKind.SERVER
    if not of_server and len(together) > 1:
        return None  # servers are what became slow, and each of them is an anchor, too
    servers = sorted({signal.subject.name for signal in (rose, *together)}) if of_server else []
    before, after = (format_duration(rose.measures[f"{when}_ns"]) for when in TIMES)
    api = api_name(rose.measures["api_key"])
    where = (
        f"{api} at {counted(len(servers), 'broker')}" if len(servers) > 1 else f"{api} of {rose.subject.name}"
    )
    loaders, grown = _loaders(case), _grown(case, servers)
    doubts = _doubts(case)
    cluster = Subject(kind=SubjectKind.CLUSTER, name="the cluster")
    return Diagnosis(
        cluster if len(servers) > 1 else rose.subject,
        rose.begin_ns,
        rose.end_ns,
        f"{where} went from {before} to {after} at {format_clock(rose.begin_ns)}, and "
        f"{_reason(loaders, grown)}",
        UNKNOWN,
        (rose, *(together if len(servers) > 1 else ())),
        speaks_against=("no server, path or quota explains it", *doubts),
        severity=Severity.NOTE if doubts or loaders or grown else None,
    )


def _reason(loaders: list[Signal], grown: list[Signal]) -> str:
    """Return the end of the sentence about latency that rose: who sends or gets more requests, if any do."""
    if not loaders and grown:
        before, after = (sum(one.measures[f"per_1000_s_{when}"] for one in grown) / 1000 for when in TIMES)
        names = listed(sorted({name for one in grown for name in one.clients}), CLIENTS_NAMED)
        rates = f"{after:.3g} requests a second came in place of {before:.3g} since then"
        return f"{rates}, most of them from {names}"
    if not loaders:
        return "nothing in the capture shows why"
    before, after = (
        sum(one.measures[f"requests_per_1000_s_{when}"] for one in loaders) / 1000 for when in TIMES
    )
    names = listed([one.subject.name for one in loaders], CLIENTS_NAMED)
    return f"{names} sent {after:.3g} requests a second in place of {before:.3g} since then"


def _loaders(case: Case) -> list[Signal]:
    """Return the clients that send far more requests since latency rose, and whose latency rose, too."""
    near = case.near(("client_latency_rose",), Relation.ANYWHERE, SAME_MOMENT_NS, 0)
    return [
        one
        for one in (case.anchor, *near)
        if one.subject.kind is SubjectKind.CLIENT
        and abs(one.begin_ns - case.anchor.begin_ns) <= SAME_MOMENT_NS
        and one.measures["requests_per_1000_s_after"]
        > MORE_REQUESTS * one.measures["requests_per_1000_s_before"]
        > 0
    ]


def _grown(case: Case, servers: list[str]) -> list[Signal]:
    """Return that each of some servers gets more requests since latency rose there; none if one does not."""
    near = case.near(("load_grew",), Relation.ANYWHERE, SAME_MOMENT_NS, SAME_MOMENT_NS)
    grown = [one for one in near if one.subject.name in servers]
    return grown if servers and {one.subject.name for one in grown} == set(servers) else []


def _doubts(case: Case) -> list[str]:
    """Return what shows that a busy host, or a short pause of a broker, may be all that there is."""
    rose = case.anchor
    doubts = []
    if is_usual(rose, case.end_ns):
        doubts.append("another broker was as slow for seconds before")
    if rivals_rose(rose):
        rivals = "servers" if rose.subject.kind is SubjectKind.SERVER else "clients"
        doubts.append(f"requests of other {rivals} became slower at the same time")
    levels = (rose, *case.near(("latency_rose",), Relation.ANYWHERE, SAME_MOMENT_NS, 0))
    if any(one.kind == "latency_rose" and is_busy(one) for one in levels):
        doubts.append("all brokers took long between replica fetches, as on a busy host")
    paused = case.near(("server_silent",), Relation.ANYWHERE, SAME_MOMENT_NS, 0)
    if paused:
        longest = max(paused, key=lambda one: one.measures["silent_ns"])
        lasted = format_duration(longest.measures["silent_ns"])
        doubts.append(f"{longest.subject.name} sent nothing for {lasted} meanwhile")
    return doubts


def _topic_changed(rose: Signal) -> Diagnosis:
    return Diagnosis(
        rose.subject,
        rose.begin_ns,
        rose.end_ns,
        f"{rose.sentence}, and nothing in the capture shows why",
        0.5,
        (rose,),
        speaks_against=("no server, path, client or quota explains it",),
        severity=Severity.NOTE,
    )


def rate_changed(case: Case) -> Diagnosis:
    """Requests or errors a second changed their level, of one subject or of several at a moment."""
    changed = case.anchor
    together = [
        signal
        for signal in case.near((changed.kind,), Relation.ANYWHERE, SAME_MOMENT_NS, 0)
        if abs(signal.begin_ns - changed.begin_ns) <= SAME_MOMENT_NS
    ]
    of_client = changed.subject.kind is SubjectKind.CLIENT
    sentence = changed.sentence if of_client else capitalized(changed.sentence)
    others = f"; {counted(len(together), 'other')} changed at the same moment" if together else ""
    return Diagnosis(
        changed.subject,
        changed.begin_ns,
        changed.end_ns,
        f"{sentence}{others}",
        0.5,
        (changed, *together),
        speaks_against=("more or less load is no fault by itself",),
    )


def _went_away(rose: Signal) -> bool:
    """Return whether a client hardly sends anything any more: its last requests are no new level."""
    before, after = (rose.measures[f"requests_per_1000_s_{when}"] for when in ("before", "after"))
    return rose.subject.kind is SubjectKind.CLIENT and WENT_AWAY * after < before


def requests_unanswered(case: Case) -> Diagnosis | None:
    """Requests without a response when the capture ends."""
    waiting = case.anchor
    sentence = waiting.sentence
    return Diagnosis(
        waiting.subject,
        waiting.begin_ns,
        None,
        capitalized(sentence),
        0.6,
        (waiting,),
        speaks_against=("the response may come after the end of the capture",),
    )


def connections_lost(case: Case) -> Diagnosis | None:
    """Connections of several clients to a server end together, in the midst of requests."""
    ended = case.anchor
    count, cut, again_ns = (ended.measures[name] for name in ("connections", "cut", "again_ns"))
    if count < LOST or len(ended.clients) < LOST_CLIENTS or not cut:
        return None
    back = "nobody connected to it again in the capture"
    if again_ns:
        back = f"the next connection to it began {format_duration(again_ns - ended.begin_ns)} later"
    return Diagnosis(
        ended.subject,
        ended.begin_ns,
        ended.end_ns,
        f"{counted(count, 'connection')} to {ended.subject.name} ended together at "
        f"{format_clock(ended.begin_ns)} with {counted(cut, 'request')} under way, and {back}",
        0.6,
        (ended,),
        speaks_against=("nothing in the capture shows why",),
    )


def slow_responses(case: Case) -> Diagnosis | None:
    """Responses need long from their first to their last byte."""
    transfer = case.anchor
    return Diagnosis(
        transfer.subject, transfer.begin_ns, transfer.end_ns, transfer.sentence, 0.7, (transfer,)
    )
