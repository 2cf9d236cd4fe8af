"""Signals about what waits: followers that do not fetch, requests open at the end, responses that crawl.

follower_silent   a replica fetcher that sends no Fetch to a leader for a while
requests_open     requests without a response when the capture ends, much longer than usual
slow_transfer     responses to a client that need long from their first to their last byte
"""

from collections.abc import Iterator

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.protocol.api_keys import GROUP_BARRIERS, LONG_POLLS, ApiKey
from kdissect.report.aggregate.group_sums import sum_by_group
from kdissect.report.aggregate.grouping import (
    TableColumns,
    distinct_numbers,
    encode,
    group_rows,
    map_distinct,
)
from kdissect.report.findings.connection_evidence import chosen_evidence
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.server_names import follower_of
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.signals.unseen_segments import last_answered_ns
from kdissect.report.timeline.signal_tables import PACE, WAITS
from kdissect.report.wording import AT_THE_END, client_text, counted, lasting
from kdissect.text import format_clock, format_duration

WAIT_KINDS = (
    SignalKind("follower_silent", "a replica fetcher that does not fetch", SignalCounts.NOTHING),
    SignalKind("requests_open", "requests without a response at the end", SignalCounts.WAITS),
    SignalKind("slow_transfer", "responses that need long to arrive", SignalCounts.WAITS),
)

SECOND = 10**9
FOLLOWER_SILENT_NS = 3 * SECOND
"""Followers fetch every 500 ms at the latest (replica.fetch.wait.max.ms)."""

FOLLOWER_FETCHES = 10
OPEN_NS = 3 * SECOND
OPEN_RATIO = 10
TRANSFER_NS = 100_000_000
"""A response that needs this long on average is slow: at 1 Gbit/s that is 12 MB."""

TRANSFERS = 5


def wait_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about what waits."""
    pace = context.table(PACE)
    yield from _followers(context, pace)
    if len(context.facts.numbers):
        yield from _open(context)
    yield from _transfers(context, pace)


def _followers(context: SignalContext, pace: TableColumns) -> Iterator[Signal]:
    fetches = pace.filter(pace.ints("api_key") == ApiKey.FETCH)
    ends = map(fetches.column, ("server_host", "server_port", "client_id"))
    fetchers, of = map_distinct(lambda *end: end, *ends)
    pairs: dict[tuple[int, str], list[int]] = {}
    for number, (host, port, client) in enumerate(fetchers):
        if (node := follower_of(client)) is not None:
            pairs.setdefault((node, context.servers.name(host, port)), []).append(number)
    for (node, leader), numbers in sorted(pairs.items()):
        own = np.flatnonzero(np.isin(of, numbers))
        if fetches.ints("exchanges")[own].sum() >= FOLLOWER_FETCHES:
            yield from _pauses(context, fetches, own, context.servers.of_node(node), leader)


def _pauses(
    context: SignalContext, fetches: TableColumns, rows: Int64s, follower: str, leader: str
) -> Iterator[Signal]:
    order = rows[np.argsort(fetches.ints("first_ns")[rows], kind="stable")]
    first = np.append(fetches.ints("first_ns")[order], context.end_ns)
    last = np.maximum.accumulate(fetches.ints("last_ns")[order])
    for at in np.flatnonzero(first[1:] - last >= FOLLOWER_SILENT_NS).tolist():
        begin, end = int(last[at]), int(first[at + 1])
        to_the_end = at == len(order) - 1
        until = lasting(begin, None if to_the_end else end)
        yield make_signal(
            "follower_silent",
            (SubjectKind.SERVER, follower),
            (begin, None if to_the_end else end),
            f"{follower} sent no Fetch to {leader} from {format_clock(begin)} {until}",
            measures={"silent_ns": end - begin},
            servers=[leader],
        )


def _open(context: SignalContext) -> Iterator[Signal]:
    waits = context.table(WAITS)
    rows = context.facts.rows(waits)
    waited = context.end_ns - waits.ints("first_begin_ns")
    usual = _usual_ns(context)
    limits, of_api = map_distinct(lambda api: OPEN_RATIO * usual.get(api or 0, 0), waits.column("api_key"))
    limit = np.array(limits, np.int64)[of_api]
    endless = ~waits.present("last_end_ns")
    hanging = (rows >= 0) & ~(context.facts.closed | context.facts.doubtful)[rows] & endless
    bound = "at least " if (endless & ~waits.present("connection")).any() else ""
    hanging &= ~np.isin(waits.ints("api_key"), [*GROUP_BARRIERS, *LONG_POLLS])
    hanging &= (waited >= OPEN_NS) & (waited >= limit)
    # A broker answers a connection in order, so a request that later ones overtake only lacks its response.
    answered_ns = last_answered_ns(context, rows)
    hanging &= 2 * (answered_ns - waits.ints("first_begin_ns")) <= waited
    servers = context.connections.server[rows]
    for number in np.unique(servers[hanging]).tolist():
        own = hanging & (servers == number)
        if context.rules.believes_unanswered(int(waits.ints("exchanges")[own].sum())):
            yield _hanging(context, waits, own, context.server_names[number], bound)


def _hanging(context: SignalContext, waits: TableColumns, own: Bools, name: str, bound: str) -> Signal:
    connections = distinct_numbers(context.facts.rows(waits)[own], len(context.facts.numbers))
    exchanges, begins = waits.ints("exchanges")[own], waits.ints("first_begin_ns")[own]
    requests, begin = int(exchanges.sum()), int(begins.min())
    longest = format_duration(context.end_ns - begin)
    return make_signal(
        "requests_open",
        (SubjectKind.SERVER, name),
        (begin, None),
        f"{bound}{counted(requests, 'request')} to {name} had no response {AT_THE_END}, "
        f"the first since {format_clock(begin)} ({longest})",
        measures={"requests": requests, "connections": len(connections)},
        clients=context.clients_of(connections),
        requests=requests,
        wait_ns=int(((context.end_ns - begins) * exchanges).sum()),
        evidence=[chosen_evidence(context.rules, name, f"no response for up to {longest}", connections)],
    )


def _usual_ns(context: SignalContext) -> dict[int, int]:
    """Return the 99th percentile of the latency of each API."""
    ranked = context.rules.calls.group_by(("api_key",))
    usual = {}
    for group, api in enumerate(ranked.keys[0]):
        latency = ranked.figures.service.of(group)
        if latency is not None and api is not None:
            usual[api] = latency.p99_ns
    return usual


def _transfers(context: SignalContext, pace: TableColumns) -> Iterator[Signal]:
    groups = group_rows(*(encode(pace.column(name)) for name in ("client_id", "client_host")))
    slow = pace.ints("transfer_ns") >= TRANSFER_NS * pace.ints("exchanges")
    counts = sum_by_group(groups, np.where(slow, pace.ints("exchanges"), 0))
    for group in np.flatnonzero(counts >= TRANSFERS).tolist():
        yield _transfer(context, pace.filter(slow & (groups.of == group)))


def _transfer(context: SignalContext, slow: TableColumns) -> Signal:
    client_id, host = (slow.arrow(name)[0].as_py() for name in ("client_id", "client_host"))
    name = client_text(client_id, host)
    requests, transfer = (int(slow.ints(column).sum()) for column in ("exchanges", "transfer_ns"))
    begin = int(slow.ints("first_ns").min())
    hosts, ports = (slow.values(column) for column in ("server_host", "server_port"))
    return make_signal(
        "slow_transfer",
        (SubjectKind.CLIENT, name),
        (begin, int(slow.ints("last_ns").max())),
        f"{name} received {counted(requests, 'response')} slowly from {format_clock(begin)} on: "
        f"{format_duration(transfer // requests)} each from the first to the last byte",
        measures={"responses": requests, "transfer_ns": transfer},
        servers=sorted(set(context.servers.names(hosts, ports))),
        requests=requests,
        wait_ns=transfer,
    )
