"""Rules about answers: none at all, errors that say where the leader is, that ask to try again, or that refuse."""

from kdissect.protocol.api_keys import EPOCH_HEARTBEATS, GROUP_BARRIERS, LONG_POLLS, TELEMETRY, ApiKey
from kdissect.protocol.error_codes import (
    LEADER_MOVED,
    NOT_THE_CONTROLLER,
    ErrorCode,
    is_retriable,
)
from kdissect.report.findings.context import (
    FindingContext,
    Judgement,
    Observation,
    count_exchanges,
    evidence,
    group_by,
    plural,
    server_names,
    span_ns,
    spells,
)
from kdissect.text import format_duration

TIME_OUT_NS = 5 * 10**9
"""Clients wait longer than this for an answer before they hang up; the shortest usual time-outs are 10 s."""

LASTED_NS, LASTED_TIMES = 5 * 10**9, 5
LEFT_BEHIND = (
    LONG_POLLS
    | EPOCH_HEARTBEATS
    | TELEMETRY
    | {
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.HEARTBEAT,
        ApiKey.API_VERSIONS,
        ApiKey.DESCRIBE_CLUSTER,
    }
)
"""Long polls, heartbeats and questions: clients that end may leave them unanswered in good order."""

PAUSE_NS = 5 * 10**9
"""Errors with less than this between them belong to one spell."""


def _waited(note: Observation) -> int:
    return -1 if note.closed_ns is None else note.closed_ns - note.first_ns


def unanswered_timeout(scene: FindingContext) -> Judgement | None:
    """Requests whose connection ended after a long silence."""
    silent = [
        note
        for note in scene.of("unanswered")
        if _waited(note) >= TIME_OUT_NS and note.api_key not in GROUP_BARRIERS
    ]
    if not silent:
        return None
    silent.sort(key=lambda note: -_waited(note))
    rows = [
        evidence(
            note.client,
            f"{note.api} to {server_names([note])}: closed {format_duration(_waited(note))} later",
            [note],
        )
        for note in silent
    ]
    longest = format_duration(_waited(silent[0]))
    return Judgement(
        f"{plural(count_exchanges(silent), 'request')} never answered before the connection closed, waiting up to {longest}",
        rows,
    )


def unanswered_cut(scene: FindingContext) -> Judgement | None:
    """Requests whose connection ended soon after, other than those that clients leave behind when they end."""
    cut = [
        note
        for note in scene.of("unanswered")
        if 0 <= _waited(note) < TIME_OUT_NS and note.api_key not in LEFT_BEHIND
    ]
    if not cut:
        return None
    rows = [
        evidence(
            note.client,
            f"{note.api} to {server_names([note])}: cut off after {format_duration(_waited(note))}",
            [note],
        )
        for note in cut
    ]
    return Judgement(
        f"{plural(count_exchanges(cut), 'request')} cut off: the connection ended before the answer", rows
    )


def _lasted(notes: list[Observation]) -> str:
    return f"for {format_duration(span_ns(notes))}" if span_ns(notes) else "once"


def leader_moved(scene: FindingContext) -> Judgement | None:
    """Partitions that are led elsewhere, and how long each client went on asking the wrong broker."""
    notes = [note for note in scene.errors(LEADER_MOVED) if note.place.topic is not None]
    if not notes:
        return None
    rows = []
    for (client, partition), found in group_by(notes, lambda note: (note.client, note.partition or "?")):
        for spell in spells(found, PAUSE_NS):
            names = ", ".join(sorted({note.error for note in spell}))
            rows.append(
                evidence(
                    f"{client}: {partition}", f"{names} from {server_names(spell)} {_lasted(spell)}", spell
                )
            )
    rows.sort(key=lambda row: (row.first_time_ns or 0) - (row.last_time_ns or 0))
    longest = max((row.last_time_ns or 0) - (row.first_time_ns or 0) for row in rows)
    partitions, clients = {note.partition for note in notes}, {note.client for note in notes}
    title = f"Leadership moved: {plural(len(clients), 'client')} asked the wrong broker for {plural(len(partitions), 'partition')}"
    return Judgement(title + (f", for up to {format_duration(longest)}" if longest else ""), rows)


def retriable_lasted(scene: FindingContext) -> Judgement | None:
    """Errors that ask to try again, and that trying again did not end."""
    notes = [
        note
        for note in scene.of("error")
        if note.code is not None
        and is_retriable(note.code)
        and note.code != ErrorCode.CONCURRENT_TRANSACTIONS
    ]
    rows = []
    for (client, api, error, subject), found in group_by(
        notes, lambda note: (note.client, note.api, note.error, note.partition or note.group_id or "")
    ):
        for spell in spells(found, PAUSE_NS):
            if count_exchanges(spell) >= LASTED_TIMES and span_ns(spell) >= LASTED_NS:
                detail = f"{api} {error} from {server_names(spell)} for {format_duration(span_ns(spell))}"
                rows.append(evidence(f"{client}: {subject}" if subject else client, detail, spell))
    if not rows:
        return None
    longest = max((row.last_time_ns or 0) - (row.first_time_ns or 0) for row in rows)
    return Judgement(f"Errors that a retry should end went on for up to {format_duration(longest)}", rows)


def errors_by_client(scene: FindingContext, wanted: frozenset[int], title: str) -> Judgement | None:
    """Give errors by client, API and error. Most rules about errors are this with their own errors, said in the table."""
    rows = []
    notes = scene.errors(wanted)
    for (client, api, error, subject), found in group_by(
        notes,
        lambda note: (
            note.client,
            note.api,
            note.error,
            note.partition or note.group_id or note.transactional_id or "",
        ),
    ):
        rows.append(
            evidence(
                f"{client}: {subject}" if subject else client,
                f"{api} {error} from {server_names(found)}",
                found,
            )
        )
    return (
        Judgement(
            f"{title}: {plural(count_exchanges(notes), 'error')} at {plural(len({n.client for n in notes}), 'client')}",
            rows,
        )
        if rows
        else None
    )


def controller_moved(scene: FindingContext) -> Judgement | None:
    """Requests to a controller that no longer is one, and elections of a new one."""
    wrong = errors_by_client(scene, NOT_THE_CONTROLLER, "The controller moved")
    votes = scene.of("election")
    rows = list(wrong.evidence) if wrong else []
    for spell in spells(votes, PAUSE_NS):
        names = ", ".join(sorted({note.api for note in spell}))
        brokers = {note.client for note in spell}
        rows.append(evidence("controllers", f"{names} by {plural(len(brokers), 'node')}", spell))
    if not rows:
        return None
    return wrong if wrong and not votes else Judgement("The controller moved: an election was held", rows)


def throttled(scene: FindingContext) -> Judgement | None:
    """Clients over a quota."""
    notes = scene.of("throttled")
    rows = [
        evidence(
            client,
            f"{', '.join(sorted({n.api for n in found}))}: {format_duration(sum(n.amount for n in found) * 10**6)} in all, "
            f"up to {format_duration(max(n.most for n in found) * 10**6)} at once, by {server_names(found)}",
            found,
        )
        for (client,), found in group_by(notes, lambda note: (note.client,))
    ]
    if not rows:
        return None
    total = format_duration(sum(note.amount for note in notes) * 10**6)
    return Judgement(f"{plural(len(rows), 'client')} throttled by quota: {total} of waiting asked for", rows)
