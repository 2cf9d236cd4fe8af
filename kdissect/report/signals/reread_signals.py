"""The signal `offsets_uncommitted`: a consumer of a group begins at the same offset after each start.

A member of a group goes on at the offset that the group has committed. Where nobody commits, it begins where
auto.offset.reset says: with `earliest` everything is read once more after each start or rebalance. A member
that dies soon after each start had no time to commit, which is another matter.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from kdissect.protocol.api_keys import OFFSET_COMMITS, ApiKey
from kdissect.report.aggregate.partial_tables import CALLS
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.client_names import ClientFacts
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.log_positions import LogPositions
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.position_signals import READ_COLUMNS
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.signal_tables import PACE, READS
from kdissect.report.wording import client_text, counted, listed
from kdissect.text import format_clock, format_count

Row = dict[str, Any]
REREAD_KINDS = (
    SignalKind("offsets_uncommitted", "a group reads everything again after each start", SignalCounts.OTHER),
)
LEAST_RECORDS = 20
"""Records that are read again; a reader that fetches ahead may go back by a few."""

LEAST_NS = 6 * 10**9
"""How long a life lasts in which a member would commit: by default it does so every 5 s."""


class Reread(NamedTuple):
    """A partition that is read from its first offset again: when, how often, and what came between."""

    first_ns: int
    again_ns: int
    starts: int
    records: int
    clients: frozenset[str]


def reread_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield one signal for each group and topic of which a member begins again where the group began."""
    committing = _committing_groups(context)
    for (group, topic), partitions in sorted(_reads(context).items()):
        if group in committing:
            continue
        again = (_read_again(context, topic, *partition) for partition in partitions.items())
        found = [one for one in again if one is not None]
        if found:
            yield _signal(context, group, topic, found)


def _committing_groups(context: SignalContext) -> set[str]:
    calls = context.table(CALLS)
    commits = calls.filter(np.isin(calls.ints("api_key"), list(OFFSET_COMMITS)) & calls.present("group_id"))
    return set(commits.arrow("group_id").unique().to_pylist())


def _reads(context: SignalContext) -> dict[tuple[str, str], dict[int, list[Row]]]:
    """Return the offsets at which members of groups got records, by group and topic, then partition."""
    groups = context.shared(ClientFacts).groups
    found: dict[tuple[str, str], dict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in context.rows(READS, *READ_COLUMNS):
        topic = row["name"]
        if topic is not None and row["partition"] is not None and row["offset"] is not None:
            for group in groups.get(row["client"], ()):
                found[group, topic][row["partition"]].append(row)
    return found


def _read_again(context: SignalContext, topic: str, partition: int, rows: list[Row]) -> Reread | None:
    """Return how a partition is read again from the lowest offset of all, None if it is not."""
    lowest = min(row["offset"] for row in rows)
    begins = [row for row in rows if row["offset"] == lowest]
    first, again = min(row["first_ns"] for row in begins), max(row["last_ns"] for row in begins)
    starts = sum(row["exchanges"] for row in begins)
    if starts < 2 or again - first < LEAST_NS:
        return None
    # A fetch that brings nothing tells how far its reader is, too.
    fetched = context.shared(LogPositions).fetched
    reached = max(
        (
            one.offset
            for client in {row["client"] for row in rows}
            for one in fetched.get((client, topic), {}).get(partition, ())
            if one.time_ns < again
        ),
        default=lowest,
    )
    if reached - lowest < LEAST_RECORDS:
        return None
    return Reread(first, again, starts, reached - lowest, frozenset(row["client"] for row in begins))


def _signal(context: SignalContext, group: str, topic: str, found: list[Reread]) -> Signal:
    clients = sorted(frozenset().union(*(one.clients for one in found)))
    first, again = min(one.first_ns for one in found), min(one.again_ns for one in found)
    begin = min((time for time in _joins(context, clients) if first + LEAST_NS <= time), default=again)
    starts, records = max(one.starts for one in found), sum(one.records for one in found)
    return make_signal(
        "offsets_uncommitted",
        (SubjectKind.GROUP, group),
        (min(begin, again), None),
        f"Group {group} commits no offsets: {listed(clients, 3)} began to read topic {topic} anew "
        f"{counted(starts - 1, 'time')} since {format_clock(min(begin, again))}, and got up to "
        f"{format_count(records)} records once more",
        measures={"starts": starts, "records": records},
        clients=clients,
        topics=[topic],
        requests=starts - 1,
    )


def _joins(context: SignalContext, clients: list[str]) -> Iterator[int]:
    """Yield when clients joined a group."""
    pace = context.table(PACE)
    joins = pace.filter(pace.ints("api_key") == ApiKey.JOIN_GROUP)
    for row in joins.dicts("client_id", "client_host", "first_ns"):
        if client_text(row["client_id"], row["client_host"]) in clients:
            yield row["first_ns"]
