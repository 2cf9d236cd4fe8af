"""`replay.plan_totals`: requests of one shape count as many as they are."""

from __future__ import annotations

import numpy as np

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.load.analysis import load
from kdissect.replay.plan_totals import PlanTotals
from tests.helpers.paper_target import Script, settings


def test_many_requests_are_counted_at_once() -> None:
    script = Script()
    for number in range(2):
        script.add(number, ApiKey.METADATA, 9, {"topics": []})
    items = load(script.capture(), script.shelf, settings()).items
    totals = PlanTotals({4, 9})
    totals.requests = np.array([7, 3, 4])
    totals.add_sent(items[0], 12)
    totals.add_notes(["Metadata v9 as v12, without x", "split"])
    totals.requests = np.array([1, 2])
    totals.add_skipped(items[1], SkipRequest(Disposition.LOSSY, "it loses x"))
    totals.add_nameless([b"id"])
    assert totals.sent().tolist() == [3, 4, 7]
    assert totals.apis == {"Metadata": {"captured": 5, "sent": 3, "retries": 1, "converted": 3, "skipped": 2}}
    assert totals.dispositions == {Disposition.ANSWERED: 3, Disposition.LOSSY: 2}
    assert totals.skipped == {("Metadata", "lossy", "it loses x"): 2}
    assert totals.versions == {("Metadata", 9, 12): 3}
    assert (totals.losses, totals.nameless_ids) == ({"Metadata v9 as v12, without x": 3}, {b"id": 2})
