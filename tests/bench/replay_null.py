"""How many requests a second does one core hold on schedule? Against a broker that does nothing.

    python tests/bench/replay_null.py [REQUESTS_PER_SECOND [SECONDS [CONNECTIONS [PROCESSES]]]]

Half of the requests are Produce 9 with one record of 100 bytes (half of those idempotent, so that batches are renumbered and
their checksums patched), a quarter Metadata 9, a quarter FindCoordinator 3. Lag is what a request was sent later than due.
"""

import json
import resource
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from kafka.record import MemoryRecordsBuilder
from replay.handmade import Script

from kdissect.protocol.headers import decode_request
from kdissect.replay.loading.items import load
from kdissect.replay.mapping.topology import Topology
from kdissect.replay.playing import running
from kdissect.replay.playing.outcomes import Outcome
from kdissect.replay.playing.running import Replay, collecting_little
from kdissect.replay.settings import Pace, Settings

START_NS = 1_700_000_000_000_000_000
TOOK: dict[str, object] = {"responses": []}
DONE_INIT = {"error_code": 0, "producer_epoch": 0}


def batch(sequence: int, producer: int = -1) -> bytes:
    """Give a batch of one record; idempotent if it has a sequence."""
    more = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence} if sequence >= 0 else {}
    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 16, **more)
    builder.append(timestamp=1_700_000_000_000, key=b"key", value=b"v" * 100)
    builder.close()
    return bytes(builder.buffer())


def script(rate: int, seconds: int, connections: int) -> Script:
    """Write the capture."""
    made = Script()
    for connection in range(connections):
        body, issued = (
            {"transactional_id": None, "transaction_timeout_ms": 1},
            DONE_INIT | {"producer_id": 500 + connection},
        )
        made.add(0, 22, 4, body, issued, connection=connection)
    plain = batch(-1)
    sequences: Counter[int] = Counter()
    for number in range(rate * seconds):
        at_ms, connection, kind = 100 + number * 1000 / rate, number % connections, number // connections % 4
        if kind < 2:
            records = plain
            if kind:
                records = batch(sequences[connection], 500 + connection)
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
    """Run once and print what it took."""
    rate, seconds, connections, processes = (
        int(each) for each in (*sys.argv[1:], *("20000", "10", "50", "1")[len(sys.argv) - 1 :])
    )
    with subprocess.Popen([sys.executable, str(Path(__file__).with_name("null_broker.py"))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as broker:  # fmt: skip
        try:
            assert broker.stdout is not None
            port = int(broker.stdout.readline())
            measure(port, script(rate, seconds, connections), rate, connections, processes)
            told, _ = broker.communicate()
            print(f"the broker took {sum(json.loads(told).values()) * 1e6 / rate / seconds:.1f} µs for each")
        finally:
            broker.kill()


class Bench(Replay):
    """A replay of a capture that was never recorded."""

    def __init__(self, asked: Settings, made: Script) -> None:
        self.settings, self.shelf = asked, made.shelf
        with collecting_little():
            self.loaded = load(made.capture(), made.shelf, asked)
        self.topology = Topology(lambda _address: None, lambda _address: None)
        self.passes = []


class Metered(running.Act):
    """Notes what it took of the processor; the figures go with the counts, from whichever process."""

    def play(self, begin_ns: int) -> Outcome:
        before = resource.getrusage(resource.RUSAGE_SELF)
        outcome = super().play(begin_ns)
        after = resource.getrusage(resource.RUSAGE_SELF)
        outcome.counts["user µs"] = round((after.ru_utime - before.ru_utime) * 1e6)
        outcome.counts["system µs"] = round((after.ru_stime - before.ru_stime) * 1e6)
        return outcome


def yardstick(made: Script) -> float:
    """Give the µs that decoding one Produce request takes on this machine just now."""
    frame = made.shelf.get(made.requests[1].frame) or b""
    start = time.process_time()
    for _ in range(3000):
        decode_request(frame)
    return (time.process_time() - start) / 3000 * 1e6


def measure(port: int, made: Script, rate: int, connections: int, processes: int) -> None:
    """Load, replay, print."""
    asked = Settings(target=(("127.0.0.1", port),), prefix="t-", pace=Pace.SCHEDULE, processes=processes)
    running.Act = Metered  # type: ignore[misc]
    bench = Bench(asked, made)
    stage = bench.stage()
    bench.errand(stage.learn_topics([f"t-topic-{number}" for number in range(connections)]))
    before = yardstick(made)
    bench.play(rescue=lambda *_: None)  # with a journal, as the command does
    after = yardstick(made)
    played = bench.passes[0]
    results = list(played.outcome.results)
    wall = (max(result.received_ns or 0 for result in results) - played.start_ns) / 1e9
    lags = sorted(result.lag_ns or 0 for result in results)
    buckets = Counter(result.bucket.value for result in results)
    count, user, system = len(lags), *(played.outcome.counts[name] for name in ("user µs", "system µs"))
    print(
        f"{count:,} requests at {rate:,}/s in {wall:.1f} s ({count / wall:,.0f}/s) by {len(played.shelves)} process(es); "
        f"lag p50 {lags[count // 2] / 1e6:.2f} ms, p99 {lags[count * 99 // 100] / 1e6:.2f} ms, max {lags[-1] / 1e6:.1f} ms; "
        f"{(user + system) / count:.1f} µs of processor each ({user / count:.1f} user, {system / count:.1f} system); "
        f"decoding one Produce took {before:.0f} and {after:.0f} µs; {dict(buckets)} {played.outcome.stopped}"
    )


if __name__ == "__main__":
    main()
