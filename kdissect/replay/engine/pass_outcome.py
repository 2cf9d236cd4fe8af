"""What a pass leaves behind: all that its files are made from, from one process or added up from several."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from kdissect.replay.engine.pass_results import ResultTable
from kdissect.replay.engine.player import Player
from kdissect.replay.identifiers import TopicPartition
from kdissect.replay.net.pool import PoolCounters
from kdissect.replay.target.offsets import Rule


@dataclass(slots=True)
class PassOutcome:
    """One pass, or the part of it that one process played."""

    results: ResultTable = field(default_factory=ResultTable)
    notes: dict[int, list[str]] = field(default_factory=dict)
    produced: dict[int, list[tuple[str, int]]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    rules: dict[TopicPartition, Counter[Rule]] = field(default_factory=dict)
    clamped: int = 0
    open_transactions: list[str] = field(default_factory=list)
    tallies: PoolCounters = field(default_factory=PoolCounters)
    stopped: str = ""  # why it was ended early
    peak_in_flight: int = 0  # of several processes the sum of their peaks
    peak_lines: int = 0


def outcome_of(player: Player) -> PassOutcome:
    """Give what a player that has ended leaves behind."""
    context = player.context
    return PassOutcome(
        player.results,
        context.notes.by_request,
        context.notes.produced,
        context.notes.counts,
        context.positions.used,
        context.positions.clamped,
        sorted(map(context.names.transactional, context.transactions.open)),
        player.board.tallies,
        player.stopped,
        player.peak_in_flight,
        player.peak_lines,
    )


def merge_outcomes(outcomes: Sequence[PassOutcome]) -> PassOutcome:
    """Add up what several processes left."""
    whole = PassOutcome()
    for number, each in enumerate(outcomes):
        whole.results.extend(each.results, number)
        whole.notes |= each.notes
        whole.produced |= each.produced
        whole.counts += each.counts
        for where, rules in each.rules.items():
            whole.rules.setdefault(where, Counter()).update(rules)
        whole.clamped += each.clamped
        whole.open_transactions = sorted({*whole.open_transactions, *each.open_transactions})
        whole.tallies.add(each.tallies)
        whole.stopped = whole.stopped or each.stopped
        whole.peak_in_flight += each.peak_in_flight
        whole.peak_lines += each.peak_lines
    return whole
