"""Harmed captures: what is missing from each, and that reports of them still name the cause."""

from __future__ import annotations

from pathlib import Path

import dpkt
import pytest

from kdissect.spark.session import Engine
from tests.helpers.tiers import thorough_after
from tests.lab.harm import LOSSY, NAMES, SHORT, harmed
from tests.lab.score import IN_REPOSITORY, judge, recordings, without_loss

RECORDED = IN_REPOSITORY / "broker-frozen-1.pcapng.zst"
ALIKE = ("broker-frozen-1", "broker-stopped-2", "growing-lag-1", "rebalance-loop-1", "idle-consumers-1")
RIGHT = {
    "short": ("broker-frozen-1", "session-timeout-1", "new-groups-8"),
    "loss": ALIKE,
    "sparse": ALIKE,
    "gaps": ALIKE,
    "twice": ALIKE,
    "overtaken": ALIKE,
}
"""Recordings of which the first line is right under a harm; bodies of short packets cannot be read."""


def lengths(path: Path) -> list[int]:
    with path.open("rb") as file:
        return [len(data) for _, data in dpkt.pcap.Reader(file)]


@pytest.fixture(scope="module")
def packets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[int]]:
    """Return the lengths of the packets of a recording under each harm."""
    folder = tmp_path_factory.mktemp("harm")
    return {harm: lengths(harmed(RECORDED, harm, folder)) for harm in NAMES}


def test_packets_are_cut(packets: dict[str, list[int]]) -> None:
    assert max(packets["short"]) == SHORT


def test_packets_are_there_twice(packets: dict[str, list[int]]) -> None:
    assert packets["twice"][::2] == packets["twice"][1::2]
    assert len(packets["twice"]) == 2 * len(packets["short"])


def test_each_packet_is_in_one_direction(packets: dict[str, list[int]]) -> None:
    assert len(packets["asked"]) + len(packets["answered"]) == len(packets["short"])
    assert min(len(packets["asked"]), len(packets["answered"])) > len(packets["short"]) // 4


@pytest.mark.parametrize("harm", ["loss", "sparse", "gaps"])
def test_some_packets_are_missing(packets: dict[str, list[int]], harm: str) -> None:
    share = len(packets[harm]) / len(packets["short"])
    assert 0.9 < share < 0.995


def test_some_packets_overtake_others(packets: dict[str, list[int]]) -> None:
    in_order = packets["twice"][::2]
    assert packets["overtaken"] != in_order
    assert sorted(packets["overtaken"]) == sorted(in_order)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("harm", thorough_after(2, RIGHT))
def test_the_first_line_is_still_right(engine: Engine, harm: str, tmp_path: Path) -> None:
    chosen = [
        (harmed(capture, harm, tmp_path), truth)
        for capture, truth in recordings([IN_REPOSITORY])
        if capture.name.partition(".")[0] in RIGHT[harm]
    ]
    assert len(chosen) == len(RIGHT[harm])
    verdicts = [without_loss(one) if harm in LOSSY else one for one in judge(engine, chosen)]
    assert [one.truth["scenario"] for one in verdicts if not one.right] == []
