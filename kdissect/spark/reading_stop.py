"""The end of reading before the captures end, when the user has pressed Ctrl-C.

A job of Spark cannot be ended halfway and still return what it has. So its tasks look at numbers that all
processes of the run share, and end by themselves. They lie in files beside those of the run, or with the
driver of a cluster (see `number_log`, `served_numbers`).

    index      stops at once. The indexed part counts as read: both passes read it to its end.
    pass one   stops at once. The splits before the first one that no task scanned count as read.
    pass two   stops at the split that the furthest task has reached, so that all connections end there.

In a local run, pass one is a part of the index: the threads that index captures scan their splits, too (see
`startup.local_scan`). So a stop meanwhile is one of the index, which ends there. Spark's tasks make pass one
of the splits that these threads only indexed.

A stop in pass one takes effect in pass two later: from its first task on, that pass gets as much time as the
reading has taken until then. If a task of pass two has ended already, the others stop where they are, and
tasks that have not begun leave out their connections. A later job of the same run reads the same splits.

Tasks that cannot reach the driver, such as those of a server of Spark Connect behind a gateway, go on to the
end of the captures.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from kdissect.spark.number_log import NumberLog, Numbers

LEAST_SECONDS = 5.0
"""Time that pass two gets at least after a stop in pass one: Spark may still be starting."""

NS_PER_S = 10**9
TO_THE_END = 1 << 62
"""Stands for a split behind the last one: in `reached` a task that has ended, in `settled` no stop."""


class Interruption(NamedTuple):
    """Parts that a run did not read: the splits from an ordinal on, and the connections of some tasks."""

    split: int
    tasks_left_out: int


@dataclass(frozen=True, slots=True)
class ReadingStop:
    """The numbers by which the driver and the tasks agree on the end of reading."""

    index_due: Numbers  # a number if indexing is to stop
    asked: Numbers  # for how long pass two goes on, in ns, once the user wants the reading to end
    due: Numbers  # when pass two stops, in ns of the clock of the driver
    unscanned: Numbers  # splits that tasks of pass one did not scan
    reached: Numbers  # splits that tasks of pass two came to
    ends: Numbers  # splits at which tasks of pass two stopped
    left_out: Numbers  # one number for each task of pass two that did not begin
    settled: Numbers  # the split at which later jobs of the run stop
    agreed: Numbers  # the split at which running tasks of pass two stop
    begun_ns: int

    @classmethod
    def new(cls, folder: Path) -> "ReadingStop":
        """Return a stop that nobody has asked for, whose files lie in a folder."""
        return cls.of(lambda name: NumberLog(str(folder / f"stop-{name}")))

    @classmethod
    def of(cls, log: Callable[[str], Numbers]) -> "ReadingStop":
        """Return a stop that nobody has asked for, with a log for each of its names."""
        due = log("due")
        return cls(
            index_due=log("index-due"),
            asked=log("asked"),
            due=due,
            unscanned=log("unscanned"),
            reached=log("reached"),
            ends=log("ends"),
            left_out=log("left-out"),
            settled=log("settled"),
            agreed=log("agreed"),
            begun_ns=due.clock_ns(),
        )

    def ask_index(self) -> None:
        """Ask for the end of indexing."""
        self.index_due.append(1)

    def ends_index(self) -> bool:
        """Return whether indexing is to stop."""
        return bool(self.index_due.numbers())

    @property
    def is_asked_for(self) -> bool:
        """Return whether the user wants the reading to end."""
        return bool(self.asked.numbers())

    def ask(self) -> None:
        """Ask all tasks to stop."""
        taken_ns = self.due.clock_ns() - self.begun_ns
        is_dissecting = bool(self.reached.numbers())
        self.asked.append(0 if is_dissecting else max(taken_ns, int(LEAST_SECONDS * NS_PER_S)))

    def lets_scan(self, ordinal: int) -> bool:
        """Return whether pass one shall scan a split. Note it if not. The first split is always scanned."""
        if settled := self.settled.numbers():
            return ordinal < settled[0]
        if not ordinal or not self.is_asked_for:
            return True
        self.unscanned.append(ordinal)
        return False

    def reading(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return what a task of pass two shall read of its descriptors, which come in order of splits."""
        if settled := self.settled.numbers():
            yield from (batch for batch in batches if _ordinal(batch) < settled[0])
            return
        if self._is_due() and self.reached.numbers():
            self.left_out.append(1)
            return
        limit = min(self.unscanned.numbers(), default=TO_THE_END)
        has_begun = False
        for batch in batches:
            ordinal = _ordinal(batch)
            self.reached.append(ordinal)
            if self._is_due():
                limit = min(limit, self._agree(ordinal))
            if ordinal >= limit:
                self.ends.append(limit)
                return
            has_begun = True
            yield batch
        if has_begun:
            self.reached.append(TO_THE_END)

    def settle(self) -> Interruption | None:
        """Return what the job that has ended did not read; None if it read everything.

        Later jobs of the run leave out the same splits. Without a stop, they may still be stopped.
        """
        if not self.is_asked_for:
            self.reached.forget()
            self.ends.forget()
            return None
        if not self.settled.numbers():
            ends = self.ends.numbers() or [min(self.unscanned.numbers(), default=TO_THE_END)]
            self.settled.append(max(ends))
        split, tasks = self.settled.numbers()[0], len(self.left_out.numbers())
        return Interruption(split, tasks) if split < TO_THE_END or tasks else None

    def _is_due(self) -> bool:
        """Return whether pass two is to stop. The time that it still has begins with its first task."""
        asked = self.asked.numbers()
        if not asked:
            return False
        now = self.due.clock_ns()
        return now >= self.due.first(now + asked[0])

    def _agree(self, ordinal: int) -> int:
        """Return the split at which a task stops that has come to the split `ordinal`.

        Every task notes where it is before it looks whether it shall stop. So no task is beyond the split
        that the first one to look finds here.
        """
        reached = self.reached.numbers()
        if TO_THE_END in reached:
            return ordinal
        return self.agreed.first(max(reached, default=ordinal) + 1)


def _ordinal(batch: pa.RecordBatch) -> int:
    return int(batch["split"][batch.num_rows - 1].as_py()) if batch.num_rows else 0
