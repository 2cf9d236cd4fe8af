"""Rules about consumer groups and about producers with identity: who was put out, and why."""

from kdissect.protocol.errors import is_retriable
from kdissect.report.findings.answers import CONCURRENT, codes, refused
from kdissect.report.findings.scene import Judgement, Scene, evidence, exchanges, gathered, plural
from kdissect.report.summary import Severity

JOIN_GROUP, LEAVE_GROUP = 11, 13
COMMITS = (8, 28)
STORM_ROUNDS, STORM_ERRORS = 3, 3
MANY_ROUNDS = 10
PAUSE_S = 2
"""Joins with less than this between them belong to one rebalance."""

REBALANCING = codes("REBALANCE_IN_PROGRESS")
EXPIRED = codes(
    "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "FENCED_INSTANCE_ID", "FENCED_MEMBER_EPOCH", "UNRELEASED_INSTANCE_ID"
)  # fmt: skip
FENCED = codes(
    "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "INVALID_TXN_STATE", "INVALID_PRODUCER_ID_MAPPING"
)
SEQUENCE = codes("OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID")


def rebalance_storm(scene: Scene) -> Judgement | None:
    """Groups that rebalance again and again while members work."""
    errors = scene.errors(REBALANCING)
    pace = [note for note in scene.of("group") if note.second is not None]
    rows, most = [], 0
    for (group,), found in gathered(
        [note for note in pace if note.group_id is not None], lambda note: (note.group_id or "",)
    ):
        joins = [note for note in found if note.api_key == JOIN_GROUP]
        interrupted = exchanges(note for note in errors if note.group_id == group)
        rounds = _rounds(sorted({note.second for note in joins if note.second is not None}))
        if rounds < STORM_ROUNDS or interrupted < STORM_ERRORS:
            continue
        most = max(most, rounds)
        left = exchanges(note for note in found if note.api_key == LEAVE_GROUP)
        members = len({note.client for note in joins})
        detail = (
            f"{plural(rounds, 'rebalance')}, {plural(exchanges(joins), 'join')} by {plural(members, 'client')}, "
            f"{left:,} left, members interrupted {interrupted:,} times"
        )
        rows.append(evidence(group, detail, joins))
    if not rows:
        return None
    severity = Severity.CRITICAL if most >= MANY_ROUNDS else Severity.WARNING
    return Judgement(
        f"{plural(len(rows), 'group')} rebalanced again and again, up to {most} times", rows, severity
    )


def _rounds(seconds: list[int]) -> int:
    return sum(1 for at, second in enumerate(seconds) if at == 0 or second - seconds[at - 1] > PAUSE_S)


def member_expired(scene: Scene) -> Judgement | None:
    """Members that the coordinator no longer knows."""
    return refused(scene, EXPIRED, "Group members put out")


def commit_failed(scene: Scene) -> Judgement | None:
    """Offsets that were not committed."""
    notes = [note for note in scene.of("error") if note.api_key in COMMITS and note.code not in CONCURRENT]
    rows = [
        evidence(f"{client}: {subject}", error, found)
        for (client, error, subject), found in gathered(
            notes, lambda note: (note.client, note.error, note.partition or note.group_id or "?")
        )
    ]
    if not rows:
        return None
    again = all(is_retriable(note.code or 0) for note in notes)
    title = f"{plural(exchanges(notes), 'offset commit')} failed" + (
        ", all with errors that a retry may end" if again else ""
    )
    return Judgement(title, rows, Severity.NOTE if again else Severity.WARNING)


def producer_fenced(scene: Scene) -> Judgement | None:
    """Transactional producers that another instance or a time-out put out."""
    return refused(scene, FENCED, "Producers fenced or out of step with their transaction")


def transactions_concurrent(scene: Scene) -> Judgement | None:
    """Transactions begun while the one before was still being completed."""
    return refused(scene, CONCURRENT, "Waited for the transaction before")


def sequence_gap(scene: Scene) -> Judgement | None:
    """Batches that a broker refused because one before is missing."""
    return refused(scene, SEQUENCE, "Producer sequences broken")
