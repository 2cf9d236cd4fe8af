"""`replay.request_numbers`: a number for each request, however far its index is."""

from __future__ import annotations

import pickle
from random import Random

import numpy as np
import pytest

from kdissect.replay.request_numbers import RequestNumbers


@pytest.mark.parametrize("kind", [np.uint8, np.int32])
def test_numbers_are_those_that_were_set_and_0_elsewhere(kind: type) -> None:
    chance, numbers, wanted = Random(3), RequestNumbers(kind), dict[int, int]()
    for _ in range(300):
        index = chance.randrange(1 << chance.randrange(12))
        if chance.random() < 0.5:
            numbers[index] = wanted[index] = chance.randrange(200)
        assert numbers[index] == wanted.get(index, 0)
    again = pickle.loads(pickle.dumps(numbers))
    again[5000] = 7
    assert (again[5000], numbers[5000]) == (7, 0)
    for each in (numbers, again):
        assert all(each[index] == number for index, number in wanted.items())
    assert pickle.loads(pickle.dumps(RequestNumbers(kind)))[0] == 0


def test_the_column_shows_numbers_and_takes_them() -> None:
    numbers = RequestNumbers(np.int32)
    numbers[2] = 5
    assert numbers.column().tolist()[:3] == [0, 0, 5]
    numbers.column(10)[9] = 6
    assert (numbers[9], len(numbers) >= 10) == (6, True)
