"""The partials of a watch's window in memory: those of a chunk of batches are one until one of them leaves.

A report is made after each batch, from all partials of ten minutes. Most of them are small, and merging
hundreds of them each time took longer, and more memory, than all else. Partials add up in any order, so those
of CHUNK batches that follow each other are merged once. When the first batch of a chunk leaves the window,
the partials of the others are read from their files again.
"""

from collections.abc import Callable, Collection

from kdissect.report.partials import Partial, merge

CHUNK = 16
"""Batches whose partials are merged: so many at most are in memory one by one, new ones and old ones."""


class WindowPartials:
    """Partials by batch; `read` returns that of a batch that was added before."""

    def __init__(self, read: Callable[[int], Partial]) -> None:
        self._read = read
        self._single: dict[int, Partial] = {}
        self._merged: dict[frozenset[int], Partial] = {}

    def add(self, batch: int, partial: Partial) -> None:
        """Add the partial of a batch, whose number is higher than all before."""
        self._single[batch] = partial
        chunk = frozenset(one for one in self._single if one // CHUNK == batch // CHUNK)
        if batch % CHUNK == CHUNK - 1:
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
