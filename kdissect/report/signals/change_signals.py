"""Signals about latency that changed its level: the server or the client, from what to what, since when.

    latency_rose           requests to a server take several times as long from a moment on
    client_latency_rose    requests of a client do, whatever the server
    load_grew              a server whose latency rose gets more requests, and which clients send them

Latencies are compared as logarithms, each with the mean of its own server, client and API. So a client that
comes or goes changes nothing, and a mix of slow and quick requests is no noise. Long polls and waits for
group members are left out.

Each API of a server or client is a series of its own, too: frequent requests that are as quick as before hide
no rise of the others. A rise counts against the capture's own normal: a level that the same requests had
before for seconds is none. Each signal tells how much its rivals (other servers, or other clients) rose in
the same time, since a busy host slows all of them down.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kdissect.array_types import Bools, Floats, Int64s
from kdissect.protocol.api_keys import GROUP_BARRIERS, LONG_POLLS, ApiKey
from kdissect.protocol.schema.registry import api_name
from kdissect.report.aggregate.grouping import RowGroups, TableColumns, encode, group_rows
from kdissect.report.aggregate.histogram import middle
from kdissect.report.aggregate.partial_rows import sort_rows
from kdissect.report.aggregate.partial_tables import CALLS
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.changes import MIN_STATISTIC, MIN_VALUES, Segment, Series, find_segments
from kdissect.report.signals.follower_pace import FollowerFetches, follower_fetches
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.named_rows import NamedRows, client_rows, server_rows
from kdissect.report.signals.replicated import REPLICATED
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.grid import Grid
from kdissect.report.timeline.signal_tables import PACE, PACE_CELL_BITS
from kdissect.report.wording import client_text, counted, lasting, listed
from kdissect.text import format_clock, format_duration

CHANGE_KINDS = (
    SignalKind("latency_rose", "requests to a server take several times as long", SignalCounts.WAITS),
    SignalKind("client_latency_rose", "requests of a client take several times as long", SignalCounts.WAITS),
    SignalKind("load_grew", "a server gets more requests as its latency rises", SignalCounts.NOTHING),
)

SECOND = 10**9
ROSE_OCTAVES = 1.5
"""A level this many doublings above the one before is a rise."""

ROSE_NS = 10_000_000
"""A rise by less is no concern, whatever the ratio."""

LASTED_NS = 3 * SECOND
MIN_BEFORE = 24
"""Values that a level before a rise needs: the first requests of a capture are often slow or quick."""

SERVER_STATISTIC = 40.0
"""A change of a server needs less than others: it counts only if the other servers do not change like it."""

OTHER_OCTAVES = 0.8
NORMAL_NS = 3 * SECOND
"""A level that lasted this long before is normal for the capture."""

SAME_RISE_NS = 3 * SECOND
"""Rises of one subject that begin within this are one: that of all of its requests, or of one API."""

LOAD_RATIO = 1.7
"""A server that gets so many times the requests has more load than before."""

LOADERS, LOADER_SHARE = 3, 0.15
"""The most clients that are named for it, and the least part of the rise that is theirs."""

RIVAL_VALUES = 8
MOST_SUBJECTS = 500
FASTEST_NS = 200_000
"""Latencies below this count as this: what is below is noise of the clock and of the scheduler."""


class Timed(NamedTuple):
    """Rows of PACE with a latency: step, number of exchanges, time, who, and the latency.

    `latency` is log2 of the ns, and `value` the same less the mean of its server, client and API. `alone`
    tells requests that wait for no other broker.
    """

    step_ns: int
    step: Int64s
    exchanges: Int64s
    value: Floats
    latency: Floats
    first_ns: Int64s
    api: Int64s
    alone: Bools
    server: NamedRows
    client: NamedRows


class Rise(NamedTuple):
    """A rise from one segment to the next: the steps of both, the rows that rose, and the moment."""

    before: tuple[int, int]
    after: tuple[int, int]
    rose: Bools
    begin_ns: int
    end_ns: int | None


def change_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about latency that rose."""
    grid = context.grid
    if grid is None:
        return
    timed, fetches = _timed(context, grid), context.shared(follower_fetches)
    for kind, subjects, others, least in (
        ("latency_rose", timed.server, timed.client, SERVER_STATISTIC),
        ("client_latency_rose", timed.client, timed.server, MIN_STATISTIC),
    ):
        for name in subjects.busiest(timed.exchanges, MOST_SUBJECTS):
            own = subjects.equal(name)
            for rise in _distinct_rises(timed, own, grid, context.end_ns, least):
                reaction = _reaction(fetches, name if kind == "latency_rose" else None, rise)
                signal = _signal(kind, name, timed, own, rise, others, reaction)
                if not _has_risen(signal):
                    continue
                yield signal
                if kind == "latency_rose":
                    yield from _load(name, timed, own, rise)


def _has_risen(signal: Signal) -> bool:
    """Return whether the requests that the signal names take longer; if not, others began, slow at first."""
    before, after = (signal.measures[name] for name in ("before_ns", "after_ns"))
    return 0 < before * 2**OTHER_OCTAVES <= after


def _timed(context: SignalContext, grid: Grid) -> Timed:
    pace = context.table(PACE)
    patient = np.isin(pace.ints("api_key"), [*GROUP_BARRIERS, *LONG_POLLS])
    timed = (pace.ints("cell") >= 0) & pace.present("api_key") & ~patient & pace.present("cell")
    pace = sort_rows(PACE, pace.filter(timed))
    latency = np.log2(np.maximum(middle(pace.ints("cell") << PACE_CELL_BITS), FASTEST_NS))
    count = pace.ints("exchanges")
    own = _own_groups(pace)
    means = np.bincount(own.of, count * latency, own.count) / np.bincount(own.of, count, own.count)
    client = client_rows(pace)
    return Timed(
        step_ns=grid.step_ns,
        step=pace.ints("step"),
        exchanges=count,
        value=latency - means[own.of],
        latency=latency,
        first_ns=pace.ints("first_ns"),
        api=pace.ints("api_key"),
        alone=_alone(context, pace.ints("api_key"), client),
        server=server_rows(pace, context.servers),
        client=client,
    )


def _own_groups(pace: TableColumns) -> RowGroups:
    keys = ("server_host", "server_port", "client_id", "client_host", "api_key")
    return group_rows(*(encode(pace.column(name)) for name in keys))


def _alone(context: SignalContext, api: Int64s, clients: NamedRows) -> Bools:
    """Return which requests wait for no other broker: also Produce of clients that never wait for all."""
    calls = context.table(CALLS)
    written = calls.filter((calls.ints("api_key") == ApiKey.PRODUCE) & (calls.ints("acks_all") > 0))
    ids = written.values("client_id")
    hosts = context.facts.column_at("client_host", context.facts.rows(written)).to_pylist()
    for_all = {client_text(*pair) for pair in zip(ids, hosts, strict=True)}
    only_leader = np.array([client not in for_all for client in clients.names], bool)[clients.of]
    alone: Bools = ~np.isin(api, list(REPLICATED)) | ((api == ApiKey.PRODUCE) & only_leader)
    return alone


def _distinct_rises(timed: Timed, own: Bools, grid: Grid, end_ns: int, least: float) -> Iterator[Rise]:
    """Yield the rises of a subject: of all requests, and of one API where the others hide it."""
    rows = np.flatnonzero(own)
    api_of = timed.api[rows]
    apis = np.unique(api_of).tolist()
    parts = [rows, *(rows[api_of == api] for api in apis)] if len(apis) > 1 else [rows]
    found: list[Rise] = []
    for part in parts:
        for rise in _rises(timed, part, grid, end_ns, least):
            if all(abs(rise.begin_ns - other.begin_ns) > SAME_RISE_NS for other in found):
                found.append(rise)
    yield from sorted(found, key=lambda rise: rise.begin_ns)


def _rises(timed: Timed, rows: Int64s, grid: Grid, end_ns: int, least: float) -> Iterator[Rise]:
    step, count, value = timed.step[rows], timed.exchanges[rows], timed.value[rows]
    series = Series(
        np.bincount(step, count, grid.steps).astype(np.int64),
        np.bincount(step, count * value, grid.steps).astype(np.float64),
        np.bincount(step, count * value**2, grid.steps).astype(np.float64),
    )
    segments = find_segments(series, min_statistic=least)
    for at in range(1, len(segments)):
        before, after = segments[at - 1], segments[at]
        if after.mean - before.mean < ROSE_OCTAVES or before.values < MIN_BEFORE:
            continue
        if _was_normal(segments[: at - 1], after, timed.step_ns):
            continue
        last = at
        while last + 1 < len(segments) and segments[last + 1].mean - before.mean >= ROSE_OCTAVES / 2:
            last += 1
        stop = segments[last].stop
        begin = _onset(timed, rows, (before.mean + after.mean) / 2, after.start)
        end = None if stop >= grid.steps else grid.start_ns + stop * grid.step_ns
        lasted = (end_ns if end is None else end) - begin
        if lasted >= LASTED_NS:
            rose = np.zeros(len(timed.step), bool)
            rose[rows] = True
            yield Rise((before.start, before.stop), (after.start, stop), rose, begin, end)


def _was_normal(earlier: list[Segment], after: Segment, step_ns: int) -> bool:
    """Return whether the same requests were as slow as this before, for seconds."""
    return any(
        (one.stop - one.start) * step_ns >= NORMAL_NS and one.mean >= after.mean - OTHER_OCTAVES
        for one in earlier
    )


def _onset(timed: Timed, rows: Int64s, limit: float, start: int) -> int:
    """Return the time of the first slow request from a step on."""
    slow = rows[(timed.value[rows] > limit) & (timed.step[rows] >= start)]
    return int(timed.first_ns[slow if len(slow) else rows].min())


def _reaction(fetches: FollowerFetches, server: str | None, rise: Rise) -> dict[str, int]:
    """Return how quickly a server and the others react as followers, before and after a rise; 0: unknown."""
    if server is None:
        return {}
    others = {name for name in fetches.followers if name != server}
    return {
        f"{whose}_{when}_ns": fetches.of(names).level_ns(range(*steps)) or 0
        for whose, names in (("reaction", {server}), ("rival_reaction", others))
        for when, steps in (("before", rise.before), ("after", rise.after))
    }


def _signal(
    kind: str,
    name: str,
    timed: Timed,
    own: Bools,
    rise: Rise,
    others: NamedRows,
    reaction: dict[str, int],
) -> Signal:
    before, after = ((timed.step >= start) & (timed.step < stop) for start, stop in (rise.before, rise.after))
    api = _main_api(timed, before & rise.rose, after & rise.rose)
    levels = [_level_ns(timed, rows & rise.rose & (timed.api == api)) for rows in (before, after)]
    alone = [_level_ns(timed, rows & own & timed.alone) for rows in (before, after)]
    slow = after & rise.rose
    present = others.only(slow).present()
    rose = [other for other in present if _rose(timed, before & rise.rose, slow, others.equal(other))]
    requests = int(timed.exchanges[slow].sum())
    wait_ns = int((timed.exchanges * np.exp2(timed.latency))[slow].sum()) - requests * levels[0]
    of_server = kind == "latency_rose"
    rates = _rates(timed, own, rise)
    until = lasting(rise.begin_ns, rise.end_ns)
    return make_signal(
        kind,
        (SubjectKind.SERVER if of_server else SubjectKind.CLIENT, name),
        (rise.begin_ns, rise.end_ns),
        f"{api_name(api)} {'at' if of_server else 'of'} {name} went from {format_duration(levels[0])} to "
        f"{format_duration(levels[1])} at {format_clock(rise.begin_ns)}, {until}, for {len(rose)} of "
        f"{counted(len(present), 'client' if of_server else 'server')}",
        measures={
            "before_ns": levels[0],
            "after_ns": levels[1],
            "own_before_ns": alone[0],
            "own_after_ns": alone[1],
            "times_1000": _times(timed, before & own & timed.alone, after & own & timed.alone),
            "rival_times_1000": _times(timed, before & ~own & timed.alone, after & ~own & timed.alone),
            "rose": len(rose),
            "present": len(present),
            "api_key": api,
            "rival_worst_ns": _worst_ns(timed, (timed.api == api) & ~own, rise.after[0]) if of_server else 0,
            "requests_per_1000_s_before": rates[0],
            "requests_per_1000_s_after": rates[1],
            **reaction,
        },
        servers=() if of_server else rose,
        clients=rose if of_server else (),
        requests=requests,
        wait_ns=max(wait_ns, 0),
    )


def _main_api(timed: Timed, before: Bools, after: Bools) -> int:
    """Return the API whose requests wait longer by most, of those that were there before."""
    apis = np.unique(timed.api[after]).tolist()
    known = [api for api in apis if (before & (timed.api == api)).any()] or apis

    def longer(api: int) -> int:
        rows = timed.api == api
        more = _level_ns(timed, after & rows) - _level_ns(timed, before & rows)
        return more * int(timed.exchanges[after & rows].sum())

    return int(max(known, key=longer))


def _level_ns(timed: Timed, rows: Bools) -> int:
    count = timed.exchanges[rows].sum()
    return int(np.exp2((timed.exchanges[rows] * timed.latency[rows]).sum() / count)) if count else 0


def _worst_ns(timed: Timed, rows: Bools, stop: int) -> int:
    """Return the highest level that requests of one server had for `NORMAL_NS` before a step; 0 without."""
    width = max(NORMAL_NS // timed.step_ns, 1)
    worst = 0.0
    for name in timed.server.only(rows).present() if stop >= width else ():
        own = rows & timed.server.equal(name) & (timed.step < stop)
        step, count = timed.step[own], timed.exchanges[own]
        sums = [np.cumsum(np.bincount(step, amount, stop)) for amount in (count, count * timed.latency[own])]
        number, total = (np.append(column[width - 1], column[width:] - column[:-width]) for column in sums)
        enough = number >= MIN_VALUES
        worst = max(worst, float((total[enough] / number[enough]).max(initial=0)))
    return int(np.exp2(worst)) if worst else 0


def _times(timed: Timed, before: Bools, after: Bools) -> int:
    """Return by which factor, times 1,000, the same requests take longer; 0 if too few of them are known."""
    counts = [int(timed.exchanges[rows].sum()) for rows in (before, after)]
    if min(counts) < RIVAL_VALUES:
        return 0
    means = [
        (timed.exchanges[rows] * timed.value[rows]).sum() / count
        for rows, count in zip((before, after), counts, strict=True)
    ]
    return round(1000 * 2 ** float(means[1] - means[0]))


def _rose(timed: Timed, before: Bools, after: Bools, own: Bools) -> bool:
    """Return whether the requests of one client or server rose, too; without any before, they count."""
    first, later = (
        (timed.exchanges[rows & own].sum(), (timed.exchanges * timed.value)[rows & own].sum())
        for rows in (before, after)
    )
    return bool(later[0]) and (not first[0] or later[1] / later[0] - first[1] / first[0] >= OTHER_OCTAVES)


def _load(name: str, timed: Timed, own: Bools, rise: Rise) -> Iterator[Signal]:
    """Yield a signal if a server gets more requests since a rise, with the clients that send most of them."""
    before, after = _rates(timed, own, rise)
    if after < LOAD_RATIO * before:
        return
    clients, steps, exchanges = timed.client.only(own), timed.step[own], timed.exchanges[own]

    def rate(span: tuple[int, int]) -> Floats:
        during = np.where((steps >= span[0]) & (steps < span[1]), exchanges, 0)
        return np.bincount(clients.of, during, len(clients.names)) / max(span[1] - span[0], 1)

    more = dict(zip(clients.names, np.maximum(rate(rise.after) - rate(rise.before), 0).tolist(), strict=True))
    least = LOADER_SHARE * sum(more.values())
    most_first = sorted(clients.present(), key=lambda name: -more[name])
    loaders = [name for name in most_first if more[name] >= least]
    yield make_signal(
        "load_grew",
        (SubjectKind.SERVER, name),
        (rise.begin_ns, rise.end_ns),
        f"{name} gets {after / 1000:.3g} requests a second since {format_clock(rise.begin_ns)} in place of "
        f"{before / 1000:.3g}, most of them from {listed(loaders, LOADERS)}",
        measures={"per_1000_s_before": before, "per_1000_s_after": after},
        clients=loaders[:LOADERS],
    )


def _rates(timed: Timed, own: Bools, rise: Rise) -> tuple[int, int]:
    """Return requests in 1,000 s before and after."""
    before, after = (
        round(
            1000
            * SECOND
            * int(timed.exchanges[own & (timed.step >= start) & (timed.step < stop)].sum())
            / (max(stop - start, 1) * timed.step_ns)
        )
        for start, stop in (rise.before, rise.after)
    )
    return before, after
