"""Workers count the bytes that they have done, each its share of a split, and in the end all of them."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import CaptureFile
from kdissect.spark.pass_meters import ByteMeter, PassMeters

CAPTURE = Path(__file__).parents[2] / "captures" / "steady.pcapng"


def test_counts_of_several_processes_add_up(tmp_path: Path) -> None:
    meter = ByteMeter(str(tmp_path / "count"))
    assert meter.total() == 0
    for count in (5, 1 << 40, 0):
        ByteMeter(meter.path).append(count)
    assert meter.total() == (1 << 40) + 5


def test_a_meter_without_a_place_fails_nothing() -> None:
    ByteMeter("/no such folder/count").append(1)


def test_partitions_count_their_shares(tmp_path: Path) -> None:
    splits = index_captures([CaptureFile(str(CAPTURE), "steady")], split_bytes=200_000).splits
    assert len(splits) > 3
    meters = PassMeters.new(tmp_path, splits)
    batches = [pa.record_batch({"split": [number, number]}) for number in (0, 2)]
    for _ in range(4):
        assert list(meters.dissecting(iter(batches), splits, 4)) == batches
    assert 0 <= meters.size - meters.dissected.total() < 4 * (len(splits) + 1)
    assert replace(meters, size=0).size == 0
