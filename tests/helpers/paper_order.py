"""Brokers on paper that answer late, refuse and lose answers, and scripts of producers with numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from kdissect.protocol.records.record_decoder import read_records
from kdissect.replay.net.connection import Connection
from kdissect.replay.rewrite.batch_rewrite import (
    CapturedBatch,
    batch_of,
)
from kdissect.replay.settings import Pace
from tests.helpers.paper_cluster import (
    ADD,
    COORDINATOR,
    END,
    INIT,
    PRODUCE,
    Cluster,
    batch,
    issued,
    orders,
    produce,
    took,
)
from tests.helpers.paper_target import (
    MS,
    FarTarget,
    OnPaper,
    Script,
    Tree,
    play,
    settings,
)

NOT_LEADER, TOO_LARGE, OUT_OF_ORDER, OLD_EPOCH = 6, 10, 45, 47


LIMIT = 1 << 31


WRITTEN = 1280  # records of broker-restart.pcapng, by its clients' own account


class Strict(Cluster):
    """A target that accepts a producer only in sequence, and writes no batch twice, as brokers do."""

    def __init__(self, fails: Callable[[CapturedBatch], int] = lambda _batch: 0) -> None:
        super().__init__()
        self.fails = fails
        self.log: dict[int, list[bytes]] = defaultdict(list)  # partition -> batches
        self.refusals: list[tuple[int, int, int, int]] = []  # error, partition, epoch, sequence
        self.repeated = 0
        self._last: dict[tuple[int, int], tuple[int, list[tuple[int, int]]]] = {}

    def __call__(self, key: int, version: int, body: Tree) -> Tree | None:
        if key in (INIT, COORDINATOR, ADD, END):
            return super().__call__(key, version, body)
        if key != PRODUCE:
            return {}
        answer = []
        for topic in body["topic_data"]:
            name = {each: topic[each] for each in ("name", "topic_id") if each in topic}
            parts = [
                {
                    "index": each["index"],
                    "error_code": self._take(each["index"], batch_of(each["records"])),
                    "base_offset": 0,
                }
                for each in topic["partition_data"]
            ]
            answer.append(name | {"partition_responses": parts})
        return {"responses": answer}

    def _take(self, partition: int, one: CapturedBatch) -> int:
        error = self.fails(one) or (self._number(partition, one) if one.producer_id >= 0 else 0)
        if error > 0:
            self.refusals.append((error, partition, one.producer_epoch, one.base_sequence))
        elif error < 0:
            self.repeated += 1
        else:
            self.log[partition].append(one.data)
        return max(error, 0)

    def _number(self, partition: int, one: CapturedBatch) -> int:
        epoch, taken = self._last.get((partition, one.producer_id), (-1, []))
        this = one.base_sequence, (one.base_sequence + one.records) % LIMIT
        if one.producer_epoch < epoch:
            return OLD_EPOCH
        if one.producer_epoch > epoch:
            if epoch >= 0 and this[0]:
                return OUT_OF_ORDER
            taken = []
        elif this in taken:
            return -1
        elif taken and this[0] != taken[-1][1]:
            return OUT_OF_ORDER
        self._last[partition, one.producer_id] = one.producer_epoch, [*taken[-4:], this]
        return 0


def far(
    script: Script,
    strict: Strict,
    lag: Callable[[Connection], int] = lambda _link: MS,
    leaders: int = 2,
    prepared: bool = False,
    **more: float,
) -> OnPaper:
    asked = settings(pace=Pace.ASAP, **more)
    target = FarTarget(strict, lag=lag)
    return play(script.capture(), script.shelf, target, orders(leaders), asked, prepared=prepared)


def begun() -> Script:
    script = Script()
    script.add(0, INIT, 4, {"transactional_id": None, "transaction_timeout_ms": 1}, issued(900, 4))
    return script


def numbered(script: Script, *texts: bytes, first: int = 0, **how: int) -> None:
    """Add batches of one record for the first partition, in sequence."""
    for number, text in enumerate(texts, first):
        script.add(1 + number, PRODUCE, 9, produce(batch(number, text=text)), took(0), **how)


def values(strict: Strict, partition: int) -> list[int]:
    """Return the numbers that a partition's records have as their values, in order."""
    return [int(next(read_records(data)).value or b"") for data in strict.log[partition]]
