"""The signal `offset_repeated`: a consumer is stuck, and fetches the same offset again and again."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

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

ENDED_NS = 5 * SECOND
"""A signal that was seen this shortly before the end of the capture lasts to its end."""


def position_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about positions."""
    facts = context.shared(ClientFacts)
    yield from _repeated(context, facts)


def _reads(context: SignalContext) -> dict[tuple[str, str, int], list[Row]]:
    """Return the offsets at which fetches found records, by client, topic and partition."""
    found: dict[tuple[str, str, int], list[Row]] = defaultdict(list)
    for row in context.rows(READS):
        if row["offset"] is not None and row["partition"] is not None and row["name"] is not None:
            found[row["client"], row["name"], row["partition"]].append(row)
    return found


class Fetches:
    """Fetches of one partition by one client, as arrays: there may be one for each of many offsets."""

    def __init__(self, rows: Sequence[Row]) -> None:
        names = ("offset", "first_ns", "exchanges")
        self.offset, self.first_ns, self.exchanges = (
            np.array([row[name] for row in rows], np.int64) for name in names
        )

    def get_past(self, repeated: Row) -> bool:
        """Return whether fetches of later offsets show that the readers go on: several may have one name."""
        beyond = self.offset > repeated["offset"]
        beyond &= (repeated["first_ns"] < self.first_ns) & (self.first_ns < repeated["last_ns"])
        return bool(self.exchanges[beyond].sum() > AHEAD * repeated["exchanges"])


def _until(context: SignalContext, last_ns: int) -> int | None:
    return None if context.end_ns - last_ns < ENDED_NS else last_ns


def _repeated(context: SignalContext, facts: ClientFacts) -> Iterator[Signal]:
    best: dict[tuple[str, str], Row] = {}
    for (client, topic, _), rows in _reads(context).items():
        fetches = Fetches(rows)
        for row in rows:
            enough = row["exchanges"] >= REPEATED and row["last_ns"] - row["first_ns"] >= REPEATED_NS
            known = best.get((client, topic))
            is_most = known is None or row["exchanges"] > known["exchanges"]
            if enough and is_most and not fetches.get_past(row):
                best[client, topic] = row
    for (client, topic), row in sorted(best.items()):
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
