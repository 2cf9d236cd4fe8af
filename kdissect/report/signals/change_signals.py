"""Signals about latency that changed its level: the server or the client, from what to what, since when.

    latency_rose           requests to a server take several times as long from a moment on
    client_latency_rose    requests of a client do, whatever the server

Latencies are compared as logarithms, each with the mean of its own server, client and API. So a client that
comes or goes changes nothing, and a mix of slow and quick requests is no noise. Long polls and waits for
group members are left out.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kdissect.protocol.api_keys import GROUP_BARRIERS, LONG_POLLS
from kdissect.protocol.schema.registry import api_name
from kdissect.report.aggregate.grouping import (
    Mask,
    RowGroups,
    TableColumns,
    encode,
    group_rows,
)
from kdissect.report.aggregate.histogram import Ints, middle
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.changes import Floats, Segment, Series, find_segments
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.replicated import REPLICATED
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.grid import Grid
from kdissect.report.timeline.signal_tables import PACE, PACE_CELL_BITS
from kdissect.report.wording import client_text, counted
from kdissect.text import format_clock, format_duration

CHANGE_KINDS = (
    SignalKind("latency_rose", "requests to a server take several times as long", SignalCounts.WAITS),
    SignalKind("client_latency_rose", "requests of a client take several times as long", SignalCounts.WAITS),
)

SECOND = 10**9
ROSE_OCTAVES = 1.5
"""A level this many doublings above the one before is a rise."""

ROSE_NS = 10_000_000
"""A rise by less is no concern, whatever the ratio."""

LASTED_NS = 3 * SECOND
MIN_BEFORE = 24
"""Values that a level before a rise needs: the first requests of a capture are often slow or quick."""

OTHER_OCTAVES = 0.8
MOST_SUBJECTS = 500
FASTEST_NS = 200_000
"""Latencies below this count as this: what is below is noise of the clock and of the scheduler."""


class Timed(NamedTuple):
    """Rows of PACE with a latency: step, number of exchanges, time, who, and the latency.

    `latency` is log2 of the ns, and `value` the same less the mean of its server, client and API.
    """

    step_ns: int
    step: Ints
    exchanges: Ints
    value: Floats
    latency: Floats
    first_ns: Ints
    api: Ints
    server: list[str]
    client: list[str]


class Rise(NamedTuple):
    """A rise from one segment to the next: the rows of both, and the moment."""

    before: Mask
    after: Mask
    begin_ns: int
    end_ns: int | None
    lasted_ns: int
    segments: tuple[Segment, Segment]


def change_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about latency that rose."""
    grid = context.grid
    if grid is None:
        return
    timed = _timed(context, grid)
    for kind, subjects, others in (
        ("latency_rose", timed.server, timed.client),
        ("client_latency_rose", timed.client, timed.server),
    ):
        names = np.array(subjects, object)
        for name in _busiest(names, timed.exchanges):
            for rise in _rises(timed, names == name, grid, context.end_ns):
                yield _signal(kind, name, timed, rise, others)


def _timed(context: SignalContext, grid: Grid) -> Timed:
    pace = context.table(PACE)
    patient = np.isin(pace.ints("api_key"), [*GROUP_BARRIERS, *LONG_POLLS])
    pace = pace.filter((pace.ints("cell") >= 0) & pace.present("api_key") & ~patient & pace.present("cell"))
    hosts, ports, ids, clients = (
        pace.arrow(name).to_pylist() for name in ("server_host", "server_port", "client_id", "client_host")
    )
    latency = np.log2(np.maximum(middle(pace.ints("cell") << PACE_CELL_BITS), FASTEST_NS))
    count = pace.ints("exchanges")
    own = _own_groups(pace)
    means = np.bincount(own.of, count * latency, own.count) / np.bincount(own.of, count, own.count)
    return Timed(
        step_ns=grid.step_ns,
        step=pace.ints("step"),
        exchanges=count,
        value=latency - means[own.of],
        latency=latency,
        first_ns=pace.ints("first_ns"),
        api=pace.ints("api_key"),
        server=context.servers.names(hosts, ports),
        client=[client_text(*pair) for pair in zip(ids, clients, strict=True)],
    )


def _own_groups(pace: TableColumns) -> RowGroups:
    keys = ("server_host", "server_port", "client_id", "client_host", "api_key")
    return group_rows(*(encode(pace.arrow(name)) for name in keys))


def _busiest(names: np.ndarray, count: Ints) -> list[str]:
    """Return the subjects with the most exchanges, in the order of their names."""
    distinct, of = np.unique(names.astype(str), return_inverse=True)
    order = np.argsort(-np.bincount(of, count), kind="stable")[:MOST_SUBJECTS]
    return sorted(distinct[order].tolist())


def _rises(timed: Timed, own: Mask, grid: Grid, end_ns: int) -> Iterator[Rise]:
    step, count, value = timed.step[own], timed.exchanges[own], timed.value[own]
    series = Series(
        np.bincount(step, count, grid.steps).astype(np.int64),
        np.bincount(step, count * value, grid.steps).astype(np.float64),
        np.bincount(step, count * value**2, grid.steps).astype(np.float64),
    )
    segments = find_segments(series)
    for at in range(1, len(segments)):
        before, after = segments[at - 1], segments[at]
        if after.mean - before.mean < ROSE_OCTAVES or before.values < MIN_BEFORE:
            continue
        last = at
        while last + 1 < len(segments) and segments[last + 1].mean - before.mean >= ROSE_OCTAVES / 2:
            last += 1
        stop = segments[last].stop
        begin = _onset(timed, own, (before.mean + after.mean) / 2, after.start)
        end = None if stop >= grid.steps else grid.start_ns + stop * grid.step_ns
        lasted = (end_ns if end is None else end) - begin
        if lasted >= LASTED_NS:
            yield Rise(
                own & (timed.step >= before.start) & (timed.step < before.stop),
                own & (timed.step >= after.start) & (timed.step < stop),
                begin,
                end,
                lasted,
                (before, after),
            )


def _onset(timed: Timed, own: Mask, limit: float, start: int) -> int:
    """Return the time of the first slow request from a step on."""
    slow = own & (timed.value > limit) & (timed.step >= start)
    return int(timed.first_ns[slow].min()) if slow.any() else int(timed.first_ns[own].min())


def _signal(kind: str, name: str, timed: Timed, rise: Rise, others: list[str]) -> Signal:
    api = _main_api(timed, rise)
    before, after = (_level_ns(timed, rows & (timed.api == api)) for rows in (rise.before, rise.after))
    own = ~np.isin(timed.api, list(REPLICATED))
    names = np.array(others, object)
    present = np.unique(names[rise.after].astype(str)).tolist()
    rose = [other for other in present if _rose(timed, rise, names == other)]
    requests = int(timed.exchanges[rise.after].sum())
    wait_ns = int((timed.exchanges * np.exp2(timed.latency))[rise.after].sum()) - requests * before
    of_server = kind == "latency_rose"
    rates = _rates(timed, rise)
    until = "to the end of the capture" if rise.end_ns is None else f"for {format_duration(rise.lasted_ns)}"
    noun = "client" if of_server else "server"
    return make_signal(
        kind,
        (SubjectKind.SERVER if of_server else SubjectKind.CLIENT, name),
        (rise.begin_ns, rise.end_ns),
        f"{api_name(api)} {'at' if of_server else 'of'} {name} went from {format_duration(before)} to "
        f"{format_duration(after)} at {format_clock(rise.begin_ns)}, {until}, for {len(rose)} of "
        f"{counted(len(present), noun)}",
        measures={
            "before_ns": before,
            "after_ns": after,
            "own_before_ns": _level_ns(timed, rise.before & own),
            "own_after_ns": _level_ns(timed, rise.after & own),
            "rose": len(rose),
            "present": len(present),
            "api_key": api,
            "requests_per_1000_s_before": rates[0],
            "requests_per_1000_s_after": rates[1],
        },
        servers=() if of_server else rose,
        clients=rose if of_server else (),
        requests=requests,
        wait_ns=max(wait_ns, 0),
    )


def _main_api(timed: Timed, rise: Rise) -> int:
    """Return the API that waits longest after the rise, and that was seen before it."""
    known = np.unique(timed.api[rise.before])
    rows = rise.after & np.isin(timed.api, known)
    rows = rows if rows.any() else rise.after
    apis, of = np.unique(timed.api[rows], return_inverse=True)
    return int(apis[np.argmax(np.bincount(of, timed.exchanges[rows] * np.exp2(timed.latency[rows])))])


def _level_ns(timed: Timed, rows: Mask) -> int:
    count = timed.exchanges[rows].sum()
    return int(np.exp2((timed.exchanges[rows] * timed.latency[rows]).sum() / count)) if count else 0


def _rose(timed: Timed, rise: Rise, own: Mask) -> bool:
    """Return whether the requests of one client or server rose, too; without any before, they count."""
    before, after = (
        (timed.exchanges[rows & own].sum(), (timed.exchanges * timed.value)[rows & own].sum())
        for rows in (rise.before, rise.after)
    )
    return bool(after[0]) and (not before[0] or after[1] / after[0] - before[1] / before[0] >= OTHER_OCTAVES)


def _rates(timed: Timed, rise: Rise) -> tuple[int, int]:
    """Return requests in 1,000 s before and after."""
    spans = [max(part.stop - part.start, 1) for part in rise.segments]
    counts = [part.values for part in rise.segments]
    before, after = (
        round(1000 * SECOND * count / (span * timed.step_ns))
        for count, span in zip(counts, spans, strict=True)
    )
    return before, after
