"""`replay.handlers.replay_context`: a frozen bundle, made anew for each pass."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace

import pytest

from kdissect.replay.handlers.replay_context import ReplayContext, new_context
from kdissect.replay.load.analysis import load
from tests.helpers.paper_target import Script, settings, topology

OUTLIVES_A_PASS = {"settings", "loaded", "cluster", "names"}


def test_nobody_can_put_another_collaborator_in_and_passes_share_no_state() -> None:
    script, asked = Script(), settings()
    loaded, cluster = load(script.capture(), script.shelf, asked), topology()
    first, second = (new_context(asked, loaded, cluster, lambda: 0, script.shelf.get) for _ in range(2))
    with pytest.raises(FrozenInstanceError):
        first.producers = second.producers  # type: ignore[misc]
    shared = {
        each.name for each in fields(ReplayContext) if getattr(first, each.name) is getattr(second, each.name)
    }
    assert shared == OUTLIVES_A_PASS
    narrowed = replace(first, settings=settings(speed=2.0))
    assert (narrowed.settings.speed, narrowed.producers) == (2.0, first.producers)
