"""Signals about leaders and in-sync replicas, as Metadata and its like tell them.

leaders_moved         partitions of a server have another leader than before
replicas_out_of_sync  replicas of a server are not among the in-sync replicas of their partitions

A message tells what its sender knew at that time, so both are dated by the first message that tells them, and
what happened lies before it. The epoch of a leader orders what several brokers tell: one that learns late
still names an earlier epoch. Metadata below version 7 has no epochs, and time alone does not tell whether its
broker learnt late, so it counts only for partitions of which nothing else tells a leader.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from kdissect.report.model.findings import Evidence, Location
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.signal_tables import REPLICA_STATES
from kdissect.report.wording import counted, listed
from kdissect.text import format_clock

SECOND = 10**9
APART_NS = 5 * SECOND
"""Moves that become known with less than this between them are one: clients ask at different times.

Those that are further apart are told apart, so that none is dated by another one.
"""

NAMED = 3

REPLICA_KINDS = (
    SignalKind(
        "leaders_moved", "partitions of a server have another leader", SignalCounts.NOTHING, tells_first=True
    ),
    SignalKind(
        "replicas_out_of_sync",
        "replicas of a server are not in sync",
        SignalCounts.NOTHING,
        tells_first=True,
    ),
)

Row = Mapping[str, Any]
Partition = tuple[str, int]
"""The name of a topic, and the number of a partition."""


class Reign(NamedTuple):
    """A leader of a partition, and the first and last message that names it."""

    leader: int
    first_ns: int
    last_ns: int
    row: Row


class Move(NamedTuple):
    """A partition that has a new leader, when that became known, and the row that tells it."""

    partition: Partition
    old: int
    new: int
    known_ns: int
    row: Row


class Absence(NamedTuple):
    """A replica that is not in sync: from the first message that says so to the last."""

    partition: Partition
    node: int
    first_ns: int
    last_ns: int
    ended: bool
    row: Row


def replica_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about leaders and in-sync replicas."""
    rows_of: dict[Partition, list[Row]] = defaultdict(list)
    for row in context.rows(REPLICA_STATES):
        topic = row["name"]
        if topic is not None and row["partition"] is not None:
            rows_of[topic, row["partition"]].append(row)
    moves = [move for partition, rows in sorted(rows_of.items()) for move in _moves(partition, rows)]
    for old in sorted({move.old for move in moves}):
        yield from _moved(context, old, [move for move in moves if move.old == old])
    absent = [one for partition, rows in sorted(rows_of.items()) for one in _absences(partition, rows)]
    for node in sorted({one.node for one in absent}):
        yield _out_of_sync(context, node, [one for one in absent if one.node == node])


def _moves(partition: Partition, rows: Sequence[Row]) -> Iterator[Move]:
    reigns = _reigns(rows)
    for before, after in pairwise(reigns):
        if before.leader != after.leader:
            yield Move(partition, before.leader, after.leader, after.first_ns, after.row)


def _reigns(rows: Sequence[Row]) -> list[Reign]:
    """Return the leaders of a partition, one for each epoch, in the order of epochs, or else of time."""
    led = [row for row in rows if row["leader_id"] is not None and row["leader_id"] >= 0]
    own: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in [row for row in led if _epoch(row) >= 0] or led:
        own[_epoch(row), row["leader_id"]].append(row)
    reigns = []
    for (epoch, leader), states in own.items():
        first = min(states, key=lambda row: row["first_ns"])
        last = max(row["last_ns"] for row in states)
        reigns.append((epoch, first["first_ns"], Reign(leader, first["first_ns"], last, first)))
    reigns.sort(key=lambda one: one[:2])
    return [reign for _, _, reign in reigns]


def _epoch(row: Row) -> int:
    """Return the epoch of the leader that a row tells, -1 if it tells none."""
    return -1 if row["leader_epoch"] is None else row["leader_epoch"]


def _absences(partition: Partition, rows: Sequence[Row]) -> Iterator[Absence]:
    told = [row for row in rows if row["replicas"] and row["isr"] is not None]
    for node in sorted({node for row in told for node in _nodes(row["replicas"]) - _nodes(row["isr"])}):
        without = [row for row in told if node in _nodes(row["replicas"]) - _nodes(row["isr"])]
        last = max(row["last_ns"] for row in without)
        first = min(without, key=lambda row: row["first_ns"])
        ended = any(node in _nodes(row["isr"]) and row["last_ns"] > last for row in told)
        yield Absence(partition, node, first["first_ns"], last, ended, first)


def _nodes(text: str) -> set[int]:
    return {int(node) for node in text.split(",") if node}


def _moved(context: SignalContext, old: int, moves: Sequence[Move]) -> Iterator[Signal]:
    ordered = sorted(moves, key=lambda move: (move.known_ns, move.partition))
    spells = [[ordered[0]]]
    for move in ordered[1:]:
        if move.known_ns - spells[-1][-1].known_ns > APART_NS:
            spells.append([])
        spells[-1].append(move)
    for spell in spells:
        yield _spell(context, old, spell)


def _spell(context: SignalContext, old: int, spell: Sequence[Move]) -> Signal:
    name = context.servers.of_node(old)
    partitions = sorted({move.partition for move in spell})
    new = sorted({move.new for move in spell})
    begin = spell[0].known_ns
    return make_signal(
        "leaders_moved",
        (SubjectKind.SERVER, name),
        (begin, spell[-1].known_ns),
        f"{counted(len(partitions), 'partition')} moved from {name} to {name_nodes(context, new)} "
        f"({_listed(partitions)}), as Metadata tells since {format_clock(begin)}",
        measures={"partitions": len(partitions), "leaders": len(new)},
        topics={topic for topic, _ in partitions},
        evidence=[_evidence(context, name, "another leader", spell[0].row)],
    )


def _out_of_sync(context: SignalContext, node: int, absent: Sequence[Absence]) -> Signal:
    name = context.servers.of_node(node)
    partitions = sorted({one.partition for one in absent})
    begin = min(one.first_ns for one in absent)
    ended = all(one.ended for one in absent)
    last = max(one.last_ns for one in absent)
    until = f" until {format_clock(last)}" if ended else ""
    first = min(absent, key=lambda one: one.first_ns)
    return make_signal(
        "replicas_out_of_sync",
        (SubjectKind.SERVER, name),
        (begin, last if ended else None),
        f"{name} is out of sync for {counted(len(partitions), 'partition')} "
        f"({_listed(partitions)}), as Metadata tells since {format_clock(begin)}{until}",
        measures={"partitions": len(partitions)},
        topics={topic for topic, _ in partitions},
        evidence=[_evidence(context, name, "not in sync", first.row)],
    )


def name_nodes(context: SignalContext, nodes: Sequence[int]) -> str:
    """Return the name of a broker, or the numbers of several."""
    if len(nodes) == 1:
        return context.servers.of_node(nodes[0])
    if len(nodes) <= NAMED:
        return f"brokers {', '.join(map(str, nodes[:-1]))} and {nodes[-1]}"
    return f"brokers {listed([str(node) for node in nodes], NAMED)}"


def _listed(partitions: Sequence[Partition]) -> str:
    return listed([f"{topic}-{number}" for topic, number in partitions], NAMED)


def _evidence(context: SignalContext, subject: str, detail: str, row: Row) -> Evidence:
    return Evidence(
        subject=subject,
        detail=detail,
        count=row["messages"],
        first_time_ns=row["first_ns"],
        last_time_ns=row["last_ns"],
        place=Location(
            time_ns=row["first_ns"],
            connection=row["connection"],
            client_id=None,
            topic=row["name"],
            partition=row["partition"],
            detail=None,
            response_time_ns=row["first_ns"],
            **{name: row[name] for name in ("capture_file", "request_packet", "response_packet")},
            **context.end_of(row["connection"]),
        ),
    )
