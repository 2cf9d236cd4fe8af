"""Order is exact whatever the memory, and memory is bounded whatever the disorder."""

from random import Random

import pytest

from kdissect.exchanges.external_sort import ENTRY_BYTES, ExternalSort


def key(number: int) -> tuple[int, int, int, int, int]:
    return number, 0, 0, 0, 0


@pytest.mark.parametrize("memory_bytes", [0, 5_000, 1 << 20])
@pytest.mark.slow
def test_what_comes_almost_in_order_leaves_in_order(memory_bytes: int) -> None:
    rng = Random(5)
    order = ExternalSort(memory_bytes)
    numbers = sorted(range(3000), key=lambda number: number + rng.randrange(200))
    given: list[int] = []
    for at, number in enumerate(numbers):
        order.add(key(number), b"%d" % number)
        if at % 100 == 0:
            given += map(int, order.pop_before(min(numbers[at + 1 :])))
            assert all(number in numbers[: at + 1] for number in given)
    given += map(int, order.pop_before(None))
    assert given == list(range(3000))
    order.close()


def test_one_entry_that_blocks_all_others_costs_disk_and_not_memory() -> None:
    order = ExternalSort(memory_bytes=20_000)
    payload = b"x" * 600
    for number in range(1, 2001):
        order.add(key(number), payload)
        assert sum(len(payload) + ENTRY_BYTES for _, payload in order._waiting) <= 21_000
        assert not list(order.pop_before(1))
    assert len(order._waiting) + len(order._runs) < 2000 * 1000 / 20_000 + 25
    order.add(key(0), b"first")
    assert next(order.pop_before(None)) == b"first"
    assert list(order.pop_before(1000)) == [payload] * 999
    assert list(order.pop_before(None)) == [payload] * 1001
    order.close()


def test_the_file_is_emptied_when_nothing_waits_in_it() -> None:
    order = ExternalSort(memory_bytes=0)
    for round in range(3):
        order.add(key(round), b"payload")
        assert list(order.pop_before(None)) == [b"payload"]
        assert order._file is not None
        assert order._file.seek(0, 2) == 0
    order.close()


def test_an_equal_time_is_not_before() -> None:
    order = ExternalSort()
    order.add(key(5), b"five")
    assert not list(order.pop_before(5))
    assert list(order.pop_before(6)) == [b"five"]


@pytest.mark.parametrize("memory_bytes", [0, 1 << 20])
def test_what_is_added_while_others_leave_has_its_place(memory_bytes: int) -> None:
    order = ExternalSort(memory_bytes)
    for number in (1, 5):
        order.add(key(number), b"%d" % number)
    leaving = order.pop_before(None)
    given = [next(leaving)]
    order.add(key(3), b"3")
    assert [*given, *leaving] == [b"1", b"3", b"5"]
    order.close()
