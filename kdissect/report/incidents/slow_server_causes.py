"""Causes that lie with a server that answers late: it is slow, or overloaded.

broker_slow       its latency rose, and not that of the others; or it was always higher
broker_overloaded the same, and it has more requests than before
"""

from kdissect.protocol.schema.registry import api_name
from kdissect.report.incidents.cause import SECOND, Case, Diagnosis, Relation
from kdissect.report.incidents.one_host import doubts_of_one_host, one_host
from kdissect.report.model.incidents import Signal, Subject, SubjectKind
from kdissect.report.wording import capitalized, counted, listed
from kdissect.text import format_clock, format_duration

CLIENTS_NAMED = 3

BUSY_REACTION_NS, BUSY_RATIO = 5_000_000, 3
"""Brokers that take this long to their next replica fetch share a busy host, or are all busy.

One of them is slow by itself only if it takes so many times as long as the others.
"""

SLOW_RATIO, SLOW_MORE_NS, SLOW_LASTED_NS = 4, 20_000_000, 5 * SECOND
"""Latency that rose by less, or for less, is reported by nobody: a busy host does as much."""

SPELL_NS = 10 * SECOND
"""Busy hosts slow a server for less."""

ALIKE = 2.0
"""Servers whose levels are within this ratio are slow alike: which of them is the cause cannot be told."""

ALONE_MORE_NS, ALONE_TIMES_1000, RIVALS_STEADY_1000 = 5_000_000, 8_000, 1_300
"""The least rise of a server that becomes so many times slower, while the others are steady."""

LEAST_REACTION_NS = 1_000_000
"""Followers that react faster than this count as this fast."""

RIVALS_ROSE_1000 = 2_000
OWN_MORE_NS = 10_000_000
SAME_MOMENT_NS = 3 * SECOND


def broker_slow(case: Case) -> Diagnosis | None:
    """Latency of a server rose for its clients, more than elsewhere; or it was always slow."""
    if case.anchor.kind == "slow_broker":
        return _always_slow(case.anchor)
    if case.anchor.kind == "follower_slowed":
        return _slow_follower(case)
    loaded = _load(case) or case.near(("commits_storm",), Relation.SERVER, SAME_MOMENT_NS, SECOND)
    return None if loaded else _slow(case, "became slow", "")


def _slow_follower(case: Case) -> Diagnosis | None:
    """A broker takes longer to its next replica fetch, and the others do not."""
    slowed = case.anchor
    if case.near(("follower_silent", "path_silent"), Relation.SERVER, SAME_MOMENT_NS, SECOND):
        return None
    if slowed.end_ns and slowed.end_ns - slowed.begin_ns - paused_ns(case) < SLOW_LASTED_NS:
        return None
    before, after = slowed.measures["before_ns"], slowed.measures["after_ns"]
    rivals_before, rivals_after = slowed.measures["rival_before_ns"], slowed.measures["rival_after_ns"]
    if (
        not rivals_before
        or rivals_after**2 * before >= rivals_before**2 * after
        or BUSY_RATIO * max(rivals_before, rivals_after) > after
    ):
        return None
    writes = case.near(("latency_rose", "client_latency_rose"), Relation.ANYWHERE, SAME_MOMENT_NS, 0)
    if after - before < SLOW_MORE_NS and not any(is_marked(one, case.end_ns) for one in writes):
        return None  # nobody waits for it
    name = capitalized(slowed.subject.name)
    return Diagnosis(
        slowed.subject,
        slowed.begin_ns,
        slowed.end_ns,
        f"{name} became slow at {format_clock(slowed.begin_ns)}: as a follower it takes "
        f"{format_duration(after)} instead of {format_duration(before)} to ask for the next records, and "
        "writes with acks=all wait for it",
        0.7,
        (slowed,),
        speaks_for=(f"the other brokers take {format_duration(rivals_after)}",),
    )


def _always_slow(slow: Signal) -> Diagnosis | None:
    if len(slow.servers) != 1:
        return None
    name, detail = slow.servers[0], slow.sentence.partition(": ")[2]
    return Diagnosis(
        Subject(kind=SubjectKind.SERVER, name=name),
        slow.begin_ns,
        None,
        f"{capitalized(name)} is slower than the other brokers since the capture began: {detail}",
        0.6,
        (slow,),
        speaks_for=("it was slower most of the time, for the same clients",),
        speaks_against=("the capture does not show it any quicker",),
    )


def broker_overloaded(case: Case) -> Diagnosis | None:
    """Latency of a server rose for its clients, and so did the number of its requests."""
    if not (grew := _load(case)):
        return None
    before, after = (grew[0].measures[f"per_1000_s_{when}"] / 1000 for when in ("before", "after"))
    loaders = listed(grew[0].clients, CLIENTS_NAMED)
    load = f"; its requests went from {before:.3g} to {after:.3g} a second, most of them from {loaders}"
    slow = _slow(case, "is overloaded", load)
    return slow and slow._replace(core=(*slow.core, *grew))


def _load(case: Case) -> list[Signal]:
    """Return the signal that a server gets more requests since its latency rose, if it does."""
    return case.near(("load_grew",), Relation.SUBJECT, 0, 0)


def is_marked(rose: Signal, capture_end_ns: int, paused_ns: int = 0) -> bool:
    """Return whether latency rose by so much, and for so long, that somebody should look.

    `paused_ns` of that time are a pause, which is judged by itself.
    """
    before, after = rose.measures["before_ns"], rose.measures["after_ns"]
    lasted = (capture_end_ns if rose.end_ns is None else rose.end_ns) - rose.begin_ns - paused_ns
    least = ALONE_MORE_NS if _rose_alone(rose) else SLOW_MORE_NS
    return after >= SLOW_RATIO * before and after - before >= least and lasted >= SLOW_LASTED_NS


def paused_ns(case: Case) -> int:
    """Return how long the server whose latency rose, or the servers of a client, sent nothing meanwhile."""
    near = case.near(("server_silent",), Relation.SERVER, SECOND, 0)
    return max((signal.measures["silent_ns"] for signal in near), default=0)


def is_busy(rose: Signal) -> bool:
    """Return whether all brokers take long to their next replica fetch, and this one not far longer."""
    rivals = max(rose.measures.get(f"rival_reaction_{when}_ns", 0) for when in ("before", "after"))
    return rivals >= BUSY_REACTION_NS and 0 < rose.measures["reaction_after_ns"] < BUSY_RATIO * rivals


def is_usual(rose: Signal, capture_end_ns: int) -> bool:
    """Return whether another server was as slow for seconds before, and the rise is no longer than a spell.

    Servers of a busy host become slow for seconds, one after the other.
    """
    lasted = (capture_end_ns if rose.end_ns is None else rose.end_ns) - rose.begin_ns
    return lasted < SPELL_NS and ALIKE * rose.measures.get("rival_worst_ns", 0) >= rose.measures["after_ns"]


def _rose_alone(rose: Signal) -> bool:
    """Return whether requests that wait for no other broker became slow, while those of rivals did not.

    A busy host slows its neighbours, too, so this is no noise.
    """
    own, rivals = _times_1000(rose)
    return own >= ALONE_TIMES_1000 and 0 < rivals <= RIVALS_STEADY_1000


def _times_1000(rose: Signal) -> tuple[int, int]:
    """Return how many times as long, times 1,000, a server and its rivals take for what is their own.

    That is requests that wait for no other broker; without them, the next Fetch of followers. 0 is unknown.
    """
    measures = rose.measures
    if measures["times_1000"] and measures["rival_times_1000"]:
        return measures["times_1000"], measures["rival_times_1000"]
    pairs = (
        (measures.get(f"{whose}_before_ns", 0), measures.get(f"{whose}_after_ns", 0))
        for whose in ("reaction", "rival_reaction")
    )
    own, rivals = (1000 * after // max(before, LEAST_REACTION_NS) if after else 0 for before, after in pairs)
    return own, rivals


def rivals_rose(rose: Signal) -> bool:
    """Return whether the other servers, or clients, became slower by half as many doublings or more.

    Then the host of all of them is busy, or the whole cluster is.
    """
    measures = rose.measures
    own, rivals = _times_1000(rose)
    times = own or 1000 * measures["after_ns"] // max(measures["before_ns"], 1)
    return rivals >= RIVALS_ROSE_1000 and rivals**2 >= 1000 * times


def _slowness(rose: Signal) -> tuple[bool, int]:
    """Return whether a server became slow in what is its own, and the level of latency.

    Its own are requests that wait for no other broker, and the time to the next Fetch as a follower.
    """
    return any(_own_rose(rose, name) for name in ("own", "reaction")), rose.measures["after_ns"]


def _own_rose(rose: Signal, name: str) -> bool:
    before, after = (rose.measures.get(f"{name}_{when}_ns", 0) for when in ("before", "after"))
    return bool(before) and after >= SLOW_RATIO * before and after - before >= OWN_MORE_NS


def _slow(case: Case, verb: str, more: str) -> Diagnosis | None:
    rose = case.anchor
    if case.near(("follower_silent", "path_silent"), Relation.SERVER, SAME_MOMENT_NS, SECOND):
        return None  # it waits for what does not arrive
    of_few = 2 * rose.measures["rose"] < rose.measures["present"]
    if not is_marked(rose, case.end_ns, paused_ns(case)) or of_few or rivals_rose(rose) or is_busy(rose):
        return None
    if is_usual(rose, case.end_ns):
        return None
    others = [
        signal
        for signal in case.near((rose.kind,), Relation.ANYWHERE, SAME_MOMENT_NS, 0)
        if abs(signal.begin_ns - rose.begin_ns) <= SAME_MOMENT_NS and signal.subject != rose.subject
    ]
    if any(_slowness(signal) > _slowness(rose) for signal in others):
        return None
    level = rose.measures["after_ns"] / ALIKE
    if not _slowness(rose)[0] and any(signal.measures["after_ns"] > level for signal in others):
        return None
    api = api_name(rose.measures["api_key"])
    before, after = (format_duration(rose.measures[f"{when}_ns"]) for when in ("before", "after"))
    clients = f"{rose.measures['rose']} of its {counted(rose.measures['present'], 'client')}"
    against = [f"{signal.subject.name} became slower at the same time" for signal in others]
    against += doubts_of_one_host(rose)
    at_host = f", all at host {host}" if (host := one_host(rose)) else ""
    return Diagnosis(
        rose.subject,
        rose.begin_ns,
        rose.end_ns,
        f"{capitalized(rose.subject.name)} {verb} at {format_clock(rose.begin_ns)}: "
        f"{api} went from {before} to {after} for {clients}{at_host}{more}",
        0.8 if not others else 0.65,
        (rose,),
        speaks_for=("requests of most of its clients take several times as long",),
        speaks_against=tuple(against),
    )
