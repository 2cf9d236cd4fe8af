"""Bytes of an array that stand in a file, and are read when somebody looks at them.

A row of the table says that array[BEGIN:END] are to be the bytes of the file DESCRIPTOR from PLACE on. Rows
ascend and do not overlap. Bytes that belong to no row are there.

A loop asks for the bytes that it is about to look at: for whole rows, of which each is read once and noted as
READ, or for just some bytes, which are read each time. A row whose file ends before it becomes SHORTER, and
the loop goes on with whatever lies in the array: the caller looks for that behind the loop (`is_shorter`).
"""

import numpy as np

from kdissect.array_types import Bytes, Int64s
from kdissect.jit.decorators import jit_inner, read_file

BEGIN, END, PLACE, DESCRIPTOR, UNREAD_FIELDS = range(5)
READ, SHORTER = -1, -2  # instead of a descriptor

NOTHING_UNREAD: Int64s = np.empty((0, UNREAD_FIELDS), np.int64)
NO_ARRAY: Bytes = np.empty(0, np.uint8)  # stands beside it for the array


def is_shorter(unread: Int64s) -> bool:
    """Return whether a file has ended before bytes that somebody has looked at."""
    return bool((unread[:, DESCRIPTOR] == SHORTER).any())


@jit_inner
def read_whole(descriptor: int, target: Bytes, at: int, count: int, offset: int) -> bool:
    """Fill a part of an array from a file; return False if the file ends before that."""
    got = 0
    while got < count:
        more = read_file(descriptor, target, at + got, count - got, offset + got)
        if more <= 0:
            return False
        got += more
    return True


@jit_inner
def first_row(unread: Int64s, offset: int) -> int:
    """Return the first row that ends behind an offset, or the number of rows."""
    low, high = 0, len(unread)
    while low < high:
        middle = (low + high) // 2
        if unread[middle, END] <= offset:
            low = middle + 1
        else:
            high = middle
    return low


@jit_inner
def read_rows(unread: Int64s, array: Bytes, begin: int, end: int) -> int:
    """Read the rows that have some of array[begin:end]. Return how many were not read before."""
    count = 0
    for row in range(first_row(unread, begin), len(unread)):
        if unread[row, BEGIN] >= end:
            break
        descriptor, first = unread[row, DESCRIPTOR], unread[row, BEGIN]
        if descriptor >= 0:
            is_there = read_whole(descriptor, array, first, unread[row, END] - first, unread[row, PLACE])
            unread[row, DESCRIPTOR] = READ if is_there else SHORTER
            count += 1
    return count


@jit_inner
def read_bytes(unread: Int64s, array: Bytes, begin: int, end: int) -> None:
    """Read array[begin:end], and nothing else of the rows that have some of it."""
    for row in range(first_row(unread, begin), len(unread)):
        if unread[row, BEGIN] >= end:
            break
        descriptor = unread[row, DESCRIPTOR]
        first, stop = max(begin, unread[row, BEGIN]), min(end, unread[row, END])
        place = unread[row, PLACE] + first - unread[row, BEGIN]
        if descriptor >= 0 and not read_whole(descriptor, array, first, stop - first, place):
            unread[row, DESCRIPTOR] = SHORTER


@jit_inner
def is_all_there(unread: Int64s, begin: int, end: int) -> bool:
    """Return whether no row that was not read has some of the bytes between two offsets."""
    for row in range(first_row(unread, begin), len(unread)):
        if unread[row, BEGIN] >= end:
            break
        if unread[row, DESCRIPTOR] >= 0:
            return False
    return True
