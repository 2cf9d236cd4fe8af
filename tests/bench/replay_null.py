"""How many requests a second does one core hold on schedule? Against a broker that does nothing.

    python -m tests.bench.replay_null [REQUESTS_PER_SECOND [SECONDS [CONNECTIONS [PROCESSES [KIND]]]]]

KIND is one of `replay_traffic.py`, or `asap`: the mixed one as fast as may be, or `dry`: the same into a
target in memory (`--dry-target`). Lag is what a request was sent
later than due. On two cores, replayer and broker can be kept apart by running this behind `taskset -c 0`,
with BROKER_CPU=1 in the environment.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from kdissect.protocol.codec.messages import decode_request
from kdissect.replay.engine import run
from kdissect.replay.engine.pass_results import PassOutcome
from kdissect.replay.engine.pass_worker import PassWorker, collect_little
from kdissect.replay.engine.run import Replay
from kdissect.replay.load.analysis import load
from kdissect.replay.settings import (
    DRY_TARGET,
    Groups,
    Pace,
    ReplaySettings,
)
from kdissect.replay.target.cluster import TargetCluster
from tests.bench.null_broker import PARTITIONS
from tests.bench.replay_traffic import GROUPS, KINDS
from tests.helpers.paper_target import Anywhere, Script


def main() -> None:
    """Run once and print what it took."""
    given = (*sys.argv[1:], *("20000", "10", "50", "1", "mixed")[len(sys.argv) - 1 :])
    rate, seconds, connections, processes = map(int, given[:4])
    kind = given[4]
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("null_broker.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as broker:
        try:
            assert broker.stdout is not None
            port = int(broker.stdout.readline())
            if "BROKER_CPU" in os.environ:
                os.sched_setaffinity(broker.pid, {int(os.environ["BROKER_CPU"])})
            made = KINDS["mixed" if kind in ("asap", "dry") else kind](rate, seconds, connections)
            asked = ReplaySettings(
                target=(DRY_TARGET if kind == "dry" else ("127.0.0.1", port),),
                dry_partitions=PARTITIONS if kind == "dry" else 0,
                prefix="t-",
                pace=Pace.ASAP if kind in ("asap", "dry") else Pace.SCHEDULE,
                processes=processes,
                groups=GROUPS.get(kind, Groups.OFF),
            )
            measure(asked, made, rate, connections)
            told, _ = broker.communicate()
            print(f"the broker took {sum(json.loads(told).values()) * 1e6 / rate / seconds:.1f} µs for each")
        finally:
            broker.kill()


class Bench(Replay):
    """A replay of a capture that was never recorded."""

    def __init__(self, asked: ReplaySettings, made: Script) -> None:
        self.settings, self.spool = asked, made.shelf
        with collect_little():
            self.loaded = load(made.capture(), made.shelf, asked)
        self.cluster = TargetCluster(Anywhere())
        self.passes = []


class Metered(PassWorker):
    """Notes what it took of the processor; the figures go with the counts, from whichever process."""

    def play(self, begin_ns: int) -> PassOutcome:
        before = resource.getrusage(resource.RUSAGE_SELF)
        outcome = super().play(begin_ns)
        after = resource.getrusage(resource.RUSAGE_SELF)
        outcome.counts["user µs"] = round((after.ru_utime - before.ru_utime) * 1e6)
        outcome.counts["system µs"] = round((after.ru_stime - before.ru_stime) * 1e6)
        return outcome


def yardstick(made: Script) -> float:
    """Return the µs that decoding one Produce request takes on this machine just now."""
    frame = made.shelf.get(made.requests[1].frame) or b""
    start = time.process_time()
    for _ in range(3000):
        decode_request(frame)
    return (time.process_time() - start) / 3000 * 1e6


def measure(asked: ReplaySettings, made: Script, rate: int, connections: int) -> None:
    """Load, replay, print."""
    vars(run)["PassWorker"] = Metered
    bench = Bench(asked, made)
    context = bench.context()
    for _ in range(2):  # by now it is known what the target speaks: ids come with newer versions only
        bench.run_alone(context.leaders.learn_topics([f"t-topic-{number}" for number in range(connections)]))
    before = yardstick(made)
    bench.play(save=lambda *_: None)  # with a journal, as the command does
    after = yardstick(made)
    played = bench.passes[0]
    results = list(played.outcome.results)
    sent = min((result.sent_ns for result in results if result.sent_ns), default=played.start_ns)
    wall = (max(result.received_ns or 0 for result in results) - sent) / 1e9
    lags = sorted(result.lag_ns or 0 for result in results)
    buckets = Counter(f"{result.bucket} {result.reason}".strip() for result in results)
    count, user, system = len(lags), *(played.outcome.counts[name] for name in ("user µs", "system µs"))
    print(
        f"{count:,} requests at {rate:,}/s in {wall:.1f} s ({count / wall:,.0f}/s) by "
        f"{len(played.spools)} process(es); "
        f"lag p50 {lags[count // 2] / 1e6:.2f} ms, p99 {lags[count * 99 // 100] / 1e6:.2f} ms, max "
        f"{lags[-1] / 1e6:.1f} ms; "
        f"{(user + system) / count:.1f} µs of processor each ({user / count:.1f} user, "
        f"{system / count:.1f} system); "
        f"decoding one Produce took {before:.0f} and {after:.0f} µs; {dict(buckets.most_common(3))} "
        f"{played.outcome.stopped}"
    )


if __name__ == "__main__":
    main()
