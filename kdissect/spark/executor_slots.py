"""Slots of a Spark cluster: how many tasks its executors run at a time, and a notice while there are none.

Spark waits without end for executors, and tells only its own log. A cluster that others fill would look like
a command that hangs.
"""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext

LOOK_S = 2.0
PATIENCE_S = 10.0  # executors of a free cluster come within seconds

WAITS = "no executor of the Spark cluster is free for this run: it starts when there is one"
GOES_ON = "the Spark cluster has given an executor, after {:.0f} s"


def task_slots(context: "SparkContext") -> int:
    """Return how many tasks all executors of now run at a time. Spark checks it for barrier stages, too."""
    jvm: Any = context._jsc.sc()  # noqa: SLF001 - Python has no other way to it
    return int(jvm.maxNumConcurrentTasks(jvm.resourceProfileManager().defaultResourceProfile()))


class SlotNotices:
    """Notices on executors: one when a stage has waited for the first, one when it has come.

    A cluster with dynamic allocation has no executors between jobs, so only stages that wait count.
    """

    def __init__(self, notice: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._notice, self._clock = notice, clock
        self._since_s: float | None = None
        self._told = False

    def look(self, stages: int, slots: int) -> None:
        """Note how many stages are active and how many slots there are, and tell what changed."""
        now_s = self._clock()
        if slots and self._told and self._since_s is not None:
            self._told = False
            self._notice(GOES_ON.format(now_s - self._since_s))
        if slots or not (stages or self._told):
            self._since_s = None
        elif self._since_s is None:
            self._since_s = now_s
        elif not self._told and now_s - self._since_s >= PATIENCE_S:
            self._told = True
            self._notice(WAITS)


def notice_missing_slots(context: "SparkContext", notice: Callable[[str], None]) -> Callable[[], None]:
    """Look at a cluster's executors in the background. Return the function that ends it."""
    ended, notices = threading.Event(), SlotNotices(notice)

    def watch() -> None:
        tracker = context.statusTracker()
        while not ended.wait(LOOK_S):
            try:
                notices.look(len(tracker.getActiveStageIds()), task_slots(context))
            except Exception:  # noqa: BLE001 - Spark has ended, and the run itself reports why
                return

    threading.Thread(target=watch, name="executor-slots", daemon=True).start()
    return ended.set
