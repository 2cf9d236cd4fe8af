"""A sampling profiler: what runs when a timer of processor time rings, by stage, function, call and kind.

The timer's signal is handled by Python between two instructions, in most cases when a call has returned, and
the frame says which one. The processor time since the last sample counts for that call. So long calls into
compiled code, during which the timer rings unheard, count in full.
"""

import ast
import linecache
import signal
import time
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

INTERVAL_SECONDS = 0.001  # the kernel may ring less often
PACKAGE = "kdissect."
KINDS = ("compiled loops", "NumPy", "Arrow", "Python")
STAGES = {
    "kdissect.capture.index.index:index_captures": "index",
    "kdissect.capture.index.range_pieces:RangePieces.recall": "pass one",
    "kdissect.capture.index.range_pieces:RangePieces.add": "pass one",
    "kdissect.capture.index.range_pieces:RangePieces.end_split": "pass one",
    "kdissect.capture.scan:scan_batches": "pass one",
    "kdissect.streams.processor:FlowProcessor.feed": "engine",
    "kdissect.streams.processor:FlowProcessor.close": "engine",
    "kdissect.tables.message_columns:read_messages": "schema walk",
    "kdissect.tables.build:dissect_batches": "columns",
    "kdissect.spark.joined_batches:coalesce_batches": "columns",
    "kdissect.report.partials:summarise": "figures",
    "kdissect.report.partials:merge": "merging",
    "kdissect.report.partials:to_arrow": "merging",
    "kdissect.report.partials:from_arrow": "merging",
}
"""The function that a stage begins with; the innermost one counts."""

T = TypeVar("T")


class Sampled(NamedTuple):
    """Sampled code: stage, function of this package, the call that it made, and what kind of code that is."""

    stage: str
    function: str
    call: str
    kind: str


Seconds: TypeAlias = defaultdict[Sampled, float]
"""Processor time by what ran."""


def sampled(work: Callable[[], T]) -> tuple[Seconds, T]:
    """Return the processor seconds of a piece of work by what ran, and its result."""
    seconds: Seconds = defaultdict(float)
    last = time.process_time()

    def note(_signal: int, frame: FrameType | None) -> None:
        nonlocal last
        now = time.process_time()
        if frame is not None:
            seconds[_describe(frame)] += now - last
        last = time.process_time()  # without the time that this took

    before = signal.signal(signal.SIGPROF, note)
    signal.setitimer(signal.ITIMER_PROF, INTERVAL_SECONDS, INTERVAL_SECONDS)
    try:
        return seconds, work()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _describe(frame: FrameType) -> Sampled:
    stage, own = "other", None
    at: FrameType | None = frame
    while at is not None:
        name = f"{at.f_globals.get('__name__', '')}:{at.f_code.co_qualname}"
        own = own or (at if name.startswith(PACKAGE) else None)
        if name in STAGES:
            stage = STAGES[name]
            break
        at = at.f_back
    if own is None:
        return Sampled(stage, "outside of the package", "", KINDS[-1])
    module = own.f_globals["__name__"].removeprefix(PACKAGE)
    call = _call_at(own.f_code, own.f_lasti)
    return Sampled(stage, f"{module}.{own.f_code.co_qualname}", call, _kind_of(call, own))


@cache
def _call_at(code: CodeType, instruction: int) -> str:
    """Return the source of the expression at an instruction, its first line; empty if that is not known."""
    positions = list(code.co_positions())
    begin, end, left, right = positions[instruction // 2]
    if begin is None or end is None or left is None or right is None:
        return ""
    lines = [linecache.getline(code.co_filename, number) for number in range(begin, end + 1)]
    lines[-1] = lines[-1].encode()[:right].decode()
    lines[0] = lines[0].encode()[left:].decode()
    return " ".join(" ".join(lines).split())[:120]


def _kind_of(call: str, frame: FrameType) -> str:
    """Return the kind of what a call runs, by the object whose name it begins with."""
    names = _names(call)
    value: Any = frame.f_locals.get(names[0], frame.f_globals.get(names[0])) if names else None
    for name in names[1:]:
        if not isinstance(value, ModuleType):
            value = vars(value).get(name, value) if hasattr(value, "__dict__") else value
        else:
            value = getattr(value, name, None)
    origin = type(value).__module__ + "." + str(getattr(value, "__module__", ""))
    if hasattr(value, "py_func"):
        return KINDS[0]
    if isinstance(value, ModuleType):
        origin = value.__name__
    if isinstance(value, np.ndarray | np.generic | np.ufunc) or "numpy" in origin:
        return KINDS[1]
    if isinstance(value, pa.lib._Weakrefable) or "pyarrow" in origin:
        return KINDS[2]
    return KINDS[-1]


@cache
def _names(call: str) -> tuple[str, ...]:
    """Return the names of a dotted call, outermost first: `np.add.at(x, y)` has np, add and at."""
    text, _, _ = call.partition("(")
    try:
        tree: ast.AST = ast.parse(text, mode="eval").body
    except SyntaxError:
        return ()
    names: list[str] = []
    while isinstance(tree, ast.Attribute | ast.Subscript):
        if isinstance(tree, ast.Attribute):
            names.append(tree.attr)
        tree = tree.value
    return (tree.id, *reversed(names)) if isinstance(tree, ast.Name) else ()
