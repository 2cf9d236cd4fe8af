"""State that the handlers of one pass share, except the target: time, ended requests, notes, order of reads.

One of each lives as long as one pass over the captured requests.

A read or a commit waits for produces and for ends of transactions (`ReadOrder`). In: what the capture tells
(`CapturedReads`), and which requests have ended (`RequestGates`). Out: the first request that is still
missing. Produces of a partition are looked at in the order of their captured offsets, and each of them
once.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from kdissect.replay.effects import Gate
from kdissect.replay.identifiers import TopicPartition
from kdissect.replay.load.captured_reads import CapturedReads
from kdissect.replay.load.replay_items import ReplayItem


@dataclass(slots=True)
class RunClock:
    """The time of the run.

    `shift_ns` is known when the pass begins: it leads from a captured time to the run's, by time of day.
    """

    now_ns: Callable[[], int]  # on a clock that never steps
    shift_ns: int = 0

    @property
    def shift_ms(self) -> int:
        """The shift in the unit of record timestamps."""
        return self.shift_ns // 1_000_000

    def deadline_ns(self, seconds: float) -> int:
        """Return the time that lies so many seconds ahead."""
        return self.now_ns() + int(seconds * 1e9)


class RequestGates:
    """Which captured requests have ended, and a gate for each that others wait for."""

    def __init__(self) -> None:
        self._gates: dict[int, Gate] = {}
        self._ended: set[int] = set()

    def __len__(self) -> int:
        """Return how many requests have ended."""
        return len(self._ended)

    def gate(self, index: int) -> Gate | None:
        """Return a gate that opens when a request ends; None if it has ended."""
        if index in self._ended:
            return None
        return self._gates.setdefault(index, Gate())

    def has_ended(self, index: int) -> bool:
        """Return whether a request has ended, sent or skipped."""
        return index in self._ended

    def end(self, index: int) -> None:
        """Note that a request has ended, and let those go on that wait for it."""
        self._ended.add(index)
        gate = self._gates.pop(index, None)
        if gate is not None:
            gate.open()


@dataclass(slots=True)
class PassNotes:
    """Notes for the run's files: rewrites, batches as sent, counts of what the replayer did."""

    by_request: dict[int, list[str]] = field(default_factory=dict)
    produced: dict[int, list[tuple[str, int]]] = field(
        default_factory=dict
    )  # request -> (partition, records)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, item: ReplayItem, text: str) -> None:
        """Note how a request was rewritten."""
        self.by_request.setdefault(item.request.index, []).append(text)

    def add_split(self, item: ReplayItem, leaders: int) -> None:
        """Note that a request was split for several leaders."""
        if leaders > 1:
            self.counts["split"] += 1
            self.add(item, f"split for {leaders} leaders")

    def forget(self, index: int) -> None:
        """Drop the notes on a request that is rewritten anew, since it is noted anew."""
        self.by_request.pop(index, None)


class ReadOrder:
    """The order between writes and reads of one pass."""

    def __init__(self, captured: CapturedReads, gates: RequestGates) -> None:
        self.captured, self._gates = captured, gates
        self._ended: dict[TopicPartition, int] = {}  # how many produces have ended, from the first on

    def missing_write(self, partition: TopicPartition, offset: int) -> int | None:
        """Return a produce that wrote before a captured offset and has not ended; None if all have."""
        requests, wanted = self.captured.writers_before(partition, offset)
        ended = self._ended.get(partition, 0)
        if ended >= wanted:
            return None
        while ended < wanted and self._gates.has_ended(requests[ended]):
            ended += 1
        self._ended[partition] = ended
        return requests[ended] if ended < wanted else None

    def missing_before(self, index: int) -> int | None:
        """Return a request that a fetch or a commit comes after and that has not ended; None if all have."""
        before = self.captured.before.get(index, ())
        return next((each for each in before if not self._gates.has_ended(each)), None)

    def missing_of_answer(self, index: int) -> int | None:
        """Return a request that the captured answer of a fetch needs; None if all have ended."""
        for partition, read in self.captured.reads(index).items():
            missing = self.missing_write(partition, read.following)
            if missing is not None:
                return missing
        return self.missing_before(index)
