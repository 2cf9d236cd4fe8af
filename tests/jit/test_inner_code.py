"""Kernels that only other kernels call have no machine code of their own, and do what they did."""

from pathlib import Path

from tests.helpers.kernel_program import kernel_program

KERNELS = """
import sys
import numpy as np
__name__ = "kdissect.example"
sys.modules[__name__] = sys.modules["__main__"]
from kdissect.jit.decorators import jit, jit_inner, jit_thin

@jit_inner
def show(number):
    print("inner", number)
    return number

@jit_inner
def double(number):
    return 2 * number

@jit_thin
def around(numbers, index):
    return double(show(numbers[index])) + 1

@jit_inner
def optimised(numbers, index):
    return double(show(numbers[index])) + 1

@jit
def add_up(numbers):
    total = 0
    for index in range(len(numbers)):
        total += around(numbers, index)
    return total

def is_defined(kernel):
    (compiled,) = kernel.overloads.values()
    engine = compiled.library.codegen._engine
    return engine.is_symbol_defined(compiled.fndesc.llvm_func_name)

def has_double_inside(kernel):
    (compiled,), (called,) = kernel.overloads.values(), double.overloads.values()
    lines = compiled.library.get_llvm_str().splitlines()
    return not any(" call " in line and called.fndesc.llvm_func_name in line for line in lines)

if sys.argv[1] == "apart":
    show.compile("(int64,)")
    around.compile("(int64[::1], int64)")
    optimised.compile("(int64[::1], int64)")
    print(is_defined(show), is_defined(around), has_double_inside(around), has_double_inside(optimised))
print(add_up(np.array([3, 4])), sum(add_up.stats.cache_hits.values()), end=" ")
if sys.argv[1] == "apart":
    print(is_defined(add_up), is_defined(show))
"""
SHOWN = "inner 3\ninner 4\n"


def test_inner_kernels_are_a_part_of_others_alone(tmp_path: Path) -> None:
    printed = kernel_program(tmp_path, KERNELS)
    assert printed("apart") == f"False False False True\n{SHOWN}16 0 True True\n"
    assert printed("from the cache") == f"{SHOWN}16 1 "


VERSIONS = """
import sys
import numpy as np
__name__ = "kdissect.example"
sys.modules[__name__] = sys.modules["__main__"]
from numba.core import config
from kdissect.jit.decorators import jit, jit_inner, jit_seldom

@jit_inner
def add(number, other):
    return number + other

def add_up(numbers):
    total = 0
    for index in range(len(numbers)):
        total = add(add(add(total, numbers[index]), 1), 2)
    return total

usual, level = jit(add_up), config.OPT
seldom = jit_seldom(add_up)
numbers = np.array([3, 4])
print(usual(numbers), seldom(numbers), len(add.overloads), config.OPT == level)
"""


def test_a_constant_argument_needs_no_version_of_its_own(tmp_path: Path) -> None:
    assert kernel_program(tmp_path, VERSIONS)("") == "13 13 1 True\n"
