"""What the handlers of one pass share beside the target: time, requests that have ended, notes.

One of each lives as long as one pass over the captured requests.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from kdissect.replay.effects import Gate
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
    """What is noted for the run's files: rewrites, batches as sent, counts of what the replayer did."""

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
