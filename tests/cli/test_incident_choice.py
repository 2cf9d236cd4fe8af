"""`slice --incident N` chooses what the report that Spark makes calls its N-th incident."""

import json
from pathlib import Path

import pytest

from tests.helpers.command import kdissect
from tests.helpers.command_here import kdissect_here
from tests.slice.sliced_capture import CAPTURES, make_slice, needs_tshark, tshark

FROZEN = CAPTURES / "incidents" / "broker-frozen-1.pcapng.zst"


@pytest.mark.spark
def test_the_headline_is_that_of_analyze(tmp_path: Path) -> None:
    sliced = kdissect("slice", FROZEN, "--incident", "1", "-o", tmp_path / "one.pcapng")
    analyzed = kdissect_here("analyze", FROZEN, "--format", "json", "--quiet")
    assert (sliced.returncode, analyzed.returncode) == (0, 0)
    (incident, *_) = json.loads(analyzed.stdout)["incidents"]
    assert f"incident 1: {incident['headline']}\n" in sliced.stderr


@needs_tshark
@pytest.mark.slow
def test_around_cuts_to_the_time_of_the_incident(tmp_path: Path) -> None:
    whole = make_slice(tmp_path, FROZEN, "--incident", "1", name="whole.pcapng")
    around = make_slice(tmp_path, FROZEN, "--incident", "1", "--around", "100ms", name="around.pcapng")
    times = [float(line) for line in tshark(around, "-T", "fields", "-e", "frame.time_relative")]
    assert 0 < len(times) < len(tshark(whole))
    assert len(tshark(around, "-Y", "frame.comment")) > 100
    assert len(tshark(around, "-q", "-z", "endpoints,tcp")) > 10
