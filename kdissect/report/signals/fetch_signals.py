"""Signals about fetches that bring little though more is there.

    fetches_small   a consumer gets a few kilobytes a fetch, and the log had several times as much

A consumer that keeps up gets what was just written, which may be little: nothing more is there. One that is
limited by its own size gets little although it is behind.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from kdissect.protocol.api_keys import ApiKey
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.client_names import BROKERS_OWN, ClientFacts
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.log_positions import LogPositions, Position
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.signal_tables import LOAD, PACE
from kdissect.report.wording import client_text
from kdissect.text import format_clock, format_count, format_duration, format_size

SECOND = 10**9
FETCH_KINDS = (
    SignalKind("fetches_small", "fetches bring little though more is there", SignalCounts.NOTHING),
)
SMALL_BYTES, TIMES_MORE, MORE_RECORDS = 16 << 10, 3, 10
"""A fetch is small below this size if the log has so many times its records, and so many more."""

LEAST_FETCHES, LEAST_NS, SMALL_SHARE = 50, 2 * SECOND, 0.8
"""So many small fetches over so long, and such a part of all that found records, are no accident."""

ENDED_NS = 5 * SECOND
"""A signal that was seen this shortly before the end of the capture lasts to its end."""


class FetchStep(NamedTuple):
    """Fetches of a partition in one step of time that found records, and how many more records were there."""

    first_ns: int
    last_ns: int
    exchanges: int
    records: int
    record_bytes: int
    left: int

    @property
    def is_small(self) -> bool:
        """Return whether they brought little, and much more was there."""
        is_small = self.record_bytes <= SMALL_BYTES * self.exchanges
        return is_small and self.left >= max(TIMES_MORE * self.records // self.exchanges, MORE_RECORDS)


def fetch_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about fetches."""
    positions = context.shared(LogPositions)
    found: dict[tuple[str, str], list[FetchStep]] = defaultdict(list)
    names = ("api_key", "client_id", "client", "name", "partition", *FetchStep._fields[:-1])
    for api, client_id, client, topic, partition, *figures in context.values(LOAD, *names):
        first_ns, last_ns, exchanges, records, size = figures
        is_other = api != ApiKey.FETCH or not records or topic is None
        if not is_other and not BROKERS_OWN.fullmatch(client_id or ""):
            own = positions.fetched.get((client, topic), {}).get(partition, [])
            left = _left(own, (first_ns, last_ns), records // exchanges)
            step = FetchStep(first_ns, last_ns, exchanges, records, size, left)
            found[client, topic].append(step)
    for (client, topic), fetches in sorted(found.items()):
        if (signal := _small(context, client, topic, fetches)) is not None:
            yield signal


def _left(positions: Sequence[Position], span_ns: tuple[int, int], records: int) -> int:
    """Return how many records were behind those that fetches of a span brought, 0 if that is not known."""
    at = bisect_right(positions, span_ns[1], key=attrgetter("time_ns")) - 1
    if at < 0 or positions[at].time_ns < span_ns[0]:
        return 0
    return positions[at].end - positions[at].offset - records


def _small_run(fetches: Sequence[FetchStep]) -> list[FetchStep]:
    """Return the small fetches from the first one on, for as long as most of all fetches are small.

    A consumer that has caught up gets little, too, since no more is there.
    """
    ordered = sorted(fetches, key=lambda one: one.first_ns)
    run: list[FetchStep] = []
    small = count = last = 0
    for one in ordered:
        if not (one.is_small or run):
            continue
        count += one.exchanges
        if one.is_small:
            run.append(one)
            small += one.exchanges
            if small >= SMALL_SHARE * count:
                last = len(run)
    return run[:last]


def _small(context: SignalContext, client: str, topic: str, fetches: Sequence[FetchStep]) -> Signal | None:
    small = _small_run(fetches)
    count, records, size = (
        sum(getattr(one, name) for one in small) for name in ("exchanges", "records", "record_bytes")
    )
    begin = small[0].first_ns if small else 0
    last = max((one.last_ns for one in small), default=0)
    if count < LEAST_FETCHES or last - begin < LEAST_NS:
        return None
    facts = context.shared(ClientFacts)
    groups = sorted(facts.groups.get(client, ()))
    if len(groups) > 1:
        return None  # processes of one name, each at positions of its own
    of_group = f" (group {', '.join(groups)})" if groups else ""
    most = max(one.left for one in small)
    a_second = count * SECOND // (last - begin)
    lasts = context.end_ns - last < ENDED_NS
    return make_signal(
        "fetches_small",
        (SubjectKind.CLIENT, client),
        (facts.began(client, begin), None if lasts else last),
        f"{client}{of_group} gets {records / count:.1f} records ({format_size(size // count)}) of topic "
        f"{topic} a fetch since {format_clock(begin)}, though up to {format_count(most)} more were there: "
        f"{format_count(count)} fetches in {format_duration(last - begin)}, {format_count(a_second)} a "
        "second",
        measures={
            "count": count,
            "records": records,
            "bytes": size,
            "left": most,
            "left_at_end": small[-1].left if lasts else 0,
            "per_second": a_second,
        },
        servers=_servers(context, client),
        clients=[client],
        groups=groups,
        topics=[topic],
        requests=count,
    )


def _servers(context: SignalContext, client: str) -> list[str]:
    """Return the servers that a client fetches from."""
    pace = context.table(PACE)
    rows = np.flatnonzero(pace.ints("api_key") == ApiKey.FETCH)
    names = ("client_id", "client_host", "server_host", "server_port")
    columns = (pace.take(rows).values(name) for name in names)
    return sorted(
        {
            context.servers.name(host, port)
            for client_id, client_host, host, port in set(zip(*columns, strict=True))
            if client_text(client_id, client_host) == client
        }
    )
