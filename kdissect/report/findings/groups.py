"""Rules about consumer groups and about producers with identity: who was put out, and why."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator

from kdissect.protocol.api_keys import OFFSET_COMMITS, ApiKey
from kdissect.protocol.error_codes import (
    MEMBER_EXPIRED,
    ErrorCode,
    is_retriable,
)
from kdissect.report.findings.answers import (
    errors_by_client,
)
from kdissect.report.findings.context import (
    FindingContext,
    Judgement,
    Observation,
    count_exchanges,
    evidence,
    group_by,
    plural,
)
from kdissect.report.model.summary import Severity
from kdissect.text import format_duration

STORM_ROUNDS, STORM_ERRORS = 3, 3
MANY_ROUNDS = 10
OPEN_NS = 10 * 10**9
"""A transaction that rests longer than this holds up everyone who reads committed records."""

AFTER_S, EXPIRED_S, TRIGGERS_SHOWN = 10, 15, 3
PAUSE_S = 2
"""Joins with less than this between them belong to one rebalance."""

REBALANCING = frozenset({ErrorCode.REBALANCE_IN_PROGRESS})


def rebalance_storm(scene: FindingContext) -> Judgement | None:
    """Groups that rebalance again and again while members work."""
    errors = scene.errors(REBALANCING)
    pace = [note for note in scene.of("group") if note.second is not None]
    rows, most = [], 0
    for (group,), found in group_by(
        [note for note in pace if note.group_id is not None], lambda note: (note.group_id or "",)
    ):
        joins = [note for note in found if note.api_key == ApiKey.JOIN_GROUP]
        interrupted = count_exchanges(note for note in errors if note.group_id == group)
        begins = _begins(sorted({note.second for note in joins if note.second is not None}))
        rounds = len(begins)
        if rounds < STORM_ROUNDS or interrupted < STORM_ERRORS:
            continue
        most = max(most, rounds)
        left = count_exchanges(note for note in found if note.api_key == ApiKey.LEAVE_GROUP)
        members = len({note.client for note in joins})
        detail = (
            f"{plural(rounds, 'rebalance')}, {plural(count_exchanges(joins), 'join')} by {plural(members, 'client')}, "
            f"{left:,} left, members interrupted {interrupted:,} times; set off by {_triggers(scene, group, found, begins)}"
        )
        rows.append(evidence(group, detail, joins))
    if not rows:
        return None
    severity = Severity.CRITICAL if most >= MANY_ROUNDS else Severity.WARNING
    return Judgement(
        f"{plural(len(rows), 'group')} rebalanced again and again, up to {most} times", rows, severity
    )


def _begins(seconds: list[int]) -> list[int]:
    """Give the second in which each rebalance began."""
    return [second for at, second in enumerate(seconds) if at == 0 or second - seconds[at - 1] > PAUSE_S]


def _triggers(scene: FindingContext, group: str, notes: list[Observation], begins: list[int]) -> str:
    """Say what came before the rebalances, the most frequent first: someone left, was put out, or is new."""
    joins = _by_second(note for note in notes if note.api_key == ApiKey.JOIN_GROUP)
    leaves = _by_second(note for note in notes if note.api_key == ApiKey.LEAVE_GROUP)
    expired = _by_second(note for note in scene.errors(MEMBER_EXPIRED) if note.group_id == group)
    known: set[str] = set()
    causes: Counter[str] = Counter()
    for at, begin in enumerate(begins):
        until = begins[at + 1] if at + 1 < len(begins) else begin + AFTER_S
        joined = _within(joins, begin, min(begin + PAUSE_S, until))
        left = _within(leaves, begin - PAUSE_S, begin)
        put_out = _within(expired, begin - EXPIRED_S, begin + PAUSE_S)
        new = [note for note in joined if note.client not in known]
        if at and left:
            causes[f"{_earliest(left).client} leaving"] += 1
        elif at and put_out:
            causes[f"{_earliest(put_out).client} put out"] += 1
        elif new:
            causes[f"{_earliest(new).client} joining"] += 1
        else:
            causes["members joining again" if joined else "something not seen"] += 1
        known |= {note.client for note in joined}
    shown = [f"{cause} ({plural(count, 'time')})" for cause, count in causes.most_common(TRIGGERS_SHOWN)]
    return ", ".join(shown) + (", and others" if len(causes) > TRIGGERS_SHOWN else "")


def _by_second(notes: Iterable[Observation]) -> dict[int, list[Observation]]:
    found: dict[int, list[Observation]] = {}
    for note in notes:
        found.setdefault(note.first_ns // 10**9, []).append(note)
    return found


def _within(notes: dict[int, list[Observation]], begin: int, end: int) -> list[Observation]:
    return [note for second in range(begin, end + 1) for note in notes.get(second, ())]


def _earliest(notes: list[Observation]) -> Observation:
    return min(notes, key=lambda note: note.first_ns)


def transactions_open(scene: FindingContext) -> Judgement | None:
    """Transactions that were worked on and neither committed nor aborted, long before the capture ends."""
    ended: dict[str, int] = {}
    for note in scene.of("transaction_end"):
        name = note.transactional_id or ""
        ended[name] = max(ended.get(name, 0), note.last_ns)
    until = scene.capture.last_time_ns or scene.totals.last_time_ns or 0
    rows = []
    for (name,), notes in group_by(scene.of("transaction_work"), lambda note: (note.transactional_id or "",)):
        last = max(note.last_ns for note in notes)
        waited = until - last
        if last > ended.get(name, 0) and waited >= OPEN_NS:
            clients = ", ".join(sorted({note.client for note in notes}))
            rows.append(
                evidence(
                    name,
                    f"{clients}: no end in {format_duration(waited)} after the last request of it",
                    notes,
                )
            )
    return Judgement(f"{plural(len(rows), 'transaction')} left open", rows) if rows else None


def member_expired(scene: FindingContext) -> Judgement | None:
    """Members that the coordinator no longer knows, and those that left because they did not poll in time."""
    told = errors_by_client(scene, MEMBER_EXPIRED, "Group members put out")
    rows = list(told.evidence) if told else []
    for (client, group), found in group_by(
        [note for note in scene.of("group") if note.group_id is not None],
        lambda note: (note.client, note.group_id or ""),
    ):
        rests = list(_rests(found))
        if rests:
            detail = (
                f"left the group and joined it again on the same connection after up to {format_duration(max(ns for _, ns in rests))}: "
                "as clients do that exceed max.poll.interval.ms"
            )
            rows.append(evidence(f"{client}: {group}", detail, [left for left, _ in rests]))
    if not rows:
        return None
    title = f"Group members put out: {plural(sum(row.count for row in rows), 'time')}"
    return Judgement(title, rows)


def _rests(notes: list[Observation]) -> Iterator[tuple[Observation, int]]:
    """Give departures after which the same connection joined again, and how long that took.

    A client that ends leaves and closes; one whose application does not poll leaves too, and comes back when it polls.
    """
    joins: dict[int | None, list[int]] = {}
    for note in sorted(notes, key=lambda note: note.first_ns):
        if note.api_key == ApiKey.JOIN_GROUP:
            joins.setdefault(note.place.connection, []).append(note.first_ns)
    for left in notes:
        times = joins.get(left.place.connection, [])
        at = bisect_right(times, left.first_ns)
        if left.api_key == ApiKey.LEAVE_GROUP and at < len(times):
            yield left, times[at] - left.first_ns


def commit_failed(scene: FindingContext) -> Judgement | None:
    """Offsets that were not committed."""
    notes = [
        note
        for note in scene.of("error")
        if note.api_key in OFFSET_COMMITS and note.code != ErrorCode.CONCURRENT_TRANSACTIONS
    ]
    rows = [
        evidence(f"{client}: {subject}", error, found)
        for (client, error, subject), found in group_by(
            notes, lambda note: (note.client, note.error, note.partition or note.group_id or "?")
        )
    ]
    if not rows:
        return None
    again = all(is_retriable(note.code or 0) for note in notes)
    title = f"{plural(count_exchanges(notes), 'offset commit')} failed" + (
        ", all with errors that a retry may end" if again else ""
    )
    return Judgement(title, rows, Severity.NOTE if again else Severity.WARNING)
