"""`kdissect ready`: exit code 3 where a newer Kafka would break clients, 0 where it would not."""

import json
from pathlib import Path

import pytest

from tests.helpers.command import WITHOUT_SPARK, kdissect

CAPTURES = Path(__file__).parents[2] / "captures"
pytestmark = pytest.mark.spark


def test_old_clients_break() -> None:
    done = kdissect("ready", CAPTURES / "old-broker.pcap", "--quiet", "--format", "json", **WITHOUT_SPARK)
    assert done.returncode == 3
    verdicts = {row["verdict"] for row in json.loads(done.stdout)["obstacles"]}
    assert "breaks" in verdicts


def test_clients_of_today_do_not() -> None:
    done = kdissect("ready", CAPTURES / "steady.pcapng", "--quiet", "--format", "json")
    assert done.returncode == 0
    assert "breaks" not in {row["verdict"] for row in json.loads(done.stdout)["obstacles"]}
