"""What a replayed request costs the processor, without sockets and whatever else the machine does.

    python tests/bench/replay_cpu.py

The traffic is that of `replay_null.py`: 20,000 requests. Processor time is counted from due to accounted, frames handed
over in memory; the decoding of one small Produce request is the yardstick for the machine.
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from null_broker import answer
from replay.handmade import Script, topology
from replay_null import START_NS, script

from kdissect.protocol.headers import decode_request
from kdissect.replay.courses.stage import Stage
from kdissect.replay.linking.links import Link
from kdissect.replay.linking.switchboard import Switchboard
from kdissect.replay.loading.items import load
from kdissect.replay.playing.pace import Timetable
from kdissect.replay.playing.player import Player
from kdissect.replay.playing.ready import make_ready
from kdissect.replay.playing.running import collecting_little, warm_up
from kdissect.replay.settings import Address, Pace, Settings

REQUESTS, CONNECTIONS, TICK_NS = 20_000, 50, 1_000_000


class Memory:
    """A wire that ends in a list."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Link, bytes]] = []

    def connect(self, link: Link, _address: Address) -> None:
        self.waiting.append((link, b""))

    def send(self, link: Link, data: bytes) -> None:
        self.waiting.append((link, data))

    def disconnect(self, _link: Link) -> None:
        """Nothing to close."""


def yardstick(made: Script) -> float:
    """Give the µs that decoding one Produce request takes."""
    frame = made.shelf.get(made.requests[1].frame) or b""
    start = time.process_time()
    for _ in range(3000):
        decode_request(frame)
    return (time.process_time() - start) / 3000 * 1e6


def main() -> None:
    """Measure what is ready before the clock starts, and what takes its ordinary course; print one line for each."""
    made = script(REQUESTS, 1, CONNECTIONS)
    unit = yardstick(made)
    for prepared in (True, False):
        before, each = measure(made, prepared)
        print(
            f"{'ready' if prepared else 'by course'}: {before:.0f} µs each before the clock starts, {each:.0f} µs each to play "
            f"({1e6 / each:,.0f} a second); decoding one Produce takes {unit:.0f} µs here"
        )


def measure(made: Script, prepared: bool) -> tuple[float, float]:
    """Give the µs that a request takes before the clock starts, and after."""
    asked = Settings(target=(("127.0.0.1", 1),), prefix="t-", pace=Pace.SCHEDULE)
    start = time.process_time()
    with collecting_little():
        loaded = load(made.capture(), made.shelf, asked)
    target = topology({f"t-topic-{number}": 6 for number in range(CONNECTIONS)})
    for name, topic in target.topics.items():
        loaded.names.learn(name, topic.identity)
    wire = Memory()
    board = Switchboard(asked, target, wire, lambda: "nonce")
    stage = Stage(asked, loaded, target, lambda: board.now_ns, made.shelf.get)
    with collecting_little():
        ready = make_ready(stage, made.shelf, loaded.items if prepared else ())
    loading = time.process_time() - start
    finished: list[bool] = []
    table = Timetable(Pace.SCHEDULE, 1.0, START_NS, 0)
    player = Player(loaded, stage, board, table, made.shelf, lambda: finished.append(True), ready)
    now = 0
    warm_up()
    with collecting_little():
        start = time.process_time()
        board.wake(0)
        player.start()
        while not finished:
            now += TICK_NS
            board.wake(now)
            player.wake()
            asking, wire.waiting = wire.waiting, []
            for link, data in asking:
                if not data:
                    board.connected(link, ("127.0.0.1", 1))
                elif not link.closed:
                    said = answer(data)
                    link.received(len(said).to_bytes(4, "big") + said, now)
    took = time.process_time() - start
    return loading / len(loaded.items) * 1e6, took / len(loaded.items) * 1e6


if __name__ == "__main__":
    main()
