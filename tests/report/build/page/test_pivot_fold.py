"""Rows that are added up at once give what a loop over them gives."""

import random
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pytest

from kdissect.report.build.page.page_names import NO_REF, NOT_SINGLED_OUT
from kdissect.report.build.page.pivot_fold import FoldRows, Slot, fold, text_lengths
from kdissect.report.build.page.size_budget import json_size

SUMS, LARGEST = 5, 2


def folded_one_by_one(
    slots: Sequence[Slot], rows: Sequence[tuple[Any, ...]], clients: int, others: Collection[int], rest: bool
) -> tuple[list[Slot], list[list[Any]]]:
    """Add up the plain way."""
    numbers: dict[Slot, int] = {}
    result: dict[tuple[int, int, int], dict[int, tuple[list[int], dict[int, list[Any]]]]] = {}
    for (client, broker, other), (api, idle, step, cell, ref, sums) in zip(slots, rows, strict=True):
        if not rest and other not in others:
            continue
        who = client if client < clients else NOT_SINGLED_OUT
        which = other if other in others else NOT_SINGLED_OUT
        slot = numbers.setdefault((who, broker, which), len(numbers))
        steps = result.setdefault((slot, api, idle), {})
        total, by_cell = steps.setdefault(step, ([0] * len(sums), {}))
        for at, value in enumerate(sums):
            total[at] = max(total[at], value) if at == LARGEST else total[at] + value
        by_cell.setdefault(cell, [0, ref])[0] += sums[0]
    series = [
        [
            *key,
            [
                [step, trimmed(total), [one for cell in sorted(cells) for one in (cell, *cells[cell])]]
                for step, (total, cells) in sorted(steps.items())
            ],
        ]
        for key, steps in sorted(result.items())
    ]
    return list(numbers), series


def trimmed(sums: list[int]) -> list[int]:
    return sums[: max((at for at, value in enumerate(sums) if value), default=0) + 1]


def as_arrays(slots: Sequence[Slot], rows: Sequence[tuple[Any, ...]]) -> FoldRows:
    """Return rows (API, kind of wait, step, cell, packet, sums) and the slot of each."""
    return FoldRows(
        np.array(slots, np.int64).reshape(-1, 3),
        np.array([row[:4] for row in rows], np.int64).reshape(-1, 4),
        np.array([NO_REF if row[4] is None else row[4] for row in rows], np.int64),
        np.array([row[-1] for row in rows], np.int64).reshape(-1, SUMS),
    )


@pytest.mark.parametrize("rest", [True, False])
@pytest.mark.parametrize("count", [0, 1, 7, 3_000])
@pytest.mark.parametrize("seed", range(3))
def test_all_at_once_is_one_by_one(seed: int, count: int, rest: bool) -> None:
    chance = random.Random(seed)
    slots = [
        (chance.randint(-1, 6), chance.randint(-1, 3), chance.choice((-1, 0, 1, 1 << 40)))
        for _ in range(count)
    ]
    rows = [
        (
            chance.randint(-1, 4),
            chance.randint(0, 1),
            chance.randint(0, 9),
            chance.randint(-3, 40),
            chance.choice((None, chance.randint(0, 1 << 50))),
            tuple(chance.choice((0, 0, 0, chance.randint(0, 1 << 40))) for _ in range(SUMS)),
        )
        for _ in range(count)
    ]
    for clients, others in ((10, {0, 1, 1 << 40}), (3, {1}), (0, set())):
        expected = folded_one_by_one(slots, rows, clients, others, rest)
        found = fold(as_arrays(slots, rows), clients, others, rest, LARGEST)
        assert repr((found.slots, found.lists())) == repr(expected)  # the same types, too
        assert found.json_size() == json_size(found.lists())


def test_texts_of_numbers_are_as_long_as_python_writes_them() -> None:
    numbers = [sign * (10**digits - less) for digits in range(19) for less in (0, 1) for sign in (1, -1)]
    assert text_lengths(np.array(numbers, np.int64)).tolist() == [len(str(number)) for number in numbers]
