"""Lists that end somewhere: the rows that are kept, and how many were left out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Limited(Generic[Row]):
    """The first rows of a list in its order, and the number of further rows that are not here."""

    rows: tuple[Row, ...]
    omitted: int


def limited(rows: Sequence[Row], most: int) -> Limited[Row]:
    """Return the first `most` of rows."""
    return Limited(tuple(rows[:most]), max(len(rows) - most, 0))
