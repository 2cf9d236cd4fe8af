"""One thread that works on values while the next ones are made.

Most of the time of figures goes to NumPy, Arrow and compiled loops, during which other threads run.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def mapped_beside(work: Callable[[T], R], values: Iterable[T]) -> Iterator[R]:
    """Return the results of a function for values, in order.

    A thread computes a result while the value behind it is made. So there are two values at a time. An error
    of either comes out here.
    """
    with ThreadPoolExecutor(1) as thread:
        under_way: Future[R] | None = None
        for value in values:
            if under_way is not None:
                yield under_way.result()
            under_way = thread.submit(work, value)
            del value  # or it would stay while the next one is made
        if under_way is not None:
            yield under_way.result()
