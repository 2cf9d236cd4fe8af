"""Software that changed, and what a service does otherwise since then."""

from pathlib import Path

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode
from kdissect.report.model.incidents import Signal
from tests.helpers.told_capture import Story
from tests.helpers.told_groups import analyzed, background, produce


def test_software_that_goes_back_and_forth_is_no_change(tmp_path: Path) -> None:
    story = Story()
    for number in range(6):
        line = story.connect("10.1.0.2", client_id=f"app-{number}", at_ms=5_000 * number)
        request = {"client_software_name": "app", "client_software_version": f"1.{number % 2}"}
        line.call(5_001 + 5_000 * number, 1, ApiKey.API_VERSIONS, 3, request, {"api_keys": []})
        produce(line, 5_100 + 5_000 * number)
    changed = [one for one in analyzed(story, tmp_path).signals if one.kind == "software_changed"]
    assert len(changed) <= 1


def deployed(story: Story, every_ms: int, count: int, took_ms: float, error: int = 0) -> None:
    """Two instances write every 200 ms; the new version does so in another way."""
    for number in range(2):
        host, name = f"10.1.0.{2 + number}", f"shop-{number}"
        old = story.connect(host, client_id=name)
        new = story.connect(host, client_id=name, at_ms=12_000)
        for line, at_ms, version in ((old, 5, "1.4.0"), (new, 12_005, "1.5.0")):
            request = {"client_software_name": "shop", "client_software_version": version}
            line.call(at_ms, 1, ApiKey.API_VERSIONS, 3, request, {"api_keys": []})
        for at_ms in range(100, 11_000, 200):
            produce(old, at_ms, count=10)
        old.close(11_500)
        for at_ms in range(12_100, 28_000, every_ms):
            produce(new, at_ms, count=count, took_ms=took_ms, error=error)


def worsened(story: Story, tmp_path: Path) -> list[Signal]:
    background(story)
    return [one for one in analyzed(story, tmp_path).signals if one.kind == "service_worsened"]


@pytest.mark.parametrize(
    ("every_ms", "count", "took_ms", "error", "words"),
    [
        (40, 2, 2, 0, "went from 5 to 25 requests a second for each client, with 2.0 records each"),
        (200, 10, 60, 0, "went from"),
        (200, 10, 2, ErrorCode.INVALID_RECORD, "fails"),
    ],
    ids=["more requests", "slower", "errors"],
)
def test_what_a_service_does_worse_since_its_new_version(
    every_ms: int, count: int, took_ms: float, error: int, words: str, tmp_path: Path
) -> None:
    story = Story()
    deployed(story, every_ms, count, took_ms, error)
    (signal,) = worsened(story, tmp_path)
    assert f"Produce of shop {words}" in signal.sentence
    assert len(signal.clients) == 3  # both instances, and the service


@pytest.mark.parametrize(
    ("every_ms", "count", "took_ms"),
    [(200, 10, 2), (40, 10, 2), (200, 10, 5)],
    ids=["same", "more load", "jitter"],
)
def test_a_new_version_that_does_as_well(every_ms: int, count: int, took_ms: float, tmp_path: Path) -> None:
    story = Story()
    deployed(story, every_ms, count, took_ms)
    assert worsened(story, tmp_path) == []
