"""`replay.plan_totals`: requests of one shape count as many as they are, and the peak is that of a second."""

from __future__ import annotations

from random import Random

import numpy as np

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.load.analysis import load
from kdissect.replay.plan_totals import PeakRates, PlanTotals
from tests.helpers.paper_target import Script, settings


def test_many_requests_are_counted_at_once() -> None:
    script = Script()
    for number in range(5):
        script.add(number, ApiKey.METADATA, 9, {"topics": []})
    loaded = load(script.capture(), script.shelf, settings())
    items, totals = loaded.items, PlanTotals(5)
    totals.count = 3
    totals.add_sent(items[0], 12)
    totals.add_notes(["Metadata v9 as v12, without x", "split"])
    totals.count = 1
    totals.add_sent(items[4], 9)
    totals.count = 2
    totals.add_skipped(items[1], SkipRequest(Disposition.LOSSY, "it loses x"))
    totals.add_nameless([b"id"])
    assert totals.sent(loaded.known.alike(items.refusals_of), items, {4, 1}).tolist() == [0, 4]
    assert totals.apis == {"Metadata": {"captured": 6, "sent": 4, "retries": 1, "converted": 3, "skipped": 2}}
    assert totals.dispositions == {Disposition.ANSWERED: 4, Disposition.LOSSY: 2}
    assert totals.skipped == {("Metadata", "lossy", "it loses x"): 2}
    assert totals.versions == {("Metadata", 9, 12): 3}
    assert (totals.losses, totals.nameless_ids) == ({"Metadata v9 as v12, without x": 3}, {b"id": 2})


def test_the_peak_is_that_of_a_second_however_requests_are_given() -> None:
    for seed in range(20):
        chance = Random(seed)
        due_ns = sorted(chance.randrange(5_000_000_000) for _ in range(40))
        sizes = [chance.randrange(100) for _ in due_ns]
        requests, byte_counts = [0] * 5, [0] * 5
        for due, size in zip(due_ns, sizes, strict=True):
            requests[due // 10**9] += 1
            byte_counts[due // 10**9] += size
        peaks, begin = PeakRates(), 0
        while begin < len(due_ns):
            end = begin + chance.randrange(9)
            peaks.add(np.array(due_ns[begin:end], np.int64), np.array(sizes[begin:end], np.int64))
            begin = end
        assert (peaks.requests, peaks.bytes) == (max(requests), max(byte_counts))
        assert (peaks.all_bytes, peaks.last_ns) == (sum(sizes), due_ns[-1])
