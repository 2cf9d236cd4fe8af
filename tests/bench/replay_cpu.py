"""Processor time of a replayed request, without sockets and whatever else the machine does.

    python -m tests.bench.replay_cpu [KIND ...]

Kinds are those of `replay_traffic.py`: 20,000 requests of each, and of the mixed ones also with nothing made
ready before the clock starts. Processor time is counted from due to accounted, frames handed over in memory,
without that of who answers; the decoding of one small Produce request is the yardstick for the machine.
"""

import sys
import time
from collections import Counter

from kdissect.protocol.codec.messages import decode_request
from kdissect.replay.engine.fast_path.prepared_requests import prepare_requests
from kdissect.replay.engine.pass_worker import collect_little, warm_up
from kdissect.replay.engine.player import Player, PlayerSetup
from kdissect.replay.engine.run_limits import RunLimits
from kdissect.replay.engine.schedule import Schedule
from kdissect.replay.handlers.replay_context import new_context
from kdissect.replay.load.analysis import load
from kdissect.replay.net.connection import Connection
from kdissect.replay.net.pool import ConnectionPool
from kdissect.replay.settings import (
    Address,
    Groups,
    Pace,
    ReplaySettings,
)
from tests.bench.null_broker import answer, topic_id
from tests.bench.replay_traffic import GROUPS, KINDS, START_NS, mixed
from tests.helpers.paper_target import HERE, Script, topology

REQUESTS, CONNECTIONS, TICK_NS = 20_000, 50, 1_000_000


class Memory:
    """A wire that ends in a list."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Connection, bytes]] = []

    def connect(self, link: Connection, _address: Address) -> None:
        self.waiting.append((link, b""))

    def send(self, link: Connection, data: bytes) -> None:
        self.waiting.append((link, data))

    def disconnect(self, _link: Connection) -> None:
        """Nothing to close."""


def yardstick() -> float:
    """Return the µs that decoding one Produce request takes."""
    made = mixed(4, 1, 1)
    frame = made.shelf.get(made.requests[1].frame) or b""
    start = time.process_time()
    for _ in range(3000):
        decode_request(frame)
    return (time.process_time() - start) / 3000 * 1e6


def main() -> None:
    """Measure each kind; print one line for each."""
    unit = yardstick()
    for kind in sys.argv[1:] or KINDS:
        made = KINDS[kind](REQUESTS, 1, CONNECTIONS)
        for prepared in (True, False) if kind == "mixed" else (True,):
            before, each, most = measure(kind, made, prepared)
            print(
                f"{kind}{'' if prepared else ', nothing made ready'}: {before:.0f} µs each before the "
                "clock starts, "
                f"{each:.1f} µs each to play ({1e6 / each:,.0f} a second); {most}; "
                f"decoding one Produce takes {unit:.1f} µs here",
                flush=True,
            )


def measure(kind: str, made: Script, prepared: bool) -> tuple[float, float, str]:
    """Return the µs that a request takes before the clock starts, and after, and where requests ended."""
    groups = GROUPS.get(kind, Groups.OFF)
    asked = ReplaySettings(target=(("127.0.0.1", 1),), prefix="t-", pace=Pace.SCHEDULE, groups=groups)
    start = time.process_time()
    with collect_little():
        loaded = load(made.capture(), made.shelf, asked)
    target = topology({f"t-topic-{number}": 6 for number in range(CONNECTIONS)})
    for name, topic in target.topics.items():
        target.topics[name] = topic._replace(identity=topic_id(name))
        loaded.names.learn(name, topic_id(name))
    wire = Memory()
    board = ConnectionPool(asked, target, wire, lambda: "nonce")
    context = new_context(asked, loaded, target, lambda: board.now_ns, made.shelf.get)
    with collect_little():
        ready = prepare_requests(context, loaded.items if prepared else ())
    loading = time.process_time() - start
    finished: list[bool] = []
    table = Schedule(Pace.SCHEDULE, 1.0, START_NS, 0)
    player = Player(
        PlayerSetup(
            replay_input=loaded,
            items=loaded.items,
            context=context,
            pool=board,
            schedule=table,
            limits=RunLimits(asked.caps, asked.breaker),
            prepared=ready,
            spool=made.shelf,
            finished=lambda: finished.append(True),
        )
    )
    now, theirs = 0, 0.0
    warm_up()
    with collect_little():
        start = time.process_time()
        board.wake(0)
        player.start()
        while not finished:
            now += TICK_NS
            board.wake(now)
            player.wake()
            asking, wire.waiting = wire.waiting, []
            if not asking:
                continue
            begin = time.process_time()
            answers = [answer(data) if data else b"" for _, data in asking]
            framed = [len(said).to_bytes(4, "big") + said for said in answers]
            theirs += time.process_time() - begin
            for (link, data), said in zip(asking, framed, strict=True):
                if not data:
                    board.connected(link, HERE)
                elif not link.closed:
                    link.received(said, now)
        took = time.process_time() - start - theirs
    ends = Counter(f"{result.bucket} {result.reason}".strip() for result in player.results)
    most = ", ".join(f"{count:,} {end}" for end, count in ends.most_common(3))
    return loading / len(loaded.items) * 1e6, took / len(loaded.items) * 1e6, most


if __name__ == "__main__":
    main()
