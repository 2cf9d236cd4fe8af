"""Two processes compile all that both passes need, each its half, with the types that these have."""

import os
import subprocess
import sys

import pytest

from kdissect.background_program import LOWEST_PRIORITY
from kdissect.spark.startup import compile_kernels
from kdissect.spark.startup.compile_kernels import prepared_uncompiled
from tests.helpers.command import environment

TYPES = """
import functools, os, pickle, sys
os.environ["KDISSECT_JIT"] = "0"
from kdissect.jit import decorators
from numba import typeof
from numba.core.errors import NumbaError

seen = set()

def kind(value):
    try:
        return str(typeof(value))
    except (ValueError, NumbaError):  # a row of a run without the compiler
        return type(value).__name__

def noting(function):
    @functools.wraps(function)
    def called(*arguments):
        seen.add((f"{function.__module__}.{function.__name__}", str([kind(one) for one in arguments])))
        return function(*arguments)
    return called

decorators.jit = decorators.jit_flat = decorators.jit_seldom = noting
from kdissect.spark.startup import compile_kernels
from kdissect.spark.startup.warmup import compile_for_many, warm_up

prepared = compile_kernels.Prepared(*pickle.loads(pickle.dumps(tuple(compile_kernels.prepare()))))
seen.clear()
compile_kernels.compile_engine(prepared)
engine = set(seen)
seen.clear()
compile_kernels.compile_tables(prepared)
tables = set(seen)
seen.clear()
compile_for_many()
warm_up()
print(len(engine - tables), len(tables - engine))
print(*sorted(seen - engine - tables), sep="\\n", end="")
"""


def test_both_halves_call_the_kernels_with_all_types_that_both_passes_have() -> None:
    command = [sys.executable, "-P", "-c", TYPES]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    counts, *missing = done.stdout.splitlines()
    assert missing == []
    assert all(int(count) > 15 for count in counts.split())


def test_what_is_prepared_without_the_compiler_serves_the_second_half() -> None:
    prepared = prepared_uncompiled()
    assert sum(len(paired.batch.exchanges) for paired in prepared.paired) > 10


def test_a_process_without_the_compiler_that_fails_leaves_all_to_one_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = list[str]()
    monkeypatch.setattr(compile_kernels, "UNCOMPILED_COMMAND", [sys.executable, "-c", "raise SystemExit(3)"])
    for step in ("_compile_halves", "compile_for_many", "warm_up"):
        monkeypatch.setattr(compile_kernels, step, lambda *_, step=step: done.append(step))
    compile_kernels.compile_all(beside=True)
    assert done == ["compile_for_many", "warm_up"]


@pytest.mark.parametrize(("processors", "beside"), [(2, True), (1, False)])
def test_two_processes_compile_if_there_are_processors(
    processors: int, beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[object]()

    def note(beside: bool) -> None:
        asked.append(beside)

    monkeypatch.setattr(compile_kernels, "set_priority", asked.append)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processors)))
    monkeypatch.setattr(compile_kernels, "compile_all", note)
    compile_kernels.main(str(LOWEST_PRIORITY))
    assert asked == [LOWEST_PRIORITY, beside]
