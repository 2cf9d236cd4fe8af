"""Causes that lie with a server: it was killed, it was stopped, it froze, it is slow or overloaded.

broker_killed     its connections ended together, attempts are refused, nothing moved before
broker_stopped    the same, and leadership moved away before the connections ended
broker_down       attempts are refused, and the capture does not show how it ended
broker_slow       its latency rose, and not that of the others; or it was always higher
broker_overloaded the same, and it has more requests than before
"""

from kdissect.protocol.schema.registry import api_name
from kdissect.report.incidents.cause import SECOND, Case, Diagnosis, Relation
from kdissect.report.incidents.one_host import doubts_of_one_host, one_host
from kdissect.report.model.incidents import Signal, Subject, SubjectKind
from kdissect.report.wording import capitalized, counted, known_as, listed, refused_attempts, under_way
from kdissect.text import format_clock, format_duration

HANDOVER_NS = 8 * SECOND
"""A broker that stops in good order hands its partitions over within this time before it closes."""

BACK_NS = 120 * SECOND
SOON_NS = 5 * SECOND
"""A server that closes a connection this shortly before it refuses the next one ended at that moment."""

CLOSING_NS = SECOND // 4
"""Packets that still follow the end of a connection come within this."""

RESTART_NS = 2 * SECOND
"""A server that accepts connections sooner than this, and refused none, did not end."""

HANDOVER = ("leadership_left", "coordinator_left")
HANDOVER_CLIENTS = 2
"""A handover is known if so many clients and replicas learnt of it; one alone may have been out of date."""

BUSY_REACTION_NS, BUSY_RATIO = 5_000_000, 3
"""Brokers that take this long to their next replica fetch share a busy host, or are all busy.

One of them is slow by itself only if it takes so many times as long as the others.
"""

SLOW_RATIO, SLOW_MORE_NS, SLOW_LASTED_NS = 4, 20_000_000, 5 * SECOND
"""Latency that rose by less, or for less, is reported by nobody: a busy host does as much."""

SPELL_NS = 10 * SECOND
"""Busy hosts slow a server for less."""

DOWN_ATTEMPTS = 3
TOPICS_NAMED = CLIENTS_NAMED = 3
BY_SERVER = 0.6
"""The part of connections that the server closed, from which on it ended them all."""

ALIKE = 2.0
"""Servers whose levels are within this ratio are slow alike: which of them is the cause cannot be told."""

ALONE_MORE_NS, ALONE_TIMES_1000, RIVALS_STEADY_1000 = 5_000_000, 8_000, 1_300
"""The least rise of a server that becomes so many times slower, while the others are steady."""

LEAST_REACTION_NS = 1_000_000
"""Followers that react faster than this count as this fast."""

RIVALS_ROSE_1000 = 2_000
OWN_MORE_NS = 10_000_000
SAME_MOMENT_NS = 3 * SECOND


def broker_killed(case: Case) -> Diagnosis | None:
    """Connections of a server ended together, or its last one did, and nothing announced it."""
    if case.anchor.kind == "attempts_refused":
        return _last_one_ended(case) if _ended_alone(case) else None
    if _handover(case):
        return None
    if _was_busy(case.anchor):
        return _gone(case, "died", "requests were under way on most of its connections when they ended")
    return _gone(case, "died", "no partition moved away before its connections ended")


def broker_stopped(case: Case) -> Diagnosis | None:
    """Connections of a server ended together after leadership had moved away."""
    before = _handover(case)
    if not before:
        return None
    return _gone(case, "was stopped", "partitions moved away before its connections ended", tuple(before))


def _was_busy(ended: Signal) -> bool:
    """Return whether requests were under way on most connections when they ended, if captured in full.

    A broker that stops in good order answers what it has begun, and nobody sends more to it by then.
    """
    return 2 * ended.measures["cut"] >= max(ended.measures["complete"], 1)


def _handover(case: Case) -> list[Signal]:
    """Return signals of a handover: the server no longer leads or coordinates, and still answers.

    An election shortly before is none if the server was still at work when its connections ended.
    """
    if _was_busy(case.anchor):
        return []
    moved = case.near(HANDOVER, Relation.SUBJECT, before_ns=HANDOVER_NS, after_ns=0)
    before = [signal for signal in moved if signal.begin_ns < case.anchor.begin_ns - SECOND // 20]
    known = sum(signal.measures["clients"] + signal.measures["replicas"] for signal in before)
    return sorted(before, key=lambda signal: signal.begin_ns) if known >= HANDOVER_CLIENTS else []


def _gone(case: Case, verb: str, reason: str, before: tuple[Signal, ...] = ()) -> Diagnosis | None:
    ended = case.anchor
    refused = _refused(case)
    alone = ended.measures["by_server"] >= BY_SERVER * ended.measures["connections"]
    several = len(ended.clients) >= HANDOVER_CLIENTS
    again = ended.measures["again_ns"]
    alive = bool(again) and again - ended.end_ns < RESTART_NS if ended.end_ns is not None else False
    if not refused and (alive or not (several and (alone or ended.measures["cut"]))):
        return None
    begin = before[0].begin_ns if before else ended.begin_ns
    end = refused[0].end_ns if refused else ended.measures["again_ns"] or None
    connections = counted(ended.measures["connections"], "connection")
    parts = [f"{connections} ended together{under_way(ended.measures['cut'])}"]
    if refused:
        parts.append(refused_attempts(sum(signal.requests for signal in refused), bool(end)))
    parts += _refused_writes(case)
    back = f" and was back after {format_duration(end - ended.begin_ns)}" if end else ""
    headline = f"{capitalized(ended.subject.name)} {verb} at {format_clock(begin)}{back}: {', '.join(parts)}"
    return Diagnosis(
        ended.subject,
        begin,
        end,
        headline,
        0.95 if refused else 0.7,
        (ended, *refused, *before),
        speaks_for=(reason, *(("its address refused new connections",) if refused else ())),
        speaks_against=() if refused else ("no attempt to connect was refused afterwards",),
    )


def _refused(case: Case) -> list[Signal]:
    """Return the refused attempts after connections ended: those before the server talks again."""
    again = case.anchor.measures["again_ns"] or case.end_ns
    near = case.near(("attempts_refused",), Relation.SUBJECT, after_ns=BACK_NS)
    return [signal for signal in near if signal.begin_ns <= again]


def _ended_alone(case: Case) -> bool:
    """Return whether a server closed its last connection, and refused the next one, without a handover."""
    refused = case.anchor
    soon = refused.begin_ns - refused.measures["closed_ns"] <= SOON_NS
    last = refused.measures["talked_ns"] - refused.measures["closed_ns"] <= CLOSING_NS
    together = case.near(("connections_ended",), Relation.SUBJECT, BACK_NS, SECOND)
    return soon and last and not together and not case.near(HANDOVER, Relation.SUBJECT, HANDOVER_NS, 0)


def _last_one_ended(case: Case) -> Diagnosis | None:
    """Return that a server died of which hardly any connection is in the capture."""
    down = _refuses(case)
    if down is None:
        return None
    ended, refused = case.anchor.measures["closed_ns"], case.anchor
    name, attempts = capitalized(refused.subject.name), counted(refused.measures["attempts"], "attempt")
    back = f" and was back after {format_duration(down.end_ns - ended)}" if down.end_ns else ""
    until = "" if down.end_ns else " until the end of the capture"
    return down._replace(
        begin_ns=ended,
        headline=f"{name} died at {format_clock(ended)}{back}: it closed its last connection, and {attempts} "
        f"to connect {'was' if refused.measures['attempts'] == 1 else 'were'} refused{until}",
        speaks_for=("no partition moved away before its connection ended", *down.speaks_for),
        speaks_against=("few connections show it: it may have been stopped in good order",),
    )


def broker_down(case: Case) -> Diagnosis | None:
    """A server refuses attempts to connect, and the capture does not show how it ended."""
    return None if _ended_alone(case) else _refuses(case)


def _refuses(case: Case) -> Diagnosis | None:
    """Return that a server refuses attempts to connect, if no connections of it were seen to end together."""
    refused = case.anchor
    lasted = refused.measures["last_ns"] - refused.begin_ns
    if refused.measures["attempts"] < DOWN_ATTEMPTS or lasted < SECOND or refused.measures["elsewhere"]:
        return None
    if case.near(("connections_ended",), Relation.SUBJECT, BACK_NS, SECOND):
        return None
    name = capitalized(refused.subject.name)
    attempts = counted(refused.measures["attempts"], "attempt")
    ending = "until the end of the capture"
    if refused.end_ns is not None:
        ending = (
            f"until {format_clock(refused.end_ns)} ({format_duration(refused.end_ns - refused.begin_ns)})"
        )
    talked = refused.measures["talked_ns"]
    before = f"; its last connection ended at {format_clock(talked)}" if talked else ""
    since = f"since {format_clock(refused.begin_ns)}" if talked else "since the capture began or before"
    who = "" if talked else f" of {listed([*map(known_as, refused.clients)], CLIENTS_NAMED)}"
    state = f"{name} is down {since}"
    if not talked and not refused.subject.name.startswith("broker "):
        state = f"Nobody listens at {refused.subject.name}, since {format_clock(refused.begin_ns)} or before"
    return Diagnosis(
        refused.subject,
        refused.begin_ns,
        refused.end_ns,
        f"{state}: {attempts}{who} to connect refused {ending}{before}",
        0.8,
        (refused,),
        speaks_for=("its host refuses connections: the host lives, and no process listens at the port",),
        speaks_against=() if talked else ("nobody may ever have listened at this address",),
    )


def _refused_writes(case: Case) -> list[str]:
    """Return what topics that want more in-sync replicas than are left do."""
    missing = case.near(("replicas_missing",), Relation.ANYWHERE, 15 * SECOND, 30 * SECOND)
    if not missing:
        return []
    topics = listed(sorted({topic for signal in missing for topic in signal.topics}), TOPICS_NAMED)
    writes = counted(sum(signal.requests for signal in missing), "write")
    return [f"{writes} to {topics} refused since too few replicas are in sync"]


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
