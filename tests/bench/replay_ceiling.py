"""Processor time of a request of a replay log that is sent to a target in memory.

    python -m tests.bench.replay_ceiling LOG [--api NAME] [--processes P] [--requests N] [--profile]

In: a log, of which this process sends the first N requests (or the first of one API), as the first one of P
processes would (1): a process with fewer connections has fewer requests in each of its turns. Out: the
processor time of each, from preparing it to its result, the answer of the target included. The decoding of
one small Produce request is the yardstick for the machine, as in `replay_cpu`. `--profile` also prints the
functions that take most of it.

The figure is for each process: `kdissect replay run` says how many requests leave in a second.
"""

import argparse
import cProfile
import pstats
import sys
import time
from array import array
from collections import Counter
from contextlib import closing, nullcontext

import numpy as np

from kdissect.exchanges.filter import ExchangeFilter
from kdissect.protocol.schema.registry import APIS, api_name
from kdissect.replay.engine.pass_worker import PassWorker, WorkerSetup, warm_up
from kdissect.replay.engine.run import Replay
from kdissect.replay.engine.run_limits import StopSignal
from kdissect.replay.engine.sharding import components_of, shard_requests
from kdissect.replay.load.replay_items import sent_mask
from kdissect.replay.load.request_table import Chosen
from kdissect.replay.net.transport import now_ns
from kdissect.replay.settings import DRY_CLUSTER, DRY_TARGET, Groups, Pace, ReplaySettings
from tests.bench.replay_cpu import yardstick

REQUESTS, SHOWN = 60_000, 45


def settings_for(api: str | None, processes: int) -> ReplaySettings:
    """Return how a log is sent to memory, as fast as it goes."""
    keys = frozenset(key for key in APIS if api in (None, api_name(key)))
    chosen = ExchangeFilter(apis=keys) if api else ExchangeFilter()
    return ReplaySettings(
        target=(DRY_TARGET,),
        known_target=DRY_CLUSTER,
        filter=lambda _begin_ns: chosen,
        groups=Groups.OFF,
        pace=Pace.ASAP,
        processes=processes,
        dry_partitions=1,
    )


def measured(chosen: argparse.Namespace, profile: cProfile.Profile | None) -> str:
    """Send requests of a log, and return what each took."""
    with closing(Replay(settings_for(chosen.api, chosen.processes), [chosen.log])) as replay:
        replay.learn()
        context = replay.context()
        replay.run_alone(context.discovery.learn_bounds())
        share = shard_requests(replay.loaded, replay.settings, components_of(replay.loaded))[0]
        places = share.numbers[np.flatnonzero(sent_mask(share))[: chosen.requests]]
        shard = Chosen(share.every, array("i", places.astype(np.int32).tobytes()))
        replay.spool.flush()
        setup = WorkerSetup(replay.loaded, context, shard, replay.settings, replay.spool, StopSignal())
        warm_up()
        unit = yardstick()
        start = time.process_time()
        with profile or nullcontext():
            outcome = PassWorker(setup).play(now_ns())
        took = time.process_time() - start
        unit = (unit + yardstick()) / 2
    ends = Counter(str(result.bucket) for result in outcome.results)
    most = ", ".join(f"{count:,} {end}" for end, count in ends.most_common())
    each = took / len(shard)
    return (
        f"{each * 1e6:.1f} µs of processor a request ({1 / each:,.0f} a second for a process); {most}; "
        f"decoding one Produce takes {unit:.1f} µs here"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("log")
    parser.add_argument("--api")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--profile", action="store_true")
    chosen = parser.parse_args()
    profile = cProfile.Profile() if chosen.profile else None
    print(measured(chosen, profile))
    if profile is not None:
        pstats.Stats(profile, stream=sys.stdout).sort_stats("tottime").print_stats(SHOWN)


if __name__ == "__main__":
    main()
