"""The partials of a watch's window in memory: those of a chunk of batches are one until one of them leaves.

A report is made after each batch, from all partials of ten minutes. Most of them are small, and merging
hundreds of them each time took longer, and more memory, than all else. Partials add up in any order, so those
of CHUNK batches that follow each other are merged once. When the first batch of a chunk leaves the window,
the partials of the others are read from their files again.
"""

from collections.abc import Callable, Collection, Iterable

from kdissect.report.partials import Partial, merge

CHUNK = 16
"""Batches of a chunk. Twice so many partials at most are in memory one by one: the newest and the oldest."""


class WindowPartials:
    """Partials by batch.

    `read` returns the partial of a batch from its file. Those of `batches`, in order, are read at once.
    """

    def __init__(self, read: Callable[[int], Partial], batches: Iterable[int] = ()) -> None:
        self._read = read
        self._single: dict[int, Partial] = {}
        self._merged: dict[frozenset[int], Partial] = {}
        for batch in batches:
            self.add(batch, read(batch))

    def add(self, batch: int, partial: Partial) -> None:
        """Add the partial of a batch, whose number is higher than all before."""
        self._single[batch] = partial
        if batch % CHUNK == CHUNK - 1:
            chunk = frozenset(one for one in self._single if one // CHUNK == batch // CHUNK)
            self._merged[chunk] = merge([self._single.pop(one) for one in sorted(chunk)])

    def keep(self, batches: Collection[int]) -> None:
        """Forget all batches but these."""
        kept = set(batches)
        for chunk in [chunk for chunk in self._merged if not chunk <= kept]:
            del self._merged[chunk]
            self._single |= {batch: self._read(batch) for batch in sorted(chunk & kept)}
        self._single = {batch: self._single[batch] for batch in sorted(self._single.keys() & kept)}

    def all(self) -> list[Partial]:
        """Return partials that add up to those of all batches."""
        return [*self._merged.values(), *self._single.values()]
