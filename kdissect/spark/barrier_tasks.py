"""Tasks that run at the same time, one for each worker of a replay: a barrier stage of Spark.

Spark starts all tasks of such a stage at once or none, and kills the others when one fails. The others of a
replay have requests in flight by then, and a report to write. So Spark is told to wait for them
(`REPLAY_CONFS`): it is the driver of the replay that ends them, over its own channel. Nothing is tried again:
what was sent is never sent twice.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from kdissect.errors import UserError
from kdissect.spark.executor_slots import PATIENCE_S, task_slots
from kdissect.text import plural

if TYPE_CHECKING:
    from pyspark import SparkContext

REPLAY_CONFS = {
    "spark.dynamicAllocation.enabled": "false",  # barrier stages do not work with it
    "spark.speculation": "false",
    "spark.task.maxFailures": "1",
    "spark.task.reaper.enabled": "false",
    "spark.python.task.killTimeout": "600s",  # for which a task that shall end may go on
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "30",
}
SETTLED_S = 3.0  # for which no more slots come up
REGISTER_S = 60.0  # for the first executor, or all that are wanted
LOOK_S = 0.1
WAITS = "{}, which is too few: the replay waits up to {:.0f} s for more"


def wait_for_slots(context: "SparkContext", wanted: int, local: bool, notice: Callable[[str], None]) -> int:
    """Return how many tasks can run at a time: so many as are `wanted`, or all of the cluster for 0.

    Raise UserError if there are fewer. The notice comes once, when that takes long.
    """
    began_s, known, since_s, told = time.monotonic(), 0, time.monotonic(), False
    while time.monotonic() < began_s + REGISTER_S:
        slots = task_slots(context)
        if slots != known:
            known, since_s = slots, time.monotonic()
        settled = local or time.monotonic() - since_s >= SETTLED_S
        if known >= wanted > 0 or (known and not wanted and settled):
            return wanted or known
        if local:
            break
        if not told and known < max(wanted, 1) and time.monotonic() > began_s + PATIENCE_S:
            told = True
            notice(WAITS.format(_at_a_time(known), REGISTER_S - PATIENCE_S))
        time.sleep(LOOK_S)
    if not known:
        raise UserError("the Spark cluster has no executor that is free for this replay (--master)")
    raise UserError(f"{_at_a_time(known)}, and --processes asks for {wanted}")


def _at_a_time(slots: int) -> str:
    return f"the Spark cluster runs {slots} {plural('task', slots)} at a time"


def start_workers(
    context: "SparkContext", function: Callable[[int], None], count: int, failed: Callable[[Exception], None]
) -> threading.Thread:
    """Run a function with the numbers 0 to `count` - 1 in tasks that start at the same time.

    The thread that waits for them is returned. `failed` is called with what Spark raises.
    """

    def run() -> None:
        try:
            tasks = context.parallelize(range(count), count).barrier()
            tasks.mapPartitions(partial(_run_task, function=function)).collect()
        except Exception as error:  # noqa: BLE001 - it is raised where workers are awaited
            failed(error)

    thread = threading.Thread(target=run, name="barrier-stage", daemon=True)
    thread.start()
    return thread


def warns_of_readers(context: "SparkContext", local: bool) -> bool:
    """Return whether others on the network of a cluster could read what tasks carry."""
    return not local and context.getConf().get("spark.authenticate") != "true"


def _run_task(numbers: Iterable[int], function: Callable[[int], None]) -> Iterator[int]:
    for number in numbers:
        function(number)
        yield number
