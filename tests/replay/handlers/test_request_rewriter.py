"""`replay.handlers.request_rewriter`: versions that the target speaks, and losses that nobody allowed."""

from __future__ import annotations

import pytest

from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.handlers.replay_context import ReplayContext, new_context
from kdissect.replay.load.analysis import load
from kdissect.replay.load.replay_items import ReplayItem
from tests.helpers.paper_target import Script, settings, topology

LIST_OFFSETS = 2


def asked(spoken: tuple[int, int] | None, **more: object) -> tuple[ReplayContext, ReplayItem]:
    script = Script()
    partitions = [{"partition_index": 0, "timestamp": -1}]
    body = {"replica_id": -1, "isolation_level": 1, "topics": [{"name": "orders", "partitions": partitions}]}
    script.add(0, LIST_OFFSETS, 7, body)
    loaded = load(script.capture(), script.shelf, settings(**more))
    cluster = topology({"t-orders": 1})
    cluster.versions = {LIST_OFFSETS: spoken} if spoken else {}
    context = new_context(settings(**more), loaded, cluster, lambda: 0, script.shelf.get)
    return context, loaded.items[0]


@pytest.mark.parametrize(("spoken", "version"), [((1, 9), 7), ((1, 4), 4), ((8, 9), 8)])
def test_the_nearest_version_is_sent(spoken: tuple[int, int], version: int) -> None:
    context, item = asked(spoken)
    assert context.rewriter.version(item) == version
    body = context.rewriter.rewrite(item, context.captured.request(item.request), version)
    assert body["topics"][0]["name"] == "t-orders"
    notes = () if version == 7 else (f"ListOffsets v7 as v{version}",)
    assert context.notes.by_request.get(0, ()) == notes


def test_a_target_without_a_version_gets_nothing() -> None:
    for spoken, bounds in ((None, {}), ((1, 4), {"least": 5}), ((4, 9), {"most": 3})):
        context, item = asked(spoken)
        with pytest.raises(SkipRequest, match="does not speak ListOffsets") as skipped:
            context.rewriter.version(item, **bounds)
        assert skipped.value.bucket is Disposition.VERSION


def test_a_loss_has_to_be_allowed() -> None:
    context, item = asked((1, 1))
    with pytest.raises(SkipRequest, match="loses isolation_level") as skipped:
        context.rewriter.rewrite(item, context.captured.request(item.request), 1)
    assert skipped.value.bucket is Disposition.LOSSY
    context, item = asked((1, 1), allow_lossy=True)
    context.rewriter.rewrite(item, context.captured.request(item.request), 1)
    assert context.notes.by_request == {0: ("ListOffsets v7 as v1, without isolation_level",)}
