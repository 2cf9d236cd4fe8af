"""Rules about consumer groups and transactions: rebalances, removed members, failed commits."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import MEMBER_EXPIRED, ErrorCode, is_retriable
from kdissect.report.findings.evidence import count_exchanges, count_requests, group_by, observed
from kdissect.report.findings.finding_context import FindingContext, Judgement
from kdissect.report.findings.observations import Observation
from kdissect.report.findings.responses import errors_by_client
from kdissect.report.model.findings import Severity
from kdissect.report.wording import counted
from kdissect.text import format_duration

STORM_REBALANCES, STORM_INTERRUPTIONS = 5, 3
CRITICAL_REBALANCES = 10
ROUNDS_OF_A_CHANGE = 2
"""Rebalances that one member makes which comes or goes: a cooperative group takes two rounds (KIP-429)."""

OPEN_NS = 10 * 10**9
"""A transaction that is idle for longer than this delays all consumers that read committed records only."""

FAREWELLS = frozenset({ApiKey.LEAVE_GROUP})
"""A member that leaves does not miss its place, and a client that never joined may leave, too."""

AFTER_S, EXPIRED_S, TRIGGERS_SHOWN = 10, 15, 3
PAUSE_S = 2
"""Joins with less than this between them belong to one rebalance."""

NS_PER_S = 10**9
BySecond = dict[int, list[Observation]]


class Rebalances(NamedTuple):
    """Joins and leaves of a group, and the seconds in which its rebalances began."""

    group_id: str
    joins: list[Observation]
    leaves: list[Observation]
    begins: list[int]

    @property
    def rounds(self) -> int:
        """Return how many there were: each ends with a generation of its own, if joins were answered."""
        generations = {join.generation for join in self.joins if join.generation is not None}
        return max(len(self.begins), len(generations))


def rebalance_storm(context: FindingContext) -> Judgement | None:
    """Groups with 5 or more rebalances and 3 or more interrupted members.

    It is a note if members that come and go explain them: each of them makes two rounds of cooperative
    rebalances, as in a rolling deployment. It is critical from 10 rebalances on that nobody explains.
    """
    errors = context.errors([ErrorCode.REBALANCE_IN_PROGRESS])
    given = context.errors([ErrorCode.MEMBER_ID_REQUIRED])
    rows, most, unexplained = [], 0, 0
    for rebalances in _rebalances(context):
        interrupted = count_exchanges(error for error in errors if error.group_id == rebalances.group_id)
        count = rebalances.rounds
        if count < STORM_REBALANCES or interrupted < STORM_INTERRUPTIONS:
            continue
        most = max(most, count)
        new = count_exchanges(error for error in given if error.group_id == rebalances.group_id)
        came = max(new, len({join.client for join in rebalances.joins}))
        if count > ROUNDS_OF_A_CHANGE * (came + count_exchanges(rebalances.leaves)) + 1:
            unexplained = max(unexplained, count)
        joins = counted(count_exchanges(rebalances.joins), "join")
        clients = counted(len({join.client for join in rebalances.joins}), "client")
        detail = (
            f"{counted(count, 'rebalance')}, {joins} by {clients}, {count_exchanges(rebalances.leaves):,} "
            f"left, members interrupted {interrupted:,} times; triggered by {_triggers(context, rebalances)}"
        )
        rows.append(observed(rebalances.group_id, detail, rebalances.joins))
    if not rows:
        return None
    severity = Severity.CRITICAL if unexplained >= CRITICAL_REBALANCES else Severity.WARNING
    severity = severity if unexplained else Severity.NOTE
    return Judgement(
        f"{counted(len(rows), 'group')} rebalanced repeatedly, up to {most} times", rows, severity
    )


def _rebalances(context: FindingContext) -> Iterator[Rebalances]:
    requests = [
        request
        for request in context.of_kind("group")
        if request.second is not None and request.group_id is not None
    ]
    for (group_id,), group in group_by(requests, lambda request: (request.group_id or "",)):
        joins = [request for request in group if request.api_key == ApiKey.JOIN_GROUP]
        leaves = [request for request in group if request.api_key == ApiKey.LEAVE_GROUP]
        yield Rebalances(group_id, joins, leaves, _begins(joins))


def _begins(joins: Iterable[Observation]) -> list[int]:
    """Return the second in which each rebalance began."""
    seconds = sorted({join.second for join in joins if join.second is not None})
    return [second for at, second in enumerate(seconds) if at == 0 or second - seconds[at - 1] > PAUSE_S]


def _triggers(context: FindingContext, rebalances: Rebalances) -> str:
    """Return what came before the rebalances, most frequent first: a member left, was removed, or is new."""
    joins, leaves = _by_second(rebalances.joins), _by_second(rebalances.leaves)
    expired = _by_second(
        error for error in context.errors(MEMBER_EXPIRED) if error.group_id == rebalances.group_id
    )
    members: set[str] = set()
    triggers: Counter[str] = Counter()
    for at, begin in enumerate(rebalances.begins):
        until = rebalances.begins[at + 1] if at + 1 < len(rebalances.begins) else begin + AFTER_S
        joined = _within(joins, begin, min(begin + PAUSE_S, until))
        left = _within(leaves, begin - PAUSE_S, begin)
        removed = _within(expired, begin - EXPIRED_S, begin + PAUSE_S)
        new = [join for join in joined if join.client not in members]
        if at and left:
            triggers[f"{_earliest(left).client} leaving"] += 1
        elif at and removed:
            triggers[f"{_earliest(removed).client} removed"] += 1
        elif new:
            triggers[f"{_earliest(new).client} joining"] += 1
        else:
            triggers["members joining again" if joined else "an unseen trigger"] += 1
        members |= {join.client for join in joined}
    shown = [f"{name} ({counted(count, 'time')})" for name, count in triggers.most_common(TRIGGERS_SHOWN)]
    return ", ".join(shown) + (", and others" if len(triggers) > TRIGGERS_SHOWN else "")


def _by_second(observations: Iterable[Observation]) -> BySecond:
    seconds: BySecond = {}
    for observation in observations:
        seconds.setdefault(observation.first_ns // NS_PER_S, []).append(observation)
    return seconds


def _within(observations: BySecond, begin: int, end: int) -> list[Observation]:
    return [one for second in range(begin, end + 1) for one in observations.get(second, ())]


def _earliest(observations: list[Observation]) -> Observation:
    return min(observations, key=lambda observation: observation.first_ns)


def transactions_open(context: FindingContext) -> Judgement | None:
    """Transactions without an end 10 s or more after their last request."""
    ended: dict[str, int] = {}
    for end in context.of_kind("transaction_end"):
        transactional_id = end.transactional_id or ""
        ended[transactional_id] = max(ended.get(transactional_id, 0), end.last_ns)
    until = context.capture.last_time_ns or context.totals.last_time_ns or 0
    rows = []
    for (transactional_id,), requests in group_by(
        context.of_kind("transaction_work"), lambda request: (request.transactional_id or "",)
    ):
        last = max(request.last_ns for request in requests)
        waited = until - last
        if last > ended.get(transactional_id, 0) and waited >= OPEN_NS:
            clients = ", ".join(sorted({request.client for request in requests}))
            detail = (
                f"{clients} sent the last request of the transaction {format_duration(waited)} before the "
                "capture ended, and did not end it"
            )
            rows.append(observed(transactional_id, detail, requests))
    return Judgement(f"{counted(len(rows), 'transaction')} left open", rows) if rows else None


def member_expired(context: FindingContext) -> Judgement | None:
    """Members that the coordinator no longer knows, or that left since they did not poll in time."""
    errors = errors_by_client(context, MEMBER_EXPIRED, "Group members removed", FAREWELLS)
    rows = list(errors.evidence) if errors else []
    requests = [request for request in context.of_kind("group") if request.group_id is not None]
    for (client, group_id), group in group_by(
        requests, lambda request: (request.client, request.group_id or "")
    ):
        absences = list(_absences(group))
        if absences:
            longest = format_duration(max(absent_ns for _, absent_ns in absences))
            detail = (
                f"left the group and joined it again on the same connection after up to {longest}, "
                "as clients do that exceed max.poll.interval.ms"
            )
            rows.append(observed(f"{client}: {group_id}", detail, [left for left, _ in absences]))
    if not rows:
        return None
    heard = count_requests(
        error for error in context.errors(MEMBER_EXPIRED) if error.api_key not in FAREWELLS
    )
    missed = sum(row.count for row in rows[len(errors.evidence) if errors else 0 :])
    return Judgement(f"Group members removed, as {counted(heard + missed, 'request')} told them", rows)


def _absences(requests: list[Observation]) -> Iterator[tuple[Observation, int]]:
    """Yield leaves after which the same connection joined again, and the nanoseconds between the two.

    A client that ends leaves the group and closes. A client whose application does not poll leaves too, and
    joins again when it polls.
    """
    joins: dict[int | None, list[int]] = {}
    for request in sorted(requests, key=lambda request: request.first_ns):
        if request.api_key == ApiKey.JOIN_GROUP:
            joins.setdefault(request.location.connection, []).append(request.first_ns)
    for request in requests:
        times = joins.get(request.location.connection, [])
        following = bisect_right(times, request.first_ns)
        if request.api_key == ApiKey.LEAVE_GROUP and following < len(times):
            yield request, times[following] - request.first_ns


def commit_failed(context: FindingContext) -> Judgement | None:
    """Offset commits that failed; a note if all errors are retriable."""
    errors = [
        error for error in context.of_kind("failed_commit") if error.code != ErrorCode.CONCURRENT_TRANSACTIONS
    ]
    rows = [
        observed(f"{client}: {subject}", name, group)
        for (client, name, subject), group in group_by(
            errors, lambda error: (error.client, error.error, error.group_id or "?")
        )
    ]
    if not rows:
        return None
    retriable = all(is_retriable(error.code or 0) for error in errors)
    title = f"{counted(count_exchanges(errors), 'offset commit')} failed"
    if retriable:
        return Judgement(f"{title}, all with retriable errors", rows, Severity.NOTE)
    return Judgement(title, rows, Severity.WARNING)
