"""The signal `offsets_lost`: a group has no offset for partitions that it had committed before.

The coordinator answers OffsetFetch with -1 where it knows no offset. A new group begins so, and one that had
committed does not: its offsets were deleted with the group or the topic, they expired, or the partition of
__consumer_offsets that held them lost its records. Members begin where auto.offset.reset says then: they read
everything once more, or leave out what was written meanwhile.

Commits in transactions count no more than offsets that were answered: such a commit is none if it is aborted.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.client_names import ClientFacts
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.log_positions import LogPositions
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.signal_tables import READS
from kdissect.report.wording import counted, listed
from kdissect.text import format_clock

OFFSET_LOSS_KINDS = (
    SignalKind("offsets_lost", "a group has no offsets where it had committed", SignalCounts.OTHER),
)
NAMED = 3


class Lost(NamedTuple):
    """A partition without an offset: when a client asked, who that was, and what was committed until when."""

    asked_ns: int
    client: str
    offset: int
    committed_ns: int
    again: int
    """Records between the lowest offset that the client read since then and the one that was committed."""

    skipped: int


def offset_loss_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield one signal for each group and topic whose committed offsets are gone."""
    positions = context.shared(LogPositions)
    if not positions.absent:
        return
    committed, reads = _committed(context, positions), _reads(context)
    found: dict[tuple[str, str], dict[int, Lost]] = defaultdict(dict)
    for (client, group, topic), partitions in positions.absent.items():
        for number, asked in partitions.items():
            lost = _lost(client, committed[group, topic].get(number, []), reads[client, topic, number], asked)
            known = found[group, topic].get(number)
            if lost is not None and (known is None or lost.asked_ns < known.asked_ns):
                found[group, topic][number] = lost
    for (group, topic), own in sorted(found.items()):
        if own:
            yield _signal(context, group, topic, list(own.values()))


def _committed(
    context: SignalContext, positions: LogPositions
) -> dict[tuple[str, str], dict[int, list[tuple[int, int]]]]:
    """Return time and offset of commits by group and topic, then partition."""
    transactional = {work.client for work in context.rules.of_kind("transaction_work")}
    found: dict[tuple[str, str], dict[int, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for (client, group, topic), partitions in positions.committed.items():
        if client not in transactional:
            for number, own in partitions.items():
                found[group, topic][number] += [(one.time_ns, one.offset) for one in own]
    return found


def _reads(context: SignalContext) -> dict[tuple[str, str, int], list[tuple[int, int]]]:
    """Return when clients got records last at each offset of a partition, and that offset."""
    found: dict[tuple[str, str, int], list[tuple[int, int]]] = defaultdict(list)
    for client, topic, partition, last_ns, offset in context.values(
        READS, "client", "name", "partition", "last_ns", "offset"
    ):
        if topic is not None and partition is not None and offset is not None:
            found[client, topic, partition].append((last_ns, offset))
    return found


def _lost(
    client: str, commits: list[tuple[int, int]], reads: list[tuple[int, int]], asked: list[int]
) -> Lost | None:
    """Return the first time at which a client asked in vain for an offset that was committed before.

    Offset 0 is where a reader of everything begins anyhow.
    """
    for asked_ns in sorted(asked):
        committed_ns, offset = max((one for one in commits if one[0] < asked_ns), default=(0, 0))
        if offset:
            apart = min((at for last_ns, at in reads if last_ns > asked_ns), default=offset) - offset
            return Lost(asked_ns, client, offset, committed_ns, max(-apart, 0), max(apart, 0))
    return None


def _records(count: int) -> str:
    return f"{counted(count, 'record')} {'is' if count == 1 else 'are'}"


def _signal(context: SignalContext, group: str, topic: str, lost: list[Lost]) -> Signal:
    clients = sorted({one.client for one in lost})
    begin, committed_ns = min(one.asked_ns for one in lost), max(one.committed_ns for one in lost)
    begin = min(context.shared(ClientFacts).connected(client, begin) for client in clients)
    again, skipped = sum(one.again for one in lost), sum(one.skipped for one in lost)
    led_to = [f"{_records(again)} read once more"] if again else []
    led_to += [f"{_records(skipped)} left out"] if skipped else []
    return make_signal(
        "offsets_lost",
        (SubjectKind.GROUP, group),
        (begin, None),
        f"Group {group} has lost its offsets of {counted(len(lost), 'partition')} of topic {topic}: they "
        f"were committed until {format_clock(committed_ns)}, and {listed(clients, NAMED)} finds none at "
        f"{format_clock(min(one.asked_ns for one in lost))}{''.join(f'; {text}' for text in led_to)}",
        measures={"partitions": len(lost), "again": again, "skipped": skipped},
        clients=clients,
        topics=[topic],
        requests=len(lost),
    )
