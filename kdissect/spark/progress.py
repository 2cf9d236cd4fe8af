"""Progress of Spark jobs on standard error: one updated line on a terminal, a rare line elsewhere."""

import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self, TextIO

from kdissect.bytes_progress import FILE_SECONDS, POLL_SECONDS, TERMINAL_DELAY, ProgressLine, time_left
from kdissect.spark.backend import is_connect
from kdissect.spark.in_process_backend import InProcessBackend
from kdissect.spark.pass_meters import PassMeters
from kdissect.text import format_size

PASSES = ("reading packets", "dissecting")


class JobProgress:
    """Watches the jobs of a Spark context or a Connect session from a thread, while the `with` block runs."""

    def __init__(
        self,
        spark: Any,
        quiet: bool = False,
        stream: TextIO | None = None,
        meters: PassMeters | None = None,
    ) -> None:
        by_tasks = _state_of(spark)
        self._state = metered_state(meters, by_tasks) if meters else by_tasks
        self._line, self._quiet = ProgressLine(stream), quiet
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)

    def __enter__(self) -> Self:
        if not self._quiet:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2)
        self._line.clear()

    def _watch(self) -> None:
        begun = last = time.monotonic()
        is_terminal, shown = self._line.is_terminal, ""
        while not self._done.wait(POLL_SECONDS):
            now = time.monotonic()
            if now - (begun if is_terminal else last) < (TERMINAL_DELAY if is_terminal else FILE_SECONDS):
                continue
            try:
                text = self._state()
            except Exception:  # noqa: BLE001 - the job itself reports what is wrong
                return
            if text and text != shown:
                self._line.show(text)
                shown, last = text, now


def metered_state(meters: PassMeters, other: Callable[[], str]) -> Callable[[], str]:
    """Return the function that describes the progress in bytes, with the time left; `other` what follows."""
    begun = time.monotonic()

    def state() -> str:
        scanned, dissected = (min(meter.total(), meters.size) for meter in (meters.scanned, meters.dissected))
        if dissected >= meters.size:
            return other()
        name, done = (PASSES[1], dissected) if dissected or scanned >= meters.size else (PASSES[0], scanned)
        left = time_left(scanned + dissected, 2 * meters.size, time.monotonic() - begun)
        return f"kdissect: {name}, {format_size(done)} of {format_size(meters.size)}{left}"

    return state


def _state_of(spark: Any) -> Callable[[], str]:
    if isinstance(spark, InProcessBackend):
        return str  # nothing: what a small capture is at is over before it is read
    return (_connect_state if is_connect(spark) else _tracker_state)(spark)


def _tracker_state(context: Any) -> Callable[[], str]:
    tracker = context.statusTracker()

    def state() -> str:
        for number in sorted(tracker.getActiveStageIds()):
            stage = tracker.getStageInfo(number)
            if stage is not None and stage.numTasks:
                return describe_stage(stage.name, stage.numCompletedTasks, stage.numTasks)
        return ""

    return state


def _connect_state(session: Any) -> Callable[[], str]:
    """Return the function that describes the progress of a session: a server does not name its stages."""
    latest: list[Any] = []

    def on_progress(stages: Iterable[Any] | None, **_others: Any) -> None:
        latest[:] = stages or ()

    def state() -> str:
        running = (stage for stage in tuple(latest) if stage.num_tasks and not stage.done)
        stage = next(running, None)
        return f"kdissect: working, {stage.num_completed_tasks} of {stage.num_tasks} parts" if stage else ""

    session.registerProgressHandler(on_progress)
    return state


def describe_stage(stage: str, completed: int, tasks: int) -> str:
    """Return the progress of a stage. Spark names a stage after the shuffle or the action that ends it."""
    name = PASSES[0] if "mapPartitionsInternal" in stage or "repartition" in stage else PASSES[1]
    return f"kdissect: {name}, {completed} of {tasks} parts"
