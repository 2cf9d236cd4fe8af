"""Clients that close connections on which a fetch waits: told as stories, and what only looks like it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.told_capture import T0_MS, Story
from tests.helpers.told_groups import analyzed, background, causes_of, impatient


def test_a_request_timeout_below_the_wait_of_a_fetch(tmp_path: Path) -> None:
    """The fetches are answered as they ask, and their connections are closed before."""
    story = Story()
    background(story)
    impatient()(story)
    (incident,) = analyzed(story, tmp_path).incidents
    assert incident.cause == "request_timeout_short"
    assert incident.subject.name == "hasty at 10.1.0.8"
    assert "closed 40 connections, typically 150ms old" in incident.headline
    assert incident.begin_ns / 1e6 - T0_MS == pytest.approx(8_000, abs=1)
    assert any("opened 40 connections" in one for one in incident.consequences)


def test_a_client_that_needs_a_while_until_it_fetches(tmp_path: Path) -> None:
    assert causes_of(impatient(before_ms=56), tmp_path)[0] == "request_timeout_short"


@pytest.mark.parametrize(
    "tell",
    [impatient(7), impatient(age_ms=190), impatient(by_client=False), impatient(age_ms=40, spread=0.9)],
    ids=["seven", "closed after the answer", "the server closes", "of all ages"],
)
def test_connections_that_end_for_another_reason(tell: Callable[[Story], None], tmp_path: Path) -> None:
    assert "request_timeout_short" not in causes_of(tell, tmp_path)
