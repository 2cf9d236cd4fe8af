"""`kdissect ready`: exit code 3 where a newer Kafka would break clients, 0 where it would not."""

import json
from pathlib import Path

import pytest

from tests.helpers.command import kdissect
from tests.helpers.command_here import kdissect_here

CAPTURES = Path(__file__).parents[2] / "captures"


def test_old_clients_break() -> None:
    done = kdissect_here("ready", CAPTURES / "old-broker.pcap", "--quiet", "--format", "json")
    assert done.returncode == 3
    verdicts = {row["verdict"] for row in json.loads(done.stdout)["obstacles"]}
    assert "breaks" in verdicts


@pytest.mark.spark
def test_clients_of_today_do_not() -> None:
    done = kdissect("ready", CAPTURES / "steady.pcapng", "--quiet", "--format", "json")
    assert done.returncode == 0
    assert "breaks" not in {row["verdict"] for row in json.loads(done.stdout)["obstacles"]}
