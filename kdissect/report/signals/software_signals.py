"""Signals about software that changed: the moment, and what its clients do otherwise since then.

    software_changed    a client's software has another version from a moment on
    service_worsened    its requests fail, take longer, or became many more for the same records

The moment is known, so the time before is compared with the time after, service by service. A service is all
clients whose ids differ in a number at the end.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from kdissect.protocol.api_keys import EPOCH_HEARTBEATS, GROUP_BARRIERS, LONG_POLLS, ApiKey
from kdissect.protocol.schema.registry import api_name
from kdissect.report.aggregate.grouping import map_distinct
from kdissect.report.aggregate.histogram import middle
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.named_rows import NamedColumns
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.signal_tables import LOAD, PACE, PACE_CELL_BITS
from kdissect.report.wording import client_text, counted, software_text
from kdissect.text import format_clock, format_duration

Row = dict[str, Any]
SECOND = 10**9
SOFTWARE_KINDS = (
    SignalKind("software_changed", "a client's software changed", SignalCounts.NOTHING),
    SignalKind("service_worsened", "a service does worse since its software changed", SignalCounts.NOTHING),
)
CHANGED_NS = 3 * SECOND
"""Software that is new in the first seconds of a capture may have been there before."""

STEM = re.compile(r"[-_.]?\d+$")
IN_ID = re.compile(r"(?P<name>.*?[a-z])[-_.@/ ]?v?(?P<version>\d+\.\d+(?:\.\d+)?)(?![\d.])", re.IGNORECASE)
"""A name and a version as client ids have them: shop-1.4.0; four numbers are an address."""

WARM_NS, SEEN_NS = 2 * SECOND, 3 * SECOND
"""The first requests of a process are slow and come in a crowd; shorter spans are not compared."""

TIMES_REQUESTS, FEWER_RECORDS, MORE_A_SECOND = 2.0, 0.7, 10.0
"""Many more requests for the same records: by ratio, records in each by ratio, and requests a second."""

TIMED = 20
"""Latencies of fewer requests are not compared."""

TIMES_SLOWER, SLOWER_NS, RIVALS_SLOWER = 3.0, 10_000_000, 1.5
ERROR_SHARE, ERRORS, SHARE_BEFORE = 0.05, 5, 0.01


class NewVersion(NamedTuple):
    """A service, its versions, when the new one was seen first, and the clients of both."""

    service: str
    software: str
    versions: tuple[str, str]
    begin_ns: int
    clients: tuple[frozenset[str], frozenset[str]]


class Use(NamedTuple):
    """Use of one API by clients in a span: requests a second of each, and figures of one request."""

    requests: int
    rate: float
    records: float
    errors: int
    latency_ns: float


def software_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about software."""
    changes = list(_changes(context))
    pace, load = _rows(context, bool(changes))
    for change in changes:
        old, new = change.versions
        clients = sorted(change.clients[1])
        yield make_signal(
            "software_changed",
            (SubjectKind.CLIENT, change.service),
            (change.begin_ns, None),
            f"{change.service} went from {software_text(change.software, old)} to {new} at "
            f"{format_clock(change.begin_ns)} ({counted(len(clients), 'client')})",
            measures={"clients": len(clients)},
            clients=clients,
        )
        worse = _worse(pace, load, change)
        if worse is not None:
            yield make_signal(
                "service_worsened",
                (SubjectKind.CLIENT, change.service),
                (change.begin_ns, None),
                worse,
                clients=clients,
            )


def _changes(context: SignalContext) -> Iterator[NewVersion]:
    columns = context.facts.columns
    names = ("client_id", "client_software_name", "client_software_version")
    told, of = map_distinct(_version_of, *map(columns.column, names))
    distinct = {one for one in told if one is not None}
    count = Counter((service, software) for service, software, _ in distinct)
    several = np.array([one is not None and count[one[:2]] > 1 for one in told], bool)
    chosen = np.flatnonzero(several[of] & columns.present("first_time_ns")) if several.any() else of[:0]
    rows = columns.take(chosen)
    services: dict[tuple[str, str], dict[str, list[tuple[int, str]]]] = defaultdict(lambda: defaultdict(list))
    for number, client_id, host, first in zip(
        of[chosen].tolist(), *map(rows.values, ("client_id", "client_host", "first_time_ns")), strict=True
    ):
        service, software, version = told[number] or ("", "", "")
        services[service, software][version].append((first, client_text(client_id, host)))
    for (service, software), versions in sorted(services.items()):
        ordered = sorted(versions.items(), key=lambda item: min(item[1]))
        for (old, before), (new, after) in pairwise(ordered):
            begin = min(after)[0]
            if begin - context.begin_ns < CHANGED_NS or max(before)[0] > max(after)[0]:
                continue
            sides = frozenset(name for _, name in before), frozenset(name for _, name in after)
            yield NewVersion(service, software, (old, new), begin, sides)


def _version_of(
    client_id: str | None, software: str | None, version: str | None
) -> tuple[str, str, str] | None:
    """Return the service of a client, what has a version there, and the version; None if none is known."""
    if client_id and "." in client_id and (named := IN_ID.match(client_id)):
        return named["name"], named["name"], named["version"]
    if client_id and software and version:
        return STEM.sub("", client_id) or client_id, software, version
    return None


def _rows(context: SignalContext, wanted: bool) -> tuple[list[Row], list[Row]]:
    """Return the rows of PACE and LOAD with the names of their clients; none if nothing changed."""
    if not wanted:
        return [], []
    # Not `context.rows`, which would keep them until the report is done.
    pace, load = (NamedColumns(context.table(part), context.topics).dicts() for part in (PACE, LOAD))
    return pace, load


def _worse(pace: Sequence[Row], load: Sequence[Row], change: NewVersion) -> str | None:
    """Return what got worse as a sentence, the first of errors, latency and requests; None for nothing."""
    sides = [_side(pace, change, after=after) for after in (False, True)]
    writes = [_side(load, change, after=after) for after in (False, True)]
    for api in sorted({row["api_key"] for row in sides[1] if row["api_key"] is not None}):
        before, after = (
            _use(
                [row for row in rows if row["api_key"] == api],
                [row for row in wrote if row["api_key"] == api],
            )
            for rows, wrote in zip(sides, writes, strict=True)
        )
        if before is not None and after is not None:
            rivals = _rivals(pace, change, api)
            for words in (
                _errors(before, after),
                _latency(before, after, rivals),
                _requests(api, before, after),
            ):
                if words is not None:
                    return f"{api_name(api)} of {change.service} {words}"
    return None


def _side(rows: Sequence[Row], change: NewVersion, *, after: bool) -> list[Row]:
    """Return the rows of the service before the change, or after it and after each client's first seconds."""
    own = [row for row in rows if row["client"] in change.clients[after]]
    if not after:
        return [row for row in own if row["last_ns"] < change.begin_ns]
    first: dict[str, int] = {}
    for row in own:
        if row["first_ns"] >= change.begin_ns:
            first[row["client"]] = min(row["first_ns"], first.get(row["client"], row["first_ns"]))
    return [row for row in own if row["first_ns"] >= first.get(row["client"], 1 << 62) + WARM_NS]


def _use(rows: Sequence[Row], writes: Sequence[Row]) -> Use | None:
    spans: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        spans[row["client"]] += [row["first_ns"], row["last_ns"]]
    seconds = sum(max(times) - min(times) for times in spans.values()) / SECOND
    requests = sum(row["exchanges"] for row in rows)
    if seconds * SECOND < SEEN_NS or not requests:
        return None
    return Use(
        requests,
        requests / seconds,
        sum(row["records"] for row in writes) / requests,
        sum(row["error_responses"] for row in rows),
        _latency_ns(rows),
    )


def _latency_ns(rows: Sequence[Row]) -> float:
    """Return the geometric mean of latencies, which a few slow requests do not move."""
    timed = [row for row in rows if row["cell"] is not None and row["cell"] >= 0]
    if not timed:
        return 0.0
    cells, count = (np.array([row[name] for row in timed], np.int64) for name in ("cell", "exchanges"))
    logs = np.log(np.maximum(middle(cells << PACE_CELL_BITS), 1))
    return float(np.exp((logs * count).sum() / count.sum()))


def _rivals(pace: Sequence[Row], change: NewVersion, api: int) -> float:
    """Return the factor by which the same requests of other clients take longer since; 1 if unknown."""
    others = [row for row in pace if row["api_key"] == api and row["client"] not in change.clients[1]]
    before, after = (
        _latency_ns([row for row in others if (row["first_ns"] >= change.begin_ns) is later])
        for later in (False, True)
    )
    return after / before if before and after else 1.0


def _errors(before: Use, after: Use) -> str | None:
    shares = before.errors / before.requests, after.errors / after.requests
    if after.errors < ERRORS or shares[1] < ERROR_SHARE or shares[0] > SHARE_BEFORE:
        return None
    return f"fails {after.errors:,} of {after.requests:,} times, and {before.errors:,} times before"


def _latency(before: Use, after: Use, rivals: float) -> str | None:
    if min(before.requests, after.requests) < TIMED:
        return None
    slower = after.latency_ns - before.latency_ns
    if slower < SLOWER_NS or after.latency_ns < TIMES_SLOWER * before.latency_ns or rivals > RIVALS_SLOWER:
        return None
    times = [format_duration(round(use.latency_ns)) for use in (before, after)]
    return f"went from {times[0]} to {times[1]}"


def _requests(api: int, before: Use, after: Use) -> str | None:
    more = after.rate - before.rate
    if more < MORE_A_SECOND or after.rate < TIMES_REQUESTS * before.rate:
        return None
    if api in LONG_POLLS - {ApiKey.FETCH} or api in (*GROUP_BARRIERS, *EPOCH_HEARTBEATS):
        return None
    rates = f"went from {before.rate:.0f} to {after.rate:.0f} requests a second for each client"
    if not before.records:
        return rates
    if after.records > FEWER_RECORDS * before.records:
        return None
    return f"{rates}, with {after.records:.1f} records each in place of {before.records:.1f}"
