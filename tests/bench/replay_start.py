"""Time and memory until the first request of a large capture goes out, step by step.

    python -m tests.bench.replay_start CAPTURE [SECONDS]

The target is the broker that does nothing (`null_broker.py`), with all topics of the capture; the replay is
ended SECONDS after its first request. Memory is the resident set's peak of the replaying process, so it only
ever grows.
"""

import json
import resource
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

from kdissect.replay.engine import run
from kdissect.replay.engine.pass_results import PassOutcome
from kdissect.replay.engine.pass_worker import PassWorker
from kdissect.replay.engine.run import Replay
from kdissect.replay.settings import (
    Caps,
    Pace,
    ReplaySettings,
)


def said(step: str, begin: float) -> None:
    """Print how far it is."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        (
            f"{step}: {time.monotonic() - begin:.1f} s, {time.process_time():.1f} s of processor, peak "
            f"{peak:,.0f} MiB"
        ),
        flush=True,
    )


class Told(PassWorker):
    """Prints when it is ready and when it has played."""

    def play(self, begin_ns: int) -> PassOutcome:
        said("ready to send", BEGIN)
        outcome = super().play(begin_ns)
        said("played", BEGIN)
        return outcome


BEGIN = time.monotonic()


def main() -> None:
    """Load, make ready, play a while; print."""
    capture, seconds = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 10.0
    vars(run)["PassWorker"] = Told
    with subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("null_broker.py"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as broker:
        try:
            assert broker.stdout is not None
            port = int(broker.stdout.readline())
            asked = ReplaySettings(
                target=(("127.0.0.1", port),),
                prefix="t-",
                pace=Pace.ASAP,
                processes=1,
                caps=Caps(duration_s=seconds),
            )
            said("begun", BEGIN)
            with closing(Replay(asked, [capture])) as replay:
                said(f"{len(replay.loaded.items):,} requests read and looked at", BEGIN)
                context = replay.context()
                topics = sorted(map(context.names.topic, replay.loaded.source.topics))
                # By now it is known what the target speaks: ids come with newer versions only.
                for _ in range(2):
                    replay.run_alone(context.leaders.learn_topics(topics))
                replay.play(save=lambda *_: None)
                outcome = replay.passes[0].outcome
                results = [each for each in outcome.results if each.received_ns and each.sent_ns]
                wall = (
                    max(each.received_ns or 0 for each in results)
                    - min(each.sent_ns or 0 for each in results)
                ) / 1e9
                print(Counter(f"{each.bucket} {each.reason}" for each in outcome.results).most_common(4))
                print(
                    f"{len(results):,} requests answered in {wall:.1f} s, {len(results) / wall:,.0f}/s "
                    f"{outcome.stopped}"
                )
            told, _ = broker.communicate()
            print(json.loads(told))
        finally:
            broker.kill()


if __name__ == "__main__":
    main()
