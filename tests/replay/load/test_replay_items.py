"""`replay.load.replay_items`: items of requests that are refused, and those that are sent."""

from __future__ import annotations

from kdissect.replay.load.replay_items import ReplayItems, sent_mask
from kdissect.replay.load.request_table import RequestTable


def test_no_request_has_no_items() -> None:
    items = ReplayItems(RequestTable())
    assert (len(items), list(items), sent_mask(items).tolist()) == (0, [], [])
    assert items.column("key").tolist() == []
