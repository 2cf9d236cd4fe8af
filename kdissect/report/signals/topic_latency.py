"""The signal `topic_latency_rose`: writes to one topic take several times as long from a moment on.

In come the writes of LOAD with the logarithms of their latencies. Each is compared with the mean of its own
client and partition, so clients that come and go change nothing. A topic is told only if writes to others
went on as before, since a slow server or client slows down all of its topics.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kdissect.array_types import Bools, Floats, Int64s
from kdissect.protocol.api_keys import ApiKey
from kdissect.report.aggregate.grouping import encode, group_rows
from kdissect.report.aggregate.partial_rows import sort_rows
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.changes import Series, find_segments
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.named_rows import NamedRows, client_rows, topic_rows
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.grid import Grid
from kdissect.report.timeline.signal_tables import LOAD
from kdissect.report.wording import lasting
from kdissect.text import format_clock, format_duration

TOPIC_LATENCY_KINDS = (
    SignalKind("topic_latency_rose", "writes to a topic take several times as long", SignalCounts.WAITS),
)
SECOND = 10**9
ROSE_OCTAVES, ROSE_NS, LASTED_NS = 2.0, 10_000_000, 5 * SECOND
"""Writes take four times as long, 10 ms longer, and for so long."""

OTHERS_OCTAVES = 0.8
"""Writes to other topics that take this much longer, too, have the same cause."""

LEAST = 24
"""Writes before and after, of the topic and of others."""

MOST_TOPICS = 500


class Writes(NamedTuple):
    """Rows of LOAD: step, number of writes, log2 of their latency less the usual one, the time, the topic."""

    step: Int64s
    writes: Int64s
    value: Floats
    octaves: Floats
    first_ns: Int64s
    topic: NamedRows
    client: NamedRows


def topic_latency_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about topics whose writes became slow."""
    grid = context.grid
    if grid is None:
        return
    writes = _writes(context)
    if len(writes.topic.names) < 2:
        return  # there is no other topic to compare with
    for name in writes.topic.busiest(writes.writes, MOST_TOPICS):
        yield from _rises(context, grid, writes, name)


def _writes(context: SignalContext) -> Writes:
    load = context.table(LOAD)
    load = sort_rows(LOAD, load.filter((load.ints("api_key") == ApiKey.PRODUCE) & (load.ints("timed") > 0)))
    count = load.ints("timed")
    octaves = load.ints("octaves_1000") / 1000 / np.maximum(count, 1)
    keys = ("client_id", "client_host", "topic", "topic_id", "partition")
    own = group_rows(*(encode(load.column(name)) for name in keys))
    means = np.bincount(own.of, count * octaves, own.count) / np.bincount(own.of, count, own.count)
    return Writes(
        load.ints("step"),
        count,
        octaves - means[own.of] if len(count) else octaves,
        octaves,
        load.ints("first_ns"),
        topic_rows(load, context.topics),
        client_rows(load),
    )


def _rises(context: SignalContext, grid: Grid, writes: Writes, name: str) -> Iterator[Signal]:
    own = writes.topic.equal(name)
    step, count, value = writes.step[own], writes.writes[own], writes.value[own]
    total, weighted, squares = (
        np.bincount(step, weights, grid.steps).astype(np.float64)
        for weights in (count, count * value, count * value**2)
    )
    segments = find_segments(Series(total.astype(np.int64), weighted, squares))
    for before, after in pairwise(segments):
        if after.mean - before.mean < ROSE_OCTAVES or min(before.values, after.values) < LEAST:
            continue
        spans = [(writes.step >= one.start) & (writes.step < one.stop) for one in (before, after)]
        others = [rows & ~own for rows in spans]
        if min(int(writes.writes[rows].sum()) for rows in others) < LEAST:
            continue
        if _mean(writes, others[1], writes.value) - _mean(writes, others[0], writes.value) >= OTHERS_OCTAVES:
            continue
        levels = [round(2 ** _mean(writes, rows & own, writes.octaves)) for rows in spans]
        slow = spans[1] & own & (writes.value > (before.mean + after.mean) / 2)
        begin = int(writes.first_ns[slow].min()) if slow.any() else grid.start_ns + after.start * grid.step_ns
        end = None if after.stop >= grid.steps else grid.start_ns + after.stop * grid.step_ns
        if levels[1] - levels[0] >= ROSE_NS and (end or context.end_ns) - begin >= LASTED_NS:
            yield _signal(name, writes, spans[1] & own, levels, (begin, end))


def _mean(writes: Writes, rows: Bools, values: Floats) -> float:
    return float((writes.writes[rows] * values[rows]).sum() / writes.writes[rows].sum())


def _signal(
    name: str, writes: Writes, rows: Bools, levels: list[int], span: tuple[int, int | None]
) -> Signal:
    before, after = map(format_duration, levels)
    requests = int(writes.writes[rows].sum())
    return make_signal(
        "topic_latency_rose",
        (SubjectKind.TOPIC, name),
        span,
        f"Writes to topic {name} went from {before} to {after} at {format_clock(span[0])}, {lasting(*span)}, "
        "while those to other topics took as long as before",
        measures={"before_ns": levels[0], "after_ns": levels[1]},
        clients=writes.client.only(rows).present(),
        requests=requests,
        wait_ns=max((levels[1] - levels[0]) * requests, 0),
    )
