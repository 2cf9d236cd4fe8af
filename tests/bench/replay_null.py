"""How many requests a second does one core hold on schedule? Against a broker that does nothing.

    python tests/bench/replay_null.py [REQUESTS_PER_SECOND [SECONDS [CONNECTIONS]]]

Half of the requests are Produce 9 with one record of 100 bytes (half of those idempotent, so that batches are renumbered and
their checksums patched), a quarter Metadata 9, a quarter FindCoordinator 3. Lag is what a request was sent later than due.
"""

import json
import resource
import subprocess
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from kafka.record import MemoryRecordsBuilder
from replay.handmade import Script

from kdissect.replay.courses.stage import Stage
from kdissect.replay.linking.switchboard import Switchboard
from kdissect.replay.linking.transport import Idle, SocketWire, nonce, now_ns, play
from kdissect.replay.loading.items import load
from kdissect.replay.mapping.topology import Topology
from kdissect.replay.playing.pace import Timetable
from kdissect.replay.playing.player import Player
from kdissect.replay.playing.ready import make_ready
from kdissect.replay.playing.running import _Playing, collecting_little, unhindered
from kdissect.replay.settings import Pace, Settings

START_NS = 1_700_000_000_000_000_000
TOOK: dict[str, object] = {"responses": []}
DONE_INIT = {"error_code": 0, "producer_id": 500, "producer_epoch": 0}


def batch(sequence: int) -> bytes:
    """Give a batch of one record; idempotent if it has a sequence."""
    more = {"producer_id": 500, "producer_epoch": 0, "base_sequence": sequence} if sequence >= 0 else {}
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 16, **more)
    builder.append(timestamp=1_700_000_000_000, key=b"key", value=b"v" * 100)
    builder.close()
    return bytes(builder.buffer())


def script(rate: int, seconds: int, connections: int) -> Script:
    """Write the capture."""
    made = Script()
    made.add(0, 22, 4, {"transactional_id": None, "transaction_timeout_ms": 1}, DONE_INIT, connection=0)
    plain = batch(-1)
    sequences: Counter[int] = Counter()
    for number in range(rate * seconds):
        at_ms, connection, kind = 100 + number * 1000 / rate, number % connections, number // connections % 4
        if kind < 2:
            records = plain
            if kind:
                records = batch(sequences[connection])
                sequences[connection] += 1
            name = f"topic-{connection}"  # a partition of its own for each connection, as sequences want
            data = [{"name": name, "partition_data": [{"index": 0, "records": records}]}]
            made.add(
                at_ms,
                0,
                9,
                {"acks": 1, "timeout_ms": 1000, "topic_data": data},
                TOOK,
                connection=connection,
                in_flight=5,
            )
        elif kind == 2:
            made.add(at_ms, 3, 9, {"topics": [{"name": "topic-1"}]}, connection=connection, in_flight=5)
        else:
            made.add(at_ms, 10, 3, {"key": "group", "key_type": 0}, connection=connection, in_flight=5)
    return made


def main() -> None:
    """Run once and print one line."""
    rate, seconds, connections = (
        int(each) for each in (*sys.argv[1:], *("20000", "10", "50")[len(sys.argv) - 1 :])
    )
    with subprocess.Popen([sys.executable, str(Path(__file__).with_name("null_broker.py"))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as broker:  # fmt: skip
        try:
            assert broker.stdout is not None
            measure(int(broker.stdout.readline()), script(rate, seconds, connections), rate, connections)
            told, _ = broker.communicate()
            print(f"the broker took {sum(json.loads(told).values()) * 1e6 / rate / seconds:.1f} µs for each")
        finally:
            broker.kill()


def measure(port: int, made: Script, rate: int, connections: int) -> None:
    """Load, replay, print."""
    asked = Settings(target=(("127.0.0.1", port),), prefix="t-", pace=Pace.SCHEDULE)
    begun = time.process_time()
    with collecting_little():
        loaded = load(made.capture(), made.shelf, asked)
    topology = Topology(lambda _address: None, lambda _address: None)
    stage = Stage(asked, loaded, topology, now_ns, made.shelf.get)
    wire = SocketWire(None)
    board = Switchboard(asked, topology, wire, nonce)
    learnt: list[object] = []
    topics = [f"t-topic-{number}" for number in range(connections)]
    play(board, wire, Idle(), lambda: board.run(stage.learn_topics(topics), "control", lambda *it: learnt.append(it)), lambda: bool(learnt))  # fmt: skip
    with collecting_little():
        ready = make_ready(stage, made.shelf)
    loading = time.process_time() - begun
    wire = SocketWire(None)
    board = Switchboard(asked, topology, wire, nonce)
    finished: list[bool] = []
    table = Timetable(Pace.SCHEDULE, 1.0, START_NS, 0)
    player = Player(loaded, stage, board, table, made.shelf, lambda: finished.append(True), ready)
    with unhindered():
        before = resource.getrusage(resource.RUSAGE_SELF)
        start = now_ns() + player.lead_ns
        play(board, wire, _Playing(player), partial(player.start, start), lambda: bool(finished))
        after = resource.getrusage(resource.RUSAGE_SELF)
    wall = (now_ns() - start) / 1e9
    lags = sorted(result.lag_ns or 0 for result in player.results)
    buckets = Counter(result.bucket.value for result in player.results)
    user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
    count = len(lags)
    print(
        f"{count:,} requests at {rate:,}/s in {wall:.1f} s ({count / wall:,.0f}/s); "
        f"lag p50 {lags[count // 2] / 1e6:.2f} ms, p99 {lags[count * 99 // 100] / 1e6:.2f} ms, max {lags[-1] / 1e6:.1f} ms; "
        f"{1e6 * (user + system) / count:.1f} µs of processor each ({1e6 * user / count:.1f} user, {1e6 * system / count:.1f} system), "
        f"{1e6 * loading / count:.0f} µs before the clock started; {dict(buckets)} {player.stopped}"
    )


if __name__ == "__main__":
    main()
