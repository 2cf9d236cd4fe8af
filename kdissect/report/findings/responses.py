"""Rules about responses: none at all, or errors that name another leader, ask for a retry, or refuse.

The first line of a rule's docstring says what it reports and from which threshold on; docs/findings.md shows
it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kdissect.protocol.api_keys import EPOCH_HEARTBEATS, GROUP_BARRIERS, LONG_POLLS, ApiKey
from kdissect.protocol.error_codes import (
    LEADER_LEFT,
    LEADER_MOVED,
    NOT_THE_CONTROLLER,
    SEQUENCE_ERRORS,
    ErrorCode,
    is_retriable,
)
from kdissect.report.findings.evidence import (
    count_exchanges,
    count_requests,
    group_by,
    observed,
    server_names,
    span_ns,
    spells,
)
from kdissect.report.findings.finding_context import FindingContext, Judgement
from kdissect.report.findings.observations import Observation
from kdissect.report.model.findings import Severity
from kdissect.report.wording import counted
from kdissect.text import format_count, format_duration

TIMEOUT_NS = 5 * 10**9
"""Clients wait longer than this for a response before they close; the shortest usual timeouts are 10 s."""

LASTED_NS, LASTED_TIMES = 5 * 10**9, 5
LEFT_BEHIND = (
    LONG_POLLS
    | EPOCH_HEARTBEATS
    | {
        ApiKey.METADATA,
        ApiKey.FIND_COORDINATOR,
        ApiKey.HEARTBEAT,
        ApiKey.API_VERSIONS,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.PUSH_TELEMETRY,
    }
)
"""Long polls, heartbeats and queries: clients that end in good order may leave them without a response."""

CROSSED_NS = 10**6
"""A request sent so shortly before the end crossed the server's FIN: clients send it again.

So did one that was sent within a round trip before the server's FIN or RST, or after it, however long its
refusal was on the way.
"""

ENDED_NS = 10**9
"""A client that is not seen for so long after its connection closed has ended."""

PAUSE_NS = 5 * 10**9
"""Errors with less than this between them belong to one spell."""

BEHIND_WHICH = LEADER_MOVED | {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
}
"""Errors after which a producer sends a batch again, with those that were under way behind it.

Until it has, each of these is out of order. In the first moments of a transaction that is usual: the one
before is still ending (KIP-890).
"""

MOMENT_NS = 2 * 10**9
"""Partitions that move with less than this between them move together."""

STALE_NS = 2 * 10**9
"""One client that asks the wrong broker for less than this had old metadata, as any client may."""

NS_PER_MS = 10**6


def _waited_ns(observation: Observation) -> int:
    """Return the time until the connection closed, -1 if it did not or was not captured in full."""
    return -1 if observation.closed_ns is None else observation.closed_ns - observation.first_ns


class Closed(NamedTuple):
    """Requests whose connection closed before a response: after a long wait, cut off, or left behind."""

    late: list[Observation]
    cut: list[Observation]
    left: int


def _closed(context: FindingContext) -> Closed:
    """Return what the table of unanswered requests counts as closed, by what it means.

    Both findings and the number that one of them adds make up that count.
    """
    ended = [request for request in context.of_kind("unanswered") if _waited_ns(request) >= 0]
    crossed_ns = _crossed_ns(context) if ended else {}
    late = [
        request
        for request in ended
        if _waited_ns(request) >= TIMEOUT_NS and request.api_key not in GROUP_BARRIERS
    ]
    cut = [
        request
        for request in ended
        if CROSSED_NS <= _waited_ns(request) < TIMEOUT_NS
        and request.api_key not in LEFT_BEHIND
        and not _crossed(request, crossed_ns)
    ]
    late, cut = (
        requests if context.believes_unanswered(count_exchanges(requests)) else [] for requests in (late, cut)
    )
    return Closed(late, cut, count_exchanges(ended) - count_exchanges(late) - count_exchanges(cut))


def _crossed(request: Observation, crossed_ns: Mapping[int | None, int]) -> bool:
    """Return whether a request crossed the close of its connection by the server."""
    from_ns = crossed_ns.get(request.location.connection)
    return from_ns is not None and request.first_ns >= from_ns


def _crossed_ns(context: FindingContext) -> dict[int | None, int]:
    """Return when requests began to cross the close, for each connection that its server closed."""
    columns = context.facts.columns
    closed_ns = columns.ints("closed_ns")
    known = columns.equals("closed_by", "server") & (closed_ns > 0)
    from_ns = closed_ns - np.maximum(columns.ints("server_rtt_ns"), CROSSED_NS)
    return dict(zip(context.facts.numbers[known].tolist(), from_ns[known].tolist(), strict=True))


def _and_left(left: int) -> str:
    return f" ({format_count(left)} more were left behind by clients that ended)" if left else ""


def _groups(requests: list[Observation]) -> Iterator[tuple[str, str, list[Observation], str]]:
    """Yield the requests of each client, API, server and time, and the longest wait for its close."""
    for (client, api, server), group in group_by(
        requests, lambda request: (request.client, request.api, server_names([request]))
    ):
        for spell in spells(group, PAUSE_NS):
            longest = format_duration(max(map(_waited_ns, spell)))
            yield client, f"{api} to {server}", spell, f"up to {longest}" if len(spell) > 1 else longest


def unanswered_timeout(context: FindingContext) -> Judgement | None:
    """Requests whose connection closed 5 s or more after them, without a response."""
    closed = _closed(context)
    if not closed.late:
        return None
    rows = [
        observed(client, f"{what}: connection closed {longest} later", group)
        for client, what, group, longest in sorted(
            _groups(closed.late), key=lambda found: -max(map(_waited_ns, found[2]))
        )
    ]
    longest = format_duration(max(map(_waited_ns, closed.late)))
    requests, others = counted(count_exchanges(closed.late), "request"), ""
    if not closed.cut:
        others = _and_left(closed.left)
    return Judgement(
        f"{requests} got no response before the connection closed, after up to {longest}{others}", rows
    )


def unanswered_cut(context: FindingContext) -> Judgement | None:
    """Requests whose connection closed 1 ms to 5 s later, without those that ending clients leave behind.

    It is a note if all of them are of clients that closed the connection and are not seen afterwards.
    """
    closed = _closed(context)
    if not closed.cut:
        return None
    rows = [
        observed(client, f"{what}: cut off after {longest}", group)
        for client, what, group, longest in _groups(closed.cut)
    ]
    requests, others = counted(count_exchanges(closed.cut), "request"), _and_left(closed.left)
    if _ended_themselves(context, closed.cut):
        return Judgement(f"{requests} cut off by clients that ended{others}", rows, Severity.NOTE)
    return Judgement(f"{requests} cut off: the connection closed before the response{others}", rows)


def _ended_themselves(context: FindingContext, cut: list[Observation]) -> bool:
    """Return whether clients closed the connections of these requests, and none of them is seen afterwards.

    A client that closes in the last second of the capture may be back after it.
    """
    columns, capture_end = context.facts.columns, context.capture.last_time_ns or 0
    last_ns: dict[tuple[str | None, str | None], int] = {}
    ids, hosts = (columns.values(name) for name in ("client_id", "client_host"))
    for client, seen_ns in zip(
        zip(ids, hosts, strict=True), columns.ints("last_time_ns").tolist(), strict=True
    ):
        last_ns[client] = max(last_ns.get(client, 0), seen_ns)
    by_client = set(context.facts.numbers[columns.equals("closed_by", "client")].tolist())
    for request in cut:
        place, closed_ns = request.location, request.closed_ns or 0
        seen_ns = last_ns.get((place.client_id, place.client_host), 0)
        if (
            place.connection not in by_client
            or closed_ns > capture_end - ENDED_NS
            or seen_ns > closed_ns + ENDED_NS
        ):
            return False
    return True


def leader_moved(context: FindingContext) -> Judgement | None:
    """Partitions that another broker leads, and how long each client sent requests to the wrong one."""
    errors = [
        error
        for error in context.errors(LEADER_LEFT)
        if error.location.topic is not None and error.replica_id is None
    ]
    if not errors:
        return None
    rows = []
    for (client, partition), group in group_by(errors, lambda error: (error.client, error.partition or "?")):
        for spell in spells(group, PAUSE_NS):
            names = ", ".join(sorted({error.error for error in spell}))
            lasted = f"for {format_duration(span_ns(spell))}" if span_ns(spell) else "once"
            rows.append(
                observed(f"{client}: {partition}", f"{names} from {server_names(spell)} {lasted}", spell)
            )
    rows.sort(key=lambda row: (row.first_time_ns or 0) - (row.last_time_ns or 0))
    longest = max((row.last_time_ns or 0) - (row.first_time_ns or 0) for row in rows)
    clients = counted(len({error.client for error in errors}), "client")
    partitions = counted(len({error.partition for error in errors}), "partition")
    title = f"Leadership moved: {clients} sent requests to the wrong broker for {partitions}"
    alone = len({error.client for error in errors}) == 1
    title += f", for up to {format_duration(longest)}" if longest else ""
    usual = (alone or _one_by_one(errors)) and longest < STALE_NS
    return Judgement(title, rows, Severity.NOTE if usual else None)


def _one_by_one(errors: Sequence[Observation]) -> bool:
    """Return whether partitions moved one after the other, as an operator moves them: no election does."""
    moments = [{error.partition for error in spell} for spell in spells(errors, MOMENT_NS)]
    return len(moments) > 1 and all(len(partitions) == 1 for partitions in moments)


def retriable_lasted(context: FindingContext) -> Judgement | None:
    """Retriable errors that lasted 5 s or more, 5 times or more."""
    errors = [
        error
        for error in context.of_kind("error")
        if error.code is not None
        and is_retriable(error.code)
        and error.code != ErrorCode.CONCURRENT_TRANSACTIONS
    ]
    rows = []
    for (client, api, name, subject), group in group_by(
        errors, lambda error: (error.client, error.api, error.error, error.partition or error.group_id or "")
    ):
        for spell in spells(group, PAUSE_NS):
            if count_exchanges(spell) >= LASTED_TIMES and span_ns(spell) >= LASTED_NS:
                detail = f"{api} {name} from {server_names(spell)} for {format_duration(span_ns(spell))}"
                rows.append(observed(f"{client}: {subject}" if subject else client, detail, spell))
    if not rows:
        return None
    longest = max((row.last_time_ns or 0) - (row.first_time_ns or 0) for row in rows)
    return Judgement(f"Retriable errors went on for up to {format_duration(longest)}", rows)


def errors_by_client(
    context: FindingContext,
    wanted: frozenset[ErrorCode],
    title: str,
    without: frozenset[ApiKey] = frozenset(),
) -> Judgement | None:
    """Any of these errors."""
    return _by_client([error for error in context.errors(wanted) if error.api_key not in without], title)


def _by_client(errors: Sequence[Observation], title: str) -> Judgement | None:
    groups = group_by(
        errors,
        lambda error: (
            error.client,
            error.api,
            error.error,
            error.partition or error.group_id or error.transactional_id or "",
        ),
    )
    if not groups:
        return None
    rows = [
        observed(
            f"{client}: {subject}" if subject else client, f"{api} {name} from {server_names(group)}", group
        )
        for (client, api, name, subject), group in groups
    ]
    clients = counted(len({error.client for error in errors}), "client")
    return Judgement(f"{title}: {counted(count_requests(errors), 'request')} at {clients}", rows)


def sequence_gap(context: FindingContext) -> Judgement | None:
    """Any of these errors that does not follow from a batch in front, which was refused for the moment."""
    refused: dict[tuple[str, str | None], list[int]] = {}
    for error in context.errors(BEHIND_WHICH):
        refused.setdefault((error.client, error.partition), []).append(error.first_ns)

    def follows(error: Observation) -> bool:
        begins = refused.get((error.client, error.partition), ())
        return any(begin_ns <= error.first_ns and error.last_ns <= begin_ns + PAUSE_NS for begin_ns in begins)

    gaps = [error for error in context.errors(SEQUENCE_ERRORS) if not follows(error)]
    return _by_client(gaps, "Producer sequences broken")


def controller_moved(context: FindingContext) -> Judgement | None:
    """Requests to a broker that is no longer the controller, and elections of a controller."""
    errors = errors_by_client(context, NOT_THE_CONTROLLER, "The controller moved")
    votes = context.of_kind("election")
    rows = list(errors.evidence) if errors else []
    for spell in spells(votes, PAUSE_NS):
        names = ", ".join(sorted({vote.api for vote in spell}))
        nodes = counted(len({vote.client for vote in spell}), "node")
        rows.append(
            observed("controllers", f"{nodes} asked the others to elect a controller ({names})", spell)
        )
    if not rows:
        return None
    return errors if errors and not votes else Judgement("The controller moved: an election was held", rows)


def throttled(context: FindingContext) -> Judgement | None:
    """Clients that brokers throttled by a quota."""
    throttles = context.of_kind("throttled")
    rows = []
    for (client,), group in group_by(throttles, lambda throttle: (throttle.client,)):
        apis = ", ".join(sorted({throttle.api for throttle in group}))
        total = format_duration(sum(throttle.amount for throttle in group) * NS_PER_MS)
        longest = format_duration(max(throttle.most for throttle in group) * NS_PER_MS)
        detail = f"{apis}: {total} in all, up to {longest} at once, by {server_names(group)}"
        rows.append(observed(client, detail, group))
    if not rows:
        return None
    total = format_duration(sum(throttle.amount for throttle in throttles) * NS_PER_MS)
    return Judgement(
        f"{counted(len(rows), 'client')} throttled by quota: {total} of throttle time requested", rows
    )
