"""A process that consumes items: all of them in order, errors of both sides, and no process that stays."""

import os
from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from kdissect.array_types import Bytes
from kdissect.forked_process import ProcessLostError
from kdissect.spark.consumer_process import PLACE_BYTES, ConsumerProcess

SIZES = (0, 1, 1000, PLACE_BYTES + 1, 7, PLACE_BYTES, PLACE_BYTES // 2, 63, 64, 65)


def lent(number: int) -> list[Bytes]:
    """Return arrays; some are larger together than the place that they may have."""
    return [np.full(size, number + place, np.uint8) for place, size in enumerate((SIZES[number], 3, 70))]


def sums(items: Iterator[tuple[list[Bytes], str]]) -> list[tuple[str, list[int], int]]:
    return [
        (given, [int(array.sum()) for array in arrays], sum(array.ctypes.data % 8 for array in arrays))
        for arrays, given in items
    ]


def test_all_items_come_in_order_and_their_arrays_are_aligned() -> None:
    with ConsumerProcess(sums) as process:
        for number in range(len(SIZES)):
            process.put(lent(number), f"item {number}")
        found = process.result()
    assert found == [
        (f"item {number}", [int(array.sum()) for array in lent(number)], 0) for number in range(len(SIZES))
    ]


def test_it_is_another_process_and_it_ends() -> None:
    def consume(items: Iterator[tuple[None, None]]) -> tuple[int, int]:
        return sum(1 for _ in items), os.getpid()

    with ConsumerProcess(consume) as process:
        process.put(None, None)
        count, number = process.result()
    assert count == 1
    assert number != os.getpid()
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def fail(items: Iterator[tuple[int, None]]) -> None:
    for number, _ in items:
        if number == 3:
            raise LookupError("three")
        if number == 4:
            os._exit(1)


def put_all(numbers: Iterable[int]) -> None:
    """Put numbers, and ask for the result."""
    with ConsumerProcess(fail) as process:
        for number in numbers:
            process.put(number, None)
        process.result()


@pytest.mark.parametrize(("last", "error"), [(3, LookupError), (4, ProcessLostError)])
def test_the_end_of_the_process_reaches_this_one(last: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        put_all((1, last))
    with pytest.raises(error) as found:
        put_all((1, last, *range(10, 90)))
    notes = getattr(found.value, "__notes__", [])
    assert len(notes) == (error is LookupError)
    assert all('raise LookupError("three")' in note for note in notes)


def test_it_ends_when_this_side_fails() -> None:
    ends, told = os.pipe()

    def wait(items: Iterator[tuple[int, None]]) -> None:
        os.close(ends)
        list(items)

    def leave() -> None:
        with ConsumerProcess(wait) as process:
            process.put(1, None)
            os.close(told)
            raise LookupError

    with pytest.raises(LookupError):
        leave()
    assert os.read(ends, 1) == b""  # all ends of the pipe that the process inherited are closed
    os.close(ends)
