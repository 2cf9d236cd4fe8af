"""How long does a run take to report when it is stopped? Against a broker that does nothing.

    python -m tests.bench.replay_stop [REQUESTS [SHARE]]

A run of so many requests is stopped when it has sent a share of them. The time is that from the stop to the
end of the report.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kdissect.replay.engine.player import Player
from kdissect.replay.plan import make_plan
from kdissect.replay.results.run_comparison import compare
from kdissect.replay.results.run_files import read_run, save_pass
from kdissect.replay.settings import Caps, Pace, ReplaySettings
from kdissect.replay.target.discover import TargetDescription
from tests.bench.replay_null import Bench
from tests.bench.replay_traffic import mixed

CONNECTIONS = 50


def main() -> None:
    """Run once and print what it took."""
    requests, share = int((*sys.argv[1:], "400000")[0]), float((*sys.argv[2:], "0.5")[0])
    command = [sys.executable, str(Path(__file__).with_name("null_broker.py"))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as broker:
        try:
            assert broker.stdout is not None
            address = ("127.0.0.1", int(broker.stdout.readline()))
            print(stopped(requests, share, address))
        finally:
            broker.kill()


def stopped(requests: int, share: float, address: tuple[str, int]) -> str:
    """Return how long the report took."""
    rate = 10_000
    caps = Caps(bytes_in_all=int(requests * share * 100))
    settings = ReplaySettings((address,), pace=Pace.ASAP, prefix="t-", processes=1, caps=caps)
    bench = Bench(settings, mixed(rate, requests // rate, CONNECTIONS))
    bench.capture, bench.target = bench.loaded.capture, TargetDescription()
    names = [f"t-topic-{number}" for number in range(CONNECTIONS)]
    for _ in range(2):
        bench.run_alone(bench.context().leaders.learn_topics(names))
    plan = make_plan(bench)
    times_s: list[float] = []  # of the calls of `stop`
    stop = Player.stop

    def noted_stop(self: Player, reason: str) -> None:
        times_s.append(time.monotonic())
        stop(self, reason)

    Player.stop = noted_stop  # type: ignore[method-assign]  # for this process, which ends after it
    bench.play(save=lambda *_: None)
    played = bench.passes[0]
    with tempfile.TemporaryDirectory() as folder:
        place = save_pass(bench, Path(folder) / "run", plan, 0, played)
        report = compare(*read_run(place))
    took = time.monotonic() - times_s[0]
    sums = report["accounting"]
    sent = f"{sums['sent']:,} of {sums['captured']:,} sent"
    return f"{sent}; report {took:.1f} s after the stop: {report['because']}"


if __name__ == "__main__":
    main()
