"""Refused writes that a client repeats are told once, and processes that start together are no storm."""

from pathlib import Path

import pytest

from tests.helpers.told_capture import Story
from tests.helpers.told_groups import causes_of, produce
from tests.report.incidents.test_client_causes import retries_with_pauses, retry_storm


def test_refused_writes_of_one_client_are_told_once(tmp_path: Path) -> None:
    assert causes_of(retry_storm, tmp_path) == ["retry_storm"]


def test_refused_writes_of_several_clients_are_no_storm_of_one(tmp_path: Path) -> None:
    def both(story: Story) -> None:
        retry_storm(story)
        retries_with_pauses(story)

    assert causes_of(both, tmp_path) == ["too_few_in_sync_replicas"]


@pytest.mark.parametrize(("kept", "causes"), [(True, []), (False, ["connection_storm"])])
def test_processes_of_one_name_that_start_together_are_no_storm(
    kept: bool, causes: list[str], tmp_path: Path
) -> None:
    def starting(story: Story) -> None:
        for number in range(36):
            line = story.connect("10.1.0.2", client_id="fleet", at_ms=10_000 + 200 * number)
            produce(line, 10_010 + 200 * number)
            if not kept:
                line.close(10_100 + 200 * number)

    assert causes_of(starting, tmp_path) == causes
