"""State that the handlers of one pass share, except the target: time, ended requests, notes, order of reads.

One of each lives as long as one pass over the captured requests.

A read or a commit waits for produces and for ends of transactions, and a produce for share groups that begin
to read before it (`ReadOrder`). In: what the capture tells (`CapturedReads`, `CapturedShares`), and which
requests have ended (`RequestGates`). Out: the first request that is still missing. Produces of a partition
are looked at in the order of their captured offsets, and each of them once.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kdissect.protocol.api_keys import FETCHES
from kdissect.protocol.api_mask import in_apis
from kdissect.replay.effects import Gate
from kdissect.replay.identifiers import TopicPartition
from kdissect.replay.load.captured_reads import CapturedReads
from kdissect.replay.load.captured_shares import CapturedShares
from kdissect.replay.load.replay_items import ReplayItem, column_blocks
from kdissect.replay.load.request_table import ROWS_AT_ONCE, Interned, V
from kdissect.replay.request_numbers import RequestNumbers


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
        self._ended = RequestNumbers(np.uint8)  # 1 for each request that has ended
        self._count = 0
        self._own: NDArray[np.bool_] | None = None  # whether this process sends each request; None: it does

    def limit_to(self, indices: NDArray[np.int64]) -> None:
        """Note which requests this process sends, if it does not send all."""
        self._own = np.zeros(int(indices.max(initial=-1)) + 1, np.bool_)
        self._own[indices] = True

    def __len__(self) -> int:
        """Return how many requests have ended."""
        return self._count

    def gate(self, index: int) -> Gate | None:
        """Return a gate that opens when a request ends; None if it has ended."""
        if self.has_ended(index):
            return None
        return self._gates.setdefault(index, Gate())

    def own_gate(self, index: int) -> Gate | None:
        """Return the gate of a request; None also if another process sends it, whose ends nobody tells."""
        return self.gate(index) if self.is_own(index) else None

    def is_own(self, index: int) -> bool:
        """Return whether this process sends a request."""
        return self._own is None or bool(index < len(self._own) and self._own[index])

    def has_ended(self, index: int) -> bool:
        """Return whether a request has ended, sent or skipped."""
        ended = self._ended.values
        return index < len(ended) and ended[index] == 1

    def unended(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which of some requests have not ended."""
        ended = self._ended.column(int(indices.max(initial=-1)) + 1)
        unended: NDArray[np.int64] = indices[ended[indices] == 0]
        return unended

    def end(self, index: int) -> None:
        """Note that a request has ended, and let those go on that wait for it."""
        ended = self._ended.room(index)
        self._count += 1 - ended[index]
        ended[index] = 1
        if self._gates:
            gate = self._gates.pop(index, None)
            if gate is not None:
                gate.open()

    def end_all(self, indices: NDArray[np.int64]) -> None:
        """Note that many requests have ended, none of them earlier."""
        if not len(indices):
            return
        self._ended.column(int(indices.max()) + 1)[indices] = 1
        self._count += len(indices)
        if self._gates:
            waited_for = np.fromiter(self._gates, np.int64, len(self._gates))
            for index in waited_for[np.isin(waited_for, indices)].tolist():
                self._gates.pop(index).open()


class RequestValues(MutableMapping[int, V]):
    """Values of requests, by index. Most are equal to others, and each is kept once."""

    def __init__(self) -> None:
        self._numbers = RequestNumbers(np.int32)  # in `_values`, counted from 1; 0: none
        self._values = Interned[V]()
        self._count = 0

    def __getitem__(self, index: int) -> V:
        if index not in self:
            raise KeyError(index)
        return self._values.values[self._numbers[index] - 1]

    def __setitem__(self, index: int, value: V) -> None:
        self.put(index, self.number_of(value))

    def number_of(self, value: V) -> int:
        """Return the number of a value, for `put`."""
        return self._values.number(value) + 1

    def put(self, index: int, number: int) -> None:
        """Set the value of a request by its number."""
        numbers = self._numbers.room(index)
        if not numbers[index]:
            self._count += 1
        numbers[index] = number

    def __delitem__(self, index: int) -> None:
        if index not in self:
            raise KeyError(index)
        self._count -= 1
        self._numbers[index] = 0

    def __contains__(self, index: object) -> bool:
        numbers = self._numbers.values
        return isinstance(index, int) and 0 <= index < len(numbers) and numbers[index] > 0

    def __iter__(self) -> Iterator[int]:
        return iter(np.flatnonzero(self.numbered()[0]).tolist())

    def __len__(self) -> int:
        return self._count

    def numbered(self) -> tuple[NDArray[np.int32], Sequence[V]]:
        """Return for each request the number of its value, counted from 1 (0: none), and all values."""
        return self._numbers.column(), self._values.values

    def add_all(self, other: "RequestValues[V]") -> None:
        """Set all values of another one."""
        theirs, values = other.numbered()
        numbers = np.array([0, *(self._values.number(value) + 1 for value in values)], np.int32)
        own = self._numbers.column(len(theirs))
        for begin in range(0, len(theirs), ROWS_AT_ONCE):
            requests = begin + np.flatnonzero(theirs[begin : begin + ROWS_AT_ONCE])
            self._count += int((own[requests] == 0).sum())
            own[requests] = numbers[theirs[requests]]


def add_values(into: MutableMapping[int, V], values: Mapping[int, V]) -> None:
    """Set values of requests, many at once if both are `RequestValues`."""
    if isinstance(into, RequestValues) and isinstance(values, RequestValues):
        into.add_all(values)
    else:
        into.update(values)


Texts = tuple[str, ...]
Batches = tuple[tuple[str, int], ...]  # partition, records


@dataclass(slots=True)
class PassNotes:
    """Notes for the run's files: rewrites, batches as sent, counts of what the replayer did."""

    by_request: RequestValues[Texts] = field(default_factory=RequestValues)
    produced: RequestValues[Batches] = field(default_factory=RequestValues)  # as sent
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, item: ReplayItem, text: str) -> None:
        """Note how a request was rewritten."""
        index = item.request.index
        self.by_request[index] = (*self.by_request.get(index, ()), text)

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

    def __init__(self, captured: CapturedReads, shares: CapturedShares, gates: RequestGates) -> None:
        self.captured, self._shares, self._gates = captured, shares, gates
        # How many produces of a partition have ended, from the first of an incarnation of its topic on.
        self._ended: dict[tuple[TopicPartition, int], int] = {}

    def missing_write(self, partition: TopicPartition, offset: int, index: int) -> int | None:
        """Return a produce that wrote before a captured offset and has not ended; None if all have.

        The offset is that of a request: the topic may be deleted and created again later.
        """
        incarnation = self.captured.incarnation(partition[0], index)
        requests, wanted = self.captured.writers_before(partition, offset, incarnation)
        ended = self._ended.get((partition, incarnation), 0)
        if ended >= wanted:
            return None
        while ended < wanted and self._gates.has_ended(requests[ended]):
            ended += 1
        self._ended[partition, incarnation] = ended
        return requests[ended] if ended < wanted else None

    def missing_write_to(self, topic: str, index: int) -> int | None:
        """Return a produce to a topic before a request that has not ended; None if all have."""
        for requests in self.captured.writers_of(topic):
            earlier = np.array(requests, np.int64)
            unended = self._gates.unended(earlier[earlier < index])
            if len(unended):
                return int(unended.max())  # when the last one has ended, most others have
        return None

    def missing_fetch(self, items: Sequence[ReplayItem], index: int) -> int | None:
        """Return the last fetch that had been answered before a request was sent and has not ended.

        None if all have. Partitions of a fetch are known by its session only, so those of other topics count.
        """
        sent_ns, last = items[index].request.first_ns, None
        for keys, answered_ns, sent, indices in column_blocks(
            items[:index], "key", "answered_ns", "sent", "index"
        ):
            earlier = in_apis(keys, FETCHES) & sent & (answered_ns >= 0) & (answered_ns <= sent_ns)
            unended = self._gates.unended(indices[earlier])[::-1].tolist()
            last = next((each for each in unended if self._gates.is_own(each)), last)
        return last

    def missing_before(self, index: int) -> int | None:
        """Return a request that a fetch or a commit comes after and that has not ended; None if all have."""
        before = self.captured.before.get(index, ())
        return next((each for each in before if not self._gates.has_ended(each)), None)

    def missing_of_answer(self, index: int) -> int | None:
        """Return a request that the captured answer of a fetch needs; None if all have ended."""
        read = self.captured.reads(index)
        missing = self._missing_of(index, ((partition, each.following) for partition, each in read.items()))
        return self.missing_before(index) if missing is None else missing

    def missing_of_shared(self, index: int) -> int | None:
        """Return a produce of what a fetch of a share group was handed out; None if all have ended."""
        acquired = self._shares.acquired(index)
        return self._missing_of(index, ((partition, each.following) for partition, each in acquired.items()))

    def _missing_of(self, index: int, followings: Iterable[tuple[TopicPartition, int]]) -> int | None:
        """Return a produce that wrote before one of these captured offsets and has not ended."""
        missing = (self.missing_write(partition, offset, index) for partition, offset in followings)
        return next((each for each in missing if each is not None), None)

    @property
    def awaits_begins(self) -> bool:
        """Return whether any request waits for a fetch by which a share group begins to read."""
        return self._shares.has_begins

    def missing_begin(self, partitions: Iterable[TopicPartition], sent_ns: int) -> int | None:
        """Return a fetch by which a share group begins to read partitions before they are written.

        `sent_ns` is the captured time of the writing. None if all such fetches have ended.
        """
        for partition in partitions:
            for index in self._shares.begins(partition, sent_ns):
                if not self._gates.has_ended(index):
                    return index
        return None
