"""Kernels from the cache run without the registries of Numba's compiler, which fills them itself."""

from pathlib import Path

from tests.helpers.kernel_program import kernel_program

KERNELS = """
import sys
import numpy as np
from numba import njit
from kdissect.jit.late_registries import fill_registries_late

@njit(cache=True)
def doubled(numbers):
    return 2 * numbers + np.arange(len(numbers))

@njit
def total(numbers):
    return doubled(numbers).sum()

def is_filled():
    return "numba.np.linalg" in sys.modules

if sys.argv[1] == "late":
    fill_registries_late()
    fill_registries_late()
numbers = np.arange(3)
print(doubled(numbers).tolist(), sum(doubled.stats.cache_hits.values()), is_filled(), end=" ")
print(total(numbers), is_filled())
"""


def test_registries_are_filled_when_something_is_compiled(tmp_path: Path) -> None:
    printed = kernel_program(tmp_path, KERNELS)
    assert printed("late") == "[0, 3, 6] 0 True 9 True\n"
    assert printed("late") == "[0, 3, 6] 1 False 9 True\n"
    assert printed("at once") == "[0, 3, 6] 1 True 9 True\n"
