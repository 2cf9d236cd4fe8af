"""Groups, topics and activity of clients, from the tables of a report."""

from pathlib import Path

import pytest

from kdissect.protocol.error_codes import ErrorCode
from kdissect.report.signals.client_names import BROKERS_OWN
from tests.helpers.told_capture import Story
from tests.helpers.told_groups import analyzed, heartbeat, join, produce


@pytest.mark.parametrize(
    ("client_id", "own"),
    [
        ("broker-1-fetcher-0", True),
        ("broker-2-txn-marker-sender", True),
        ("AddPartitionsManager-client-3", True),
        ("Persister-client-1", True),
        ("raft-client-1", True),
        ("broker-service-1", False),
        ("craft-client-1", False),
    ],
)
def test_clients_that_are_parts_of_brokers(client_id: str, own: bool) -> None:
    assert bool(BROKERS_OWN.fullmatch(client_id)) is own


def test_a_client_that_was_there_before_is_not_dated_to_its_begin(tmp_path: Path) -> None:
    story = Story()
    line = story.connect("10.1.0.2", client_id="old")
    for at_ms in range(10, 12_000, 500):
        produce(line, at_ms)
    produce(line, 12_000, error=ErrorCode.MESSAGE_TOO_LARGE)
    summary = analyzed(story, tmp_path)
    (signal,) = (one for one in summary.signals if one.kind == "records_oversized")
    assert abs(signal.begin_ns - summary.capture.first_time_ns - 12_002_000_000) < 10**6


def test_the_groups_of_a_client_stand_beside_its_refusals(tmp_path: Path) -> None:
    story = Story()
    line = story.connect("10.1.0.2", client_id="both")
    join(line, 10, "both-1", 1)
    heartbeat(line, 500, "both-1", 1)
    produce(line, 1_000, error=ErrorCode.MESSAGE_TOO_LARGE)
    (signal,) = (one for one in analyzed(story, tmp_path).signals if one.kind == "records_oversized")
    assert signal.groups == ("readers",)
