"""Time the columnar reader, on one core: how long a message takes, by kind and in a chatty mix, and against
the plain codec.

    python tests/bench/bench_columns.py --messages 200000

The messages of a kind differ in their numbers and names, so that branches are not learnt by heart. Times are
the best of several runs, per message, in seconds of this process, with everything from bytes to columns in
them; compiling is told apart.
"""

import argparse
import random
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from kdissect.protocol.codec.messages import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from kdissect.protocol.columnar.batch_reader import Columns, read


class Kind(NamedTuple):
    """One kind of message: its share in the mix, and how a body is made."""

    key: int
    version: int
    response: bool
    share: int
    body: Callable[[random.Random], dict[str, Any]]


class Batch(NamedTuple):
    """Messages as the reader takes them."""

    frames: list[bytes]
    arena: np.ndarray
    edges: np.ndarray
    key: np.ndarray
    version: np.ndarray
    response: np.ndarray


def main() -> None:
    """Print the table of times."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=100_000, help="how many of each kind")
    parser.add_argument("--runs", type=int, default=5, help="how many runs the best is taken of")
    options = parser.parse_args()
    started = time.process_time()
    read_batch(make_batch(list(KINDS.values()), 100))
    print(f"first use, compiling included: {time.process_time() - started:.1f} s")
    print(f"{'messages':34} {'bytes':>6} {'us each':>8} {'rows':>6} {'codec/columns':>14}")
    for name, kind in KINDS.items():
        report(name, make_batch([kind], options.messages), options.runs)
    mix = [kind for kind in KINDS.values() for _ in range(kind.share)]
    report("chatty mix, by share", make_batch(mix, options.messages), options.runs)


def report(name: str, batch: Batch, runs: int) -> None:
    """Print one line: size, time, rows per message, and how many times as long the plain codec takes."""
    count = len(batch.frames)
    best = min(timed(batch) for _ in range(runs))
    rows = len(read_batch(batch).partitions)
    sample = range(min(count, 2000))
    started = time.process_time()
    for at in sample:
        decode_plainly(batch, at)
    plain = (time.process_time() - started) / len(sample)
    size = len(batch.arena) / count
    print(f"{name:34} {size:6.0f} {1e6 * best / count:8.3f} {rows / count:6.1f} {plain * count / best:14.0f}")


def timed(batch: Batch) -> float:
    """Return the seconds that one reading takes."""
    started = time.process_time()
    read_batch(batch)
    return time.process_time() - started


def read_batch(batch: Batch) -> Columns:
    """Read a batch by the columnar reader."""
    start, stop = batch.edges[:-1], batch.edges[1:]
    columns = read(batch.arena, start, stop, stop, batch.key, batch.version, batch.response)
    assert not columns.fault_reason.any()
    return columns


def decode_plainly(batch: Batch, at: int) -> None:
    """Decode one message by the plain codec."""
    if batch.response[at]:
        whole = decode_response(batch.frames[at], int(batch.key[at]), int(batch.version[at]))
    else:
        whole = decode_request(batch.frames[at])
    assert whole.fault is None


def make_batch(kinds: list[Kind], count: int) -> Batch:
    """Make messages of the kinds in turn; a thousand of them differ."""
    chance = random.Random(7)
    made = [kinds[at % len(kinds)] for at in range(count)]
    pool: dict[Kind, list[bytes]] = {}
    for kind in set(made):
        pool[kind] = [frame(kind, chance) for _ in range(200)]
    chance.shuffle(made)
    frames = [chance.choice(pool[kind]) for kind in made]
    return Batch(
        frames=frames,
        arena=np.frombuffer(b"".join(frames), np.uint8),
        edges=np.cumsum([0, *map(len, frames)]),
        key=np.array([kind.key for kind in made], np.int16),
        version=np.array([kind.version for kind in made], np.int16),
        response=np.array([kind.response for kind in made]),
    )


def frame(kind: Kind, chance: random.Random) -> bytes:
    """Make one message with its header."""
    body, correlation = kind.body(chance), chance.randrange(1 << 30)
    if kind.response:
        return encode_response(kind.key, kind.version, {"correlation_id": correlation}, body)
    header = {
        "request_api_key": kind.key,
        "request_api_version": kind.version,
        "correlation_id": correlation,
        "client_id": f"client-{chance.randrange(1000)}",
    }
    return encode_request(header, body)


def topics(chance: random.Random, most: int, partitions: int) -> Iterator[tuple[str, range]]:
    """Yield names of topics, and partitions."""
    for _ in range(most):
        yield f"topic-{chance.randrange(10 ** chance.randrange(1, 6))}", range(partitions)


def record_batch(chance: random.Random, size: int) -> bytes:
    """Make a batch that has a true header; what is inside does not matter here."""
    records = b"r" * size
    length = (49 + size).to_bytes(4)
    attributes = chance.choice((0, 1, 4)).to_bytes(2)
    return (
        chance.randbytes(8) + length + bytes(4) + b"\2" + bytes(4) + attributes + chance.randbytes(32)
        + bytes(2) + (size // 40 + 1).to_bytes(4) + records
    )  # fmt: skip


def produce(partitions: int, size: int) -> Callable[[random.Random], dict[str, Any]]:
    """Make a maker of produce requests."""

    def body(chance: random.Random) -> dict[str, Any]:
        return {
            "acks": -1,
            "timeout_ms": 30000,
            "topic_data": [
                {
                    "name": name,
                    "partition_data": [
                        {"index": at, "records": record_batch(chance, size)} for at in indexes
                    ],
                }
                for name, indexes in topics(chance, 1, partitions)
            ],
        }

    return body


def produced(partitions: int) -> Callable[[random.Random], dict[str, Any]]:
    """Make a maker of produce responses."""

    def body(chance: random.Random) -> dict[str, Any]:
        return {
            "responses": [
                {
                    "name": name,
                    "partition_responses": [
                        {"index": at, "error_code": 0, "base_offset": chance.randrange(1 << 40)}
                        for at in indexes
                    ],
                }
                for name, indexes in topics(chance, 1, partitions)
            ]
        }

    return body


def fetch(chance: random.Random) -> dict[str, Any]:
    """Make an incremental fetch request: most of them name nothing."""
    named = [
        {
            "topic": name,
            "partitions": [{"partition": at, "fetch_offset": chance.randrange(1 << 40)} for at in indexes],
        }
        for name, indexes in topics(chance, chance.choice((0, 0, 1)), 2)
    ]
    return {"max_wait_ms": 500, "min_bytes": 1, "session_id": 5, "topics": named, "forgotten_topics_data": []}


def fetched(chance: random.Random) -> dict[str, Any]:
    """Make an incremental fetch response."""
    return {
        "session_id": 5,
        "responses": [
            {
                "topic": name,
                "partitions": [
                    {"partition_index": at, "high_watermark": 9, "records": record_batch(chance, 400)}
                    for at in indexes
                ],
            }
            for name, indexes in topics(chance, chance.choice((0, 1, 1)), 2)
        ],
    }


def member(chance: random.Random) -> dict[str, Any]:
    """Make a heartbeat."""
    return {
        "group_id": f"group-{chance.randrange(100)}",
        "generation_id": chance.randrange(1000),
        "member_id": f"consumer-{chance.randbytes(16).hex()}",
    }


def commit(chance: random.Random) -> dict[str, Any]:
    """Make an offset commit of two partitions."""
    named = [
        {
            "name": name,
            "partitions": [
                {
                    "partition_index": at,
                    "committed_offset": chance.randrange(1 << 40),
                    "committed_metadata": "",
                }
                for at in indexes
            ],
        }
        for name, indexes in topics(chance, 1, 2)
    ]
    return {"group_id": "group", "generation_id_or_member_epoch": 5, "member_id": "consumer", "topics": named}


def metadata(chance: random.Random) -> dict[str, Any]:
    """Make a metadata response of 3 brokers and 240 partitions."""
    return {
        "brokers": [{"node_id": at, "host": f"broker-{at}.example.com", "port": 9092} for at in range(3)],
        "cluster_id": "cluster",
        "topics": [
            {
                "name": name,
                "partitions": [
                    {
                        "partition_index": at,
                        "leader_id": at % 3,
                        "replica_nodes": [0, 1, 2],
                        "isr_nodes": [0, 1, 2],
                        "offline_replicas": [],
                    }
                    for at in indexes
                ],
            }
            for name, indexes in topics(chance, 10, 24)
        ],
    }


KINDS = {
    "Produce v9, 8 partitions of 1 KB": Kind(0, 9, False, 0, produce(8, 1000)),
    "Produce v9 response, 8 partitions": Kind(0, 9, True, 0, produced(8)),
    "Produce v8, 1 partition": Kind(0, 8, False, 10, produce(1, 300)),
    "Produce v8 response, 1 partition": Kind(0, 8, True, 10, produced(1)),
    "Fetch v12, 0 to 2 partitions": Kind(1, 12, False, 20, fetch),
    "Fetch v12 response, 0 to 2": Kind(1, 12, True, 20, fetched),
    "Heartbeat v4": Kind(12, 4, False, 10, member),
    "Heartbeat v4 response": Kind(12, 4, True, 10, lambda _: {"error_code": 0}),
    "OffsetCommit v8, 2 partitions": Kind(8, 8, False, 5, commit),
    "Metadata v12 response, 240": Kind(3, 12, True, 0, metadata),
}


if __name__ == "__main__":
    main()
