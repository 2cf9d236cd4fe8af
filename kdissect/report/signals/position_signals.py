"""The signal `offset_repeated`: a consumer is stuck, and fetches the same offset again and again."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.client_names import ClientFacts
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.signal_tables import READS
from kdissect.report.wording import counted
from kdissect.text import format_clock, format_count, format_duration

Row = dict[str, Any]
SECOND = 10**9
POSITION_KINDS = (
    SignalKind("offset_repeated", "a consumer fetches one offset again and again", SignalCounts.OTHER),
)
REPEATED, REPEATED_NS = 4, 2 * SECOND
AHEAD = 2
"""A reader that is stuck may fetch so many later offsets in advance, each time."""

NEAR = 64  # offsets that are looked at first

ENDED_NS = 5 * SECOND
"""A signal that was seen this shortly before the end of the capture lasts to its end."""


READ_COLUMNS = ("client", "name", "partition", "offset", "first_ns", "last_ns", "exchanges")


def position_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about positions."""
    facts = context.shared(ClientFacts)
    yield from _repeated(context, facts)


def _reads(context: SignalContext) -> dict[tuple[str, str, int], list[Row]]:
    """Return the offsets at which fetches found records, by client, topic and partition."""
    found: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
    for row in context.rows(READS, *READ_COLUMNS):
        if row["offset"] is not None and row["partition"] is not None and row["name"] is not None:
            found[row["client"], row["name"], row["partition"]].append(row)
    return found


class Fetches:
    """Fetches of one partition by one client, as arrays by offset: there may be as many as records."""

    def __init__(self, rows: Sequence[Row]) -> None:
        names = ("offset", "first_ns", "last_ns", "exchanges")
        columns = np.array([[row[name] for name in names] for row in rows], np.int64)
        self._row = np.argsort(columns[:, 0], kind="stable")
        self._offset, self._first_ns, self._last_ns, self._exchanges = columns[self._row].T

    def stuck(self) -> list[int]:
        """Return the rows of offsets that readers fetch again and again, and do not get past."""
        lasting = self._last_ns - self._first_ns >= REPEATED_NS
        repeated = np.flatnonzero((self._exchanges >= REPEATED) & lasting)
        return sorted(self._row[repeated[~self._get_past(repeated)]].tolist())

    def _get_past(self, own: Int64s) -> Bools:
        """Return whether fetches of later offsets show that readers go on: several may have one name.

        For nearly all offsets, the next few show it.
        """
        near = own[:, None] + np.arange(NEAR)
        in_table = near < len(self._offset)
        fetches = self._meanwhile(own[:, None], np.where(in_table, near, 0)) * in_table
        past: Bools = fetches.sum(1) > AHEAD * self._exchanges[own]
        for at in np.flatnonzero(~past).tolist():
            fetches = self._meanwhile(own[at], np.arange(own[at], len(self._offset)))
            past[at] = fetches.sum() > AHEAD * self._exchanges[own[at]]
        return past

    def _meanwhile(self, own: Int64s, others: Int64s) -> Int64s:
        """Return the fetches of others while those of `own` went on, 0 for offsets that are not later."""
        first_ns = self._first_ns[others]
        beyond = self._offset[others] > self._offset[own]
        beyond &= (self._first_ns[own] < first_ns) & (first_ns < self._last_ns[own])
        fetches: Int64s = self._exchanges[others] * beyond
        return fetches


def _until(context: SignalContext, last_ns: int) -> int | None:
    return None if context.end_ns - last_ns < ENDED_NS else last_ns


def most_repeated(
    reads: Mapping[tuple[str, str, int], Sequence[Row]],
) -> dict[tuple[str, str], Row]:
    """Return the offset that was fetched most often, by client and topic, among those nobody gets past.

    `reads` has rows by client, topic and partition. If offsets were fetched equally often, the one that was
    fetched first counts: the order of rows depends on how captures were divided among tasks.
    """
    best: dict[tuple[str, str], Row] = {}
    for (client, topic, _), rows in reads.items():
        for number in Fetches(rows).stuck():
            row = rows[number]
            best[client, topic] = max(best.get((client, topic), row), row, key=_rank)
    return best


def _rank(row: Row) -> tuple[int, int, int, int]:
    return row["exchanges"], -row["first_ns"], -row["partition"], -row["offset"]


def _repeated(context: SignalContext, facts: ClientFacts) -> Iterator[Signal]:
    for (client, topic), row in sorted(most_repeated(_reads(context)).items()):
        count, end = row["exchanges"], row["last_ns"]
        begin, groups = facts.began(client, row["first_ns"]), sorted(facts.groups.get(client, ()))
        of_group = f" (group {', '.join(groups)})" if groups else ""
        yield make_signal(
            "offset_repeated",
            (SubjectKind.CLIENT, client),
            (begin, _until(context, end)),
            f"{client}{of_group} does not get past offset {format_count(row['offset'])} of "
            f"{topic}-{row['partition']}: it fetched it {counted(count, 'time')} from {format_clock(begin)} "
            f"for {format_duration(end - begin)}",
            measures={"count": count, "offset": row["offset"], "partition": row["partition"]},
            clients=[client],
            groups=groups,
            topics=[topic],
            requests=count,
        )
