"""Work beside the making of values: the same results in the same order, and errors of both sides."""

import threading
from collections.abc import Iterator

import pytest

from kdissect.spark.counting_thread import mapped_beside


def test_results_are_those_of_a_map() -> None:
    assert list(mapped_beside(str, range(5))) == ["0", "1", "2", "3", "4"]
    assert list(mapped_beside(str, [])) == []


def test_a_value_is_worked_on_while_the_next_one_is_made() -> None:
    begun = threading.Event()

    def values() -> Iterator[int]:
        yield 1
        assert begun.wait(10)
        yield 2

    def work(value: int) -> int:
        begun.set()
        return value

    assert list(mapped_beside(work, values())) == [1, 2]


def test_errors_come_out() -> None:
    def values() -> Iterator[int]:
        yield 1
        raise LookupError

    with pytest.raises(LookupError):
        list(mapped_beside(str, values()))
    with pytest.raises(ZeroDivisionError):
        list(mapped_beside(lambda value: 1 // value, [1, 0, 1]))
