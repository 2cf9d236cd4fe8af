"""Put the instructions of a program together: a table of integers, with the field path of each.

`program` says which instructions a message needs, `vm` runs them.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Op(IntEnum):
    """The operations, with what their numbers mean; `keep` and `keep too` are registers, or -1.

    Up to RECORDS they take a value of some size; from SIZED on its length, or the count of elements, stands
    before it.
    """

    SKIP = 0  # size
    FIXED = 1  # size, keep, keep too, 1 to keep only the first: bytes of a fixed size
    INTEGER = 2  # size (negative: unsigned), keep, keep too, first
    ERROR = 3  # size, keep, keep too, first: an error code, which is counted
    SIZED = 4  # prefix, keep, keep too, first: bytes with their length in front, or null
    STEP = 5  # prefix, size of an element: an array of elements of one size
    RECORDS = 6  # prefix, keep, keep too, first: a records field, whose batch headers are read
    ARRAY = 7  # prefix, row behind the array, smallest element, depth: opens a loop
    NEXT = 8  # first row of the element, -, -, depth: closes a loop
    OPTION = 9  # row behind the struct: a struct that may be null (KIP-893)
    TAGS = 10  # row behind the section, -, -, depth: opens a section of tagged fields
    TAG = 11  # row behind the section, cases, -, depth: reads a tag and finds its case among the next rows
    CASE = 12  # tag, row of its field
    END_TAG = 13  # row of the TAG, -, -, depth
    ENTER = 14  # row registers to forget, 1 if a topic begins
    ROW = 15  # emit a partition
    TOPIC = 16  # a topic ends: emit it if it had no partition
    NODE = 17  # emit a broker
    FALLBACK = 18  # row: go there if the next int16 is 35, see API_VERSIONS
    END = 19  # zero bytes that may follow: the message must end here; NOT_KNOWN: what follows is not known
    BLOCK = 20  # size, rows: if that many bytes are there, the next rows need no checks; see `with_blocks`


NOT_KNOWN = -1


class Prefix(IntEnum):
    """How a length or count is written: as a fixed integer of this size, or as a varint one too high."""

    VARINT = 0
    INT16 = 2
    INT32 = 4


class Program(NamedTuple):
    """The instructions of one message in one version, and the field path each belongs to."""

    table: NDArray[np.int64]  # shape (rows, 5)
    paths: tuple[str, ...]


# Keys are members of `Op`, and rows have their numbers, which are equal to them.
FIXED_SIZES: frozenset[int] = frozenset({Op.SKIP, Op.FIXED, Op.INTEGER, Op.ERROR})
JUMPS: dict[int, int] = {
    **dict.fromkeys((Op.NEXT, Op.OPTION, Op.TAGS, Op.TAG, Op.END_TAG, Op.FALLBACK), 1),
    **dict.fromkeys((Op.ARRAY, Op.CASE), 2),
}
"""The number that is a row, counted from 1."""


def with_blocks(program: Program) -> Program:
    """Return a program with a BLOCK before each run of two and more fields of a fixed size.

    A block is checked once. If its bytes are not all there, its rows are run one by one, so that a fault
    names the field that has it.
    """
    rows: list[list[int]] = program.table.tolist()
    targets = {row[JUMPS[row[0]]] for row in rows if row[0] in JUMPS}
    stops = _ends_of_runs(rows, targets)
    place_of: list[int] = []
    made: list[list[int]] = []
    paths: list[str] = []
    for number, row in enumerate(rows):
        stop = stops[number]
        follows = number > 0 and number not in targets and rows[number - 1][0] in FIXED_SIZES
        place_of.append(len(made))
        if stop - number > 1 and not follows:
            size = sum(abs(one[1]) for one in rows[number:stop])
            made.append([int(Op.BLOCK), size, stop - number, 0, 0])
            paths.append(program.paths[number])
        made.append(row)
        paths.append(program.paths[number])
    place_of.append(len(made))
    for row in made:
        if row[0] in JUMPS:
            row[JUMPS[row[0]]] = place_of[row[JUMPS[row[0]]]]
    return Program(np.array(made, np.int64), tuple(paths))


def _ends_of_runs(rows: list[list[int]], targets: set[int]) -> list[int]:
    """Return for each row the one behind the fields of a fixed size that follow each other from it on."""
    stops = [*range(len(rows) + 1)]
    for number in reversed(range(len(rows))):
        if rows[number][0] in FIXED_SIZES:
            stops[number] = number + 1 if number + 1 in targets else max(number + 1, stops[number + 1])
    return stops


def show(program: Program) -> str:
    """Return a program as text, one instruction per line."""
    lines = []
    for number, (row, path) in enumerate(zip(program.table.tolist(), program.paths, strict=True)):
        numbers = " ".join(str(number) for number in row[1:])
        lines.append(f"{number} {Op(row[0]).name} {numbers} {path}".rstrip())
    return "\n".join(lines)


class Assembler:
    """Collects the rows of a program; rows that are jumped to are filled in when they are known."""

    def __init__(self) -> None:
        self.rows: list[list[int]] = []
        self.paths: list[str] = []

    @property
    def here(self) -> int:
        """Return the number of the next row."""
        return len(self.rows)

    def add(self, op: Op, path: str, *numbers: int) -> int:
        """Add a row, and return its number."""
        self.rows.append([op, *numbers, *[0] * (4 - len(numbers))])
        self.paths.append(path)
        return self.here - 1

    def set(self, row: int, number: int, value: int) -> None:
        """Fill in a number of a row."""
        self.rows[row][1 + number] = value

    def taken_back(self, start: int) -> list[list[int]]:
        """Remove the rows from `start` on, and return them."""
        rows = self.rows[start:]
        del self.rows[start:], self.paths[start:]
        return rows

    def program(self) -> Program:
        """Return the rows collected so far as a program."""
        return Program(np.array(self.rows, np.int64), tuple(self.paths))
