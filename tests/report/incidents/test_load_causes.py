"""Refused writes that a client repeats without a pause are told once."""

from pathlib import Path

from tests.helpers.told_capture import Story
from tests.helpers.told_groups import causes_of
from tests.report.incidents.test_client_causes import retries_with_pauses, retry_storm


def test_refused_writes_of_one_client_are_told_once(tmp_path: Path) -> None:
    assert causes_of(retry_storm, tmp_path) == ["retry_storm"]


def test_refused_writes_of_several_clients_are_no_storm_of_one(tmp_path: Path) -> None:
    def both(story: Story) -> None:
        retry_storm(story)
        retries_with_pauses(story)

    assert causes_of(both, tmp_path) == ["too_few_in_sync_replicas"]
