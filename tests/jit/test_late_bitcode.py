"""Kernels from the cache run with their bitcode unparsed, until another kernel is linked with them."""

from pathlib import Path

from tests.helpers.kernel_program import kernel_program

KERNELS = """
import sys
from numba import njit
from kdissect.jit.late_bitcode import parse_bitcode_late

@njit(cache=True)
def double(number):
    return 2 * number

@njit
def quadruple(number):
    return double(double(number))

def bitcode():
    (library,) = [compiled.library for compiled in double.overloads.values()]
    return getattr(library, "bitcode", None)

if sys.argv[1] == "late":
    parse_bitcode_late()
    parse_bitcode_late()
print(double(21), bool(bitcode()), sum(double.stats.cache_hits.values()), end=" ")
print(quadruple(10), bool(bitcode()))
"""


def test_bitcode_is_parsed_when_it_is_needed(tmp_path: Path) -> None:
    printed = kernel_program(tmp_path, KERNELS)
    assert printed("at once") == "42 False 0 40 False\n"
    assert printed("late") == "42 True 1 40 False\n"
    assert printed("at once") == "42 False 1 40 False\n"
