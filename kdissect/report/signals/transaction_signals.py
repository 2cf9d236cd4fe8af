"""Signals about transactions: one that stays open, all aborted, two producers with one transactional id.

transaction_open        a transaction was begun and not ended for a long time
transactions_aborted    a producer aborts each of its transactions
producer_fenced_out     a producer was fenced after another client took its transactional id
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from kdissect.protocol.error_codes import PRODUCER_FENCED_OUT, ErrorCode
from kdissect.report.findings.evidence import count_requests, observed
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.client_names import BROKERS_OWN, ClientFacts
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.log_positions import LogPositions
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.timeline_tables import TRANSACTION_STEPS
from kdissect.report.wording import client_text, counted, for_so_long, listed
from kdissect.text import format_clock, format_duration

Row = dict[str, Any]
SECOND = 10**9
TRANSACTION_KINDS = (
    SignalKind("transaction_open", "a transaction stays open", SignalCounts.NOTHING),
    SignalKind("transactions_aborted", "a producer aborts its transactions", SignalCounts.NOTHING),
    SignalKind("producer_fenced_out", "a producer was fenced by another one", SignalCounts.ERRORS),
)
OPEN_NS = 8 * SECOND
"""A transaction that lasts longer holds up readers of committed records for longer than they poll."""

TIMES_USUAL = 5
"""A transaction that takes fewer times as long as usual for its producer is what the producer does."""

ABORTS = 8
"""So many transactions in a row that are aborted are no accident."""

WORK = ("add_partitions", "add_offsets", "commit_offsets")
FENCED_OUT = PRODUCER_FENCED_OUT - {ErrorCode.INVALID_TXN_STATE}
NAMED = 3


def transaction_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about transactions."""
    facts = context.shared(ClientFacts)
    positions = context.shared(LogPositions)
    by_id: dict[str, list[Row]] = defaultdict(list)
    for row in context.table(TRANSACTION_STEPS).dicts():
        if row["transactional_id"] is not None:
            by_id[row["transactional_id"]].append(row)
    for work in context.rules.of_kind("transaction_work"):
        if work.transactional_id is not None:
            by_id[work.transactional_id] += []
    for name, rows in sorted(by_id.items()):
        rows.sort(key=lambda row: (row["asked_ns"] or row["time_ns"], row["ordinal"]))
        _name_clients(rows)
        yield from _open(context, facts, positions, name, rows)
        yield from _aborted(facts, name, rows)
        yield from _fenced(context, facts, name, rows)


def _name_clients(rows: Sequence[Row]) -> None:
    """Add the client of each row; brokers that add partitions do so for the producer seen last, or next."""
    own = [row for row in rows if not BROKERS_OWN.fullmatch(row["client_id"] or "")]
    producer = own[0] if own else None
    for row in rows:
        if not own or not BROKERS_OWN.fullmatch(row["client_id"] or ""):
            producer = row
        assert producer is not None
        row["client"] = client_text(producer["client_id"], producer["client_host"])


class Span(NamedTuple):
    """One transaction: its begin and end, its client, and whether it was ended in the capture."""

    begin_ns: int
    end_ns: int
    client: str
    is_ended: bool


def _spans(rows: Sequence[Row], end_ns: int) -> list[Span]:
    """Return the transactions that events show, in the order of time."""
    spans = []
    first: Row | None = None
    for row in rows:
        if row["error_code"]:
            continue
        if row["event"] in WORK and first is None:
            first = row
        elif row["event"] in ("commit", "abort", "init") and first is not None:
            spans.append(Span(first["asked_ns"], row["time_ns"], first["client"], True))
            first = None
    if first is not None:
        spans.append(Span(first["asked_ns"], end_ns, first["client"], False))
    return spans


def _unannounced(context: SignalContext, facts: ClientFacts, name: str, rows: Sequence[Row]) -> list[Span]:
    """Return the transactions of a producer that adds no partitions, as from Kafka 4.0 on (KIP-890).

    Each begins with the first Produce behind the end of the one before it.
    """
    ends = [row["time_ns"] for row in rows if row["event"] in ("commit", "abort", "init")]
    work = [
        one
        for one in context.rules.of_kind("transaction_work")
        if one.transactional_id == name and not BROKERS_OWN.fullmatch(one.location.client_id or "")
    ]
    if not work:
        return []
    first, last = min(one.first_ns for one in work), max(one.last_ns for one in work)
    client = max(work, key=lambda one: one.last_ns).client
    writes = sorted({first, *(time for time in facts.produced(client) if first <= time <= last), last})
    spans = []
    for since, until in pairwise([context.begin_ns - 1, *ends, context.end_ns + 1]):
        begin = next((time for time in writes if since < time < until), None)
        if begin is not None:
            spans.append(Span(begin, min(until, context.end_ns), client, until <= context.end_ns))
    return spans


def _open(
    context: SignalContext, facts: ClientFacts, positions: LogPositions, name: str, rows: Sequence[Row]
) -> Iterator[Signal]:
    if all(BROKERS_OWN.fullmatch(row["client_id"] or "") for row in rows):
        return  # the capture lacks its coordinator, and so the ends of its transactions
    announced = any(row["event"] in WORK for row in rows)
    spans = _spans(rows, context.end_ns) if announced else _unannounced(context, facts, name, rows)
    lengths = sorted(span.end_ns - span.begin_ns for span in spans if span.is_ended)
    usual = lengths[len(lengths) // 2] if lengths else 0
    for begin, end, client, is_ended in spans:
        if end - begin < max(OPEN_NS, TIMES_USUAL * usual * (len(lengths) > 1)):
            continue
        topics = sorted(facts.written.get(client, ()))
        about = f", which writes {listed(topics, NAMED)}" if topics else ""
        held = _held_up(facts, positions, topics, begin, end)
        yield make_signal(
            "transaction_open",
            (SubjectKind.PRODUCER, name),
            (begin, end if is_ended else None),
            f"The transaction of {name} ({client}{about}) was open from {format_clock(begin)} "
            f"{for_so_long(end - begin, is_ended)}{held.words}",
            measures={"open_ns": end - begin, "usual_ns": usual, "held_up": len(held.clients)},
            clients=[client, *held.clients],
            groups=held.groups,
            topics=topics,
        )


class HeldUp(NamedTuple):
    """Readers that a transaction holds up, their groups, and what a sentence says about them."""

    clients: list[str]
    groups: list[str]
    words: str


def _held_up(
    facts: ClientFacts, positions: LogPositions, topics: Sequence[str], begin: int, end: int
) -> HeldUp:
    since: dict[str, int] = {}
    for topic in topics:
        for client, time in positions.held_up(topic, begin, end).items():
            since[client] = min(time, since.get(client, time))
    clients = sorted(since, key=lambda client: (since[client], client))
    groups = sorted({group for client in clients for group in facts.groups.get(client, ())})
    if not clients:
        return HeldUp([], [], "")
    group = f" (group {listed(groups, NAMED)})" if groups else ""
    verb = "get" if len(clients) > 1 else "gets"
    words = f"; {listed(clients, NAMED)}{group} {verb} no record since {format_clock(min(since.values()))}"
    return HeldUp(clients, groups, words)


def _aborted(facts: ClientFacts, name: str, rows: Sequence[Row]) -> Iterator[Signal]:
    """Yield a signal for each run of transactions of which none is committed."""
    ends = [row for row in rows if row["event"] in ("commit", "abort") and not row["error_code"]]
    for is_abort, run in groupby(ends, key=lambda row: row["event"] == "abort"):
        aborted = list(run)
        if not is_abort or len(aborted) < ABORTS:
            continue
        client = aborted[-1]["client"]
        begin, end = aborted[0]["asked_ns"] or aborted[0]["time_ns"], aborted[-1]["time_ns"]
        is_last = aborted[-1] is ends[-1]
        topics = sorted(facts.written.get(client, ()))
        about = f", which writes {listed(topics, NAMED)}" if topics else ""
        yield make_signal(
            "transactions_aborted",
            (SubjectKind.PRODUCER, name),
            (begin, None if is_last else end),
            f"{client} aborted each of {counted(len(aborted), 'transaction')} of {name}{about} from "
            f"{format_clock(begin)} for {format_duration(end - begin)}",
            measures={"count": len(aborted), "lasted_ns": end - begin},
            clients=[client],
            topics=topics,
            requests=len(aborted),
        )


def _fenced(context: SignalContext, facts: ClientFacts, name: str, rows: Sequence[Row]) -> Iterator[Signal]:
    errors = [
        error
        for error in context.rules.of_kind("error")
        if error.code in FENCED_OUT and error.transactional_id == name
    ]
    if not errors:
        return
    first = min(error.first_ns for error in errors)
    # Brokers ask for producers, too (KIP-890), and are refused in their place.
    brokers = [error for error in errors if BROKERS_OWN.fullmatch(error.location.client_id or "")]
    own = [error for error in errors if error not in brokers] or errors
    loser = min(own, key=lambda error: error.first_ns).client
    begins = [row for row in rows if row["event"] == "init" and not row["error_code"]]
    rivals = [row for row in begins if row["client"] != loser and row["asked_ns"] <= first]
    begin = facts.began(rivals[-1]["client"], rivals[-1]["asked_ns"]) if rivals else first
    by = f" by {rivals[-1]['client']}" if rivals else ""
    last = max(error.last_ns for error in errors)
    yield make_signal(
        "producer_fenced_out",
        (SubjectKind.PRODUCER, name),
        (begin, None if context.end_ns - last < 10 * SECOND else last),
        f"{loser} was fenced from transactional id {name}{by} at {format_clock(begin)}: "
        f"{', '.join(sorted({error.error for error in errors}))} {counted(count_requests(errors), 'time')}",
        measures={
            "count": count_requests(errors),
            "clients": len({row["client"] for row in rows}),
            "rivals": len(rivals),
        },
        clients=sorted({loser, *(row["client"] for row in rivals), *(error.client for error in brokers)}),
        topics=sorted({error.location.topic for error in errors if error.location.topic is not None}),
        requests=count_requests(errors),
        evidence=[observed(loser, f"fenced: transactional id {name}", errors)],
    )
