"""`kdissect replay run --master`: Spark starts the workers, and this process is the driver of the run.

Spark starts while the log is loaded here.
"""

import argparse
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdissect.cli.context import spark_errors_explained
from kdissect.errors import UsageError
from kdissect.replay.engine.run import Replay
from kdissect.replay.load.log_files import is_log

if TYPE_CHECKING:
    from kdissect.replay.machines.machines_run import MachinesRun
    from kdissect.spark.session import Engine


def check_machines(chosen: argparse.Namespace) -> None:
    """Raise UsageError unless the options of a run on many machines go together."""
    if chosen.master is None:
        if chosen.lost_worker is not None:
            raise UsageError("--lost-worker has no effect without --master, whose executors are the workers")
        return
    if len(chosen.paths) != 1 or not is_log(chosen.paths[0]):
        raise UsageError("--master takes one replay log, which kdissect replay load writes")
    if chosen.master.startswith("sc://"):
        raise UsageError(
            "a Spark Connect server cannot run the workers of a replay; name the cluster's master"
        )


@contextmanager
def machines(chosen: argparse.Namespace, notice: Callable[[str], None]) -> "Iterator[Engine]":
    """Start Spark, and end it afterwards."""
    from kdissect.spark.barrier_tasks import REPLAY_CONFS
    from kdissect.spark.session import Engine
    from kdissect.spark.spark_settings import SparkSettings

    settings = SparkSettings(master=chosen.master, confs=REPLAY_CONFS, notice=notice)
    with Engine.start(settings) as engine, spark_errors_explained(engine):
        engine.build()
        yield engine


def run_on_machines(
    chosen: argparse.Namespace,
    engine: "Engine",
    prepared: Replay,
    folder: Path,
    plan: dict[str, Any],
    notice: Callable[[str], None],
) -> list[Path]:
    """Send by the executors of Spark. Return the directory of each pass."""
    with _machines_run(chosen, engine, prepared, notice) as run:
        return run.play(folder, plan)


def rates_on_machines(
    chosen: argparse.Namespace, engine: "Engine", prepared: Replay, notice: Callable[[str], None]
) -> list[str]:
    """Have the executors of Spark send to targets in memory. Return how fast they did, as lines of text."""
    from kdissect.replay.results.pass_rate import worker_rates_text

    with _machines_run(chosen, engine, prepared, notice) as run:
        return [line for workers in run.play_into_memory() for line in worker_rates_text(workers)]


@contextmanager
def _machines_run(
    chosen: argparse.Namespace, engine: "Engine", prepared: Replay, notice: Callable[[str], None]
) -> "Iterator[MachinesRun]":
    """Start the workers, and end them afterwards."""
    from kdissect.replay.machines.machines_run import MachinesRun, worker_count
    from kdissect.replay.machines.part_worker import send_part
    from kdissect.replay.machines.remote_workers import RemoteWorkers, WhenLost
    from kdissect.spark.barrier_tasks import start_workers, wait_for_slots, warns_of_readers

    context, local = engine.context(), engine.settings.local
    if prepared.settings.credentials and warns_of_readers(context, local):
        notice(
            "the login of the target goes to a cluster that does not authenticate (spark.authenticate): "
            "others on its network can get it"
        )
    count = worker_count(prepared, wait_for_slots(context, chosen.processes, local, notice))
    host = context.getConf().get("spark.driver.host") or "127.0.0.1"
    address = context.getConf().get("spark.driver.bindAddress") or host
    when_lost = WhenLost(chosen.lost_worker or WhenLost.STOP)
    remote = RemoteWorkers(host, address, count, prepared.settings.breaker, when_lost)
    with closing(remote):
        start_workers(context, partial(send_part, invitation=remote.invitation), count, remote.job_failed)
        remote.gather()
        yield MachinesRun(prepared, Path(chosen.paths[0]), remote, notice)
