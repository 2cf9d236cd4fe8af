"""Signals about rates that changed their level: requests, or errors, of a client, a topic or a server.

    rate_rose     several times as many requests a second from a moment on
    rate_fell     a fraction of the requests a second from a moment on
    errors_rose   several times as many error responses a second from a moment on

Requests are counted in bins of half a second or more. Their square roots have the same variance at every
rate (Anscombe), so `changes` finds where the level of a steady and of a scattered series changes. Only the
time between the first and the last request of a subject counts: a job that comes and goes changes nothing.
The change of a topic or a server is told only if no single client makes it, since that one is told already,
or is such a job. A level that was there before for seconds is a pattern of the load.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.protocol.api_keys import EPOCH_HEARTBEATS, GROUP_BARRIERS, ApiKey
from kdissect.protocol.schema.registry import api_name
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.changes import Series, find_segments
from kdissect.report.signals.client_names import BROKERS_OWN
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.named_rows import NamedRows, client_rows, server_rows, topic_rows
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.grid import Grid
from kdissect.report.timeline.signal_tables import LOAD, PACE
from kdissect.report.wording import lasting
from kdissect.text import format_clock

RATE_KINDS = (
    SignalKind("rate_rose", "several times as many requests a second", SignalCounts.NOTHING),
    SignalKind("rate_fell", "a fraction of the requests a second", SignalCounts.NOTHING),
    SignalKind("errors_rose", "several times as many error responses a second", SignalCounts.NOTHING),
)
SECOND = 10**9
BIN_NS = SECOND // 2
LASTED_NS = 4 * SECOND
"""A level that lasts for less is a burst or a pause."""

TIMES, MORE = 3.0, 5.0
"""A rate changed if it is so many times the one before, and differs by so many a second."""

SAME = 1.7
"""Levels whose ratio is smaller are the same one."""

OWN_SHARE = 0.6
"""A client that makes so much of a change makes it alone."""

NOTHING = 0.05
"""A rate a second below this is shown as none."""

MOST_SUBJECTS = 200
WAITS = (
    ApiKey.FETCH,
    ApiKey.SHARE_FETCH,
    ApiKey.OFFSET_COMMIT,
    ApiKey.HEARTBEAT,
    *GROUP_BARRIERS,
    *EPOCH_HEARTBEATS,
)
"""Requests that come by the clock, or with the records of others."""


class Counted(NamedTuple):
    """Rows of a table: when, how many, of which client, API, server or topic."""

    first_ns: Int64s
    last_ns: Int64s
    requests: Int64s
    api: Int64s
    client: NamedRows
    subject: NamedRows

    def only(self, rows: Bools) -> "Counted":
        """Return chosen rows."""
        return Counted(
            self.first_ns[rows],
            self.last_ns[rows],
            self.requests[rows],
            self.api[rows],
            self.client.only(rows),
            self.subject.only(rows),
        )


class RateChange(NamedTuple):
    """A change: the rates before and after, a second, its moment, and the end of the new level."""

    before: float
    after: float
    begin_ns: int
    end_ns: int | None


def rate_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about rates."""
    grid = context.grid
    if grid is None:
        return
    requests, errors = _requests(context)
    for api in np.unique(requests.api).tolist():
        of_api = requests.only(requests.api == api)
        name = api_name(api)
        yield from _of_clients(
            context, grid, of_api, (f"{name} request", "sends"), ("rate_rose", "rate_fell")
        )
        yield from _shared(context, grid, of_api, SubjectKind.SERVER, (f"{name} request", "gets"))
    yield from _of_clients(context, grid, errors, ("error response", "gets"), ("errors_rose", None))
    yield from _shared(context, grid, _written(context), SubjectKind.TOPIC, ("batch", "gets"))


def _requests(context: SignalContext) -> tuple[Counted, Counted]:
    """Return requests and error responses by client, API and server, without those that wait for others."""
    pace = context.table(PACE)
    pace = pace.filter(pace.present("api_key") & ~np.isin(pace.ints("api_key"), WAITS))
    ids = pace.text("client_id")
    brokers = [bool(BROKERS_OWN.fullmatch(text)) for text in ids.texts.to_pylist()]
    own = np.array([*brokers, False], bool)[ids.numbers]
    rows = Counted(
        pace.ints("first_ns"),
        pace.ints("last_ns"),
        pace.ints("exchanges"),
        pace.ints("api_key"),
        client_rows(pace),
        server_rows(pace, context.servers),
    )
    errors = rows._replace(requests=pace.ints("error_responses"))
    return rows.only(~own), errors.only(~own & (errors.requests > 0))


def _written(context: SignalContext) -> Counted:
    """Return batches written by client and topic."""
    load = context.table(LOAD)
    load = load.filter(load.ints("api_key") == ApiKey.PRODUCE)
    return Counted(
        load.ints("first_ns"),
        load.ints("last_ns"),
        load.ints("batches"),
        load.ints("api_key"),
        client_rows(load),
        topic_rows(load, context.topics),
    )


def _of_clients(
    context: SignalContext, grid: Grid, rows: Counted, what: tuple[str, str], kinds: tuple[str, str | None]
) -> Iterator[Signal]:
    for client in rows.client.busiest(rows.requests, MOST_SUBJECTS):
        own = rows.only(rows.client.equal(client))
        for change in find_changes(own, grid, context.end_ns):
            kind = kinds[0] if change.after > change.before else kinds[1]
            if kind is not None:
                yield _signal(kind, (SubjectKind.CLIENT, client), what, change, (client,))


def _shared(
    context: SignalContext, grid: Grid, rows: Counted, kind: SubjectKind, what: tuple[str, str]
) -> Iterator[Signal]:
    """Yield changes of topics or servers that several clients make together."""
    for subject in rows.subject.busiest(rows.requests, MOST_SUBJECTS):
        own = rows.only(rows.subject.equal(subject))
        for change in find_changes(own, grid, context.end_ns):
            share, clients = _makers(own, change)
            if share < OWN_SHARE:
                name = "rate_rose" if change.after > change.before else "rate_fell"
                yield _signal(name, (kind, subject), what, change, clients)


def find_changes(rows: Counted, grid: Grid, end_ns: int) -> Iterator[RateChange]:
    """Yield the changes of the rate of one subject between its first and its last request."""
    if not len(rows.requests):
        return
    width = grid.step_ns * max(-(-BIN_NS // grid.step_ns), 1)
    least = -(-LASTED_NS // width)
    number = (rows.first_ns - grid.start_ns) // width
    first = int(number.min()) + 1  # the first bin and the last one are not full
    counts = np.bincount(number - first + 1, rows.requests)[1:-1]
    if len(counts) < 2 * least:
        return
    value = 2 * np.sqrt(counts + 3 / 8)
    segments = find_segments(Series(np.ones(len(value), np.int64), value, value**2), least, comes_back=True)
    rates = [_rate(counts[one.start : one.stop], width) for one in segments]
    for at in range(1, len(segments)):
        before, after = rates[at - 1], rates[at]
        low, high = sorted((before, after))
        seen = any(max(rate, after) < SAME * max(min(rate, after), MORE / TIMES) for rate in rates[: at - 1])
        if seen or high < TIMES * low or high - low < MORE:
            continue
        edge = grid.start_ns + (first + segments[at].start) * width
        stop = grid.start_ns + (first + segments[at].stop) * width
        begin = _moment(rows, edge, width, rose=after > before)
        yield RateChange(before, after, begin, None if stop + LASTED_NS > end_ns else stop)


def _rate(counts: Int64s, width: int) -> float:
    return float(counts.mean()) * SECOND / width


def _moment(rows: Counted, edge: int, width: int, *, rose: bool) -> int:
    """Return when a level begins: a higher one with its first request, a lower one after the last before."""
    if rose:
        return int(rows.first_ns[rows.first_ns >= edge].min(initial=edge + width))
    return int(rows.last_ns[rows.last_ns < edge + width].max(initial=edge))


def _makers(rows: Counted, change: RateChange) -> tuple[float, tuple[str, ...]]:
    """Return the largest share of one client in a change, and the clients that make it."""
    middle = change.begin_ns
    spans = max(middle - int(rows.first_ns.min()), 1), max(int(rows.last_ns.max()) - middle, 1)
    differences = {}
    for client in rows.client.present():
        own = rows.client.equal(client)
        sums = [
            int(rows.requests[own & side].sum()) for side in (rows.first_ns < middle, rows.first_ns >= middle)
        ]
        differences[client] = (sums[1] / spans[1] - sums[0] / spans[0]) * SECOND
    sign = 1 if change.after > change.before else -1
    makers = {client: sign * more for client, more in differences.items() if sign * more > 0}
    total = sum(makers.values())
    return (max(makers.values()) / total if total else 1.0), tuple(sorted(makers))


def _signal(
    kind: str,
    subject: tuple[SubjectKind, str],
    what: tuple[str, str],
    change: RateChange,
    clients: tuple[str, ...],
) -> Signal:
    name = f"topic {subject[1]}" if subject[0] is SubjectKind.TOPIC else subject[1]
    noun, verb = what
    nouns = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    lasted = lasting(change.begin_ns, change.end_ns)
    return make_signal(
        kind,
        subject,
        (change.begin_ns, change.end_ns),
        f"{name} {verb} {_rate_text(change.after, nouns)} since {format_clock(change.begin_ns)}, {lasted}, "
        f"in place of {change.before:.1f}{' a second' if change.after < NOTHING else ''}",
        measures={
            "before_per_1000_s": round(1000 * change.before),
            "after_per_1000_s": round(1000 * change.after),
        },
        clients=clients,
    )


def _rate_text(rate: float, nouns: str) -> str:
    return f"no {nouns}" if rate < NOTHING else f"{rate:.1f} {nouns} a second"
