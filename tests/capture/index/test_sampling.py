"""The sample of packets: what it reads, and how many connections it estimates."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kdissect.capture.flow_pieces import BUCKETS
from kdissect.capture.flow_table import FlowTable
from kdissect.capture.formats.file_types import InputError
from kdissect.capture.index import sampling
from kdissect.capture.index.index import index_captures
from kdissect.capture.index.sampling import (
    MOST_LOOKS,
    NO_SAMPLE,
    distinct,
    rough_sample,
    spread,
    take_sample,
)
from kdissect.capture.index.splits import Split
from kdissect.capture.inputs import CaptureFile
from kdissect.capture.scan import read_split, scan_split
from tests.helpers.crafted_packets import SYN, ethernet, pcap, survey_bytes, tcp
from tests.helpers.random_traffic import pcap_traffic, pcapng_traffic
from tests.helpers.recorded import CAPTURES


def request(port: int, flags: int = 24, seq: int = 0) -> bytes:
    """Return a request, or a SYN, whose `seq` tells it from others on the same connection."""
    payload = b"" if flags & SYN else b"request"
    return ethernet(tcp(ports=(port, 9092), payload=payload, seq=seq, flags=flags))


def splits_of(folder: Path, frames: list[bytes], split_bytes: int = 1 << 20) -> tuple[Split, ...]:
    packets = [(1, number, frame) for number, frame in enumerate(frames)]
    return survey_bytes(folder, pcap(packets), split_bytes=split_bytes).splits


def test_one_split_is_sampled_in_full(tmp_path: Path) -> None:
    frames = [request(port, seq=seq) for seq in range(3) for port in range(1000, 1050)]
    (split,) = splits_of(tmp_path, frames)
    sample = take_sample([split])
    expected = np.zeros(BUCKETS, np.int64)
    for row in scan_split(split).to_pylist()[:-1]:
        expected[row["bucket"]] += row["count"]
    np.testing.assert_array_equal(sample.segments, expected)
    assert (sample.connections, sample.bytes) == (50, split.stop - split.start)


def test_connections_that_open_and_that_go_on_are_added(tmp_path: Path) -> None:
    frames = [request(port, SYN) for port in range(1000, 1040)] + [
        request(port) for port in range(2000, 2010)
    ]
    assert take_sample(splits_of(tmp_path, frames)).connections == 50


def test_only_packets_of_the_ports_are_sampled(tmp_path: Path) -> None:
    splits = splits_of(tmp_path, [request(port) for port in range(1000, 1050)])
    assert take_sample(splits, [9092]).connections == 50
    assert take_sample(splits, [1000]).connections == 1
    assert take_sample(splits, [1]).connections == 0


def test_few_splits_of_many_are_read(tmp_path: Path) -> None:
    splits = splits_of(tmp_path, [request(1000, seq=number) for number in range(1000)], split_bytes=1)
    assert len(splits) == 1000
    sample = take_sample(splits)
    assert 0 < sample.segments.sum() <= MOST_LOOKS * 2  # with what the splits recall
    assert sample.bytes == sum(split.stop - split.start for split in splits)


def test_only_the_beginning_of_a_split_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    splits = splits_of(tmp_path, [request(1000, seq=number) for number in range(1000)])
    monkeypatch.setattr(sampling, "LOOK_BYTES", 3000)
    record = 16 + len(request(1000))
    assert take_sample(splits).segments.sum() == 3000 // record


def test_a_steady_stream_of_new_connections_is_extrapolated(tmp_path: Path) -> None:
    frames = [request(port, SYN) for port in range(1000, 9000)]
    splits = splits_of(tmp_path, frames, split_bytes=4000)
    assert len(splits) > 5 * MOST_LOOKS
    assert take_sample(splits).connections == pytest.approx(8000, rel=0.2)


def test_a_burst_of_new_connections_counts_once(tmp_path: Path) -> None:
    """All clients connect first and stay: the burst is not taken for the rate of the whole capture."""
    ports = range(1000, 1060)
    frames = [request(port, SYN) for port in ports]
    frames += [request(port, seq=seq) for seq in range(100) for port in ports]
    splits = splits_of(tmp_path, frames, split_bytes=60 * (16 + len(request(1, SYN))))
    assert len(splits) > 5 * MOST_LOOKS
    assert 60 <= take_sample(splits).connections <= 120


@pytest.mark.parametrize(("size", "step", "room"), [(1000, 10, 1), (1003, 100, 20), (5, 2, 2), (3, 1, 1)])
def test_one_place_lies_in_each_step(size: int, step: int, room: int) -> None:
    places = list(spread(size, step, room))
    assert [place // step for place in places] == list(range(-(-size // step)))
    assert all(place + room <= size for place in places if place % step)
    assert places[0] == 0


def test_places_lie_everywhere_in_their_steps() -> None:
    """A fourth of all places lies in each quarter, give or take one."""
    quarters = np.bincount([place % 1000 // 250 for place in spread(16_000, 1000)])
    assert quarters.tolist() == pytest.approx([4, 4, 4, 4], abs=1)


@pytest.mark.parametrize("rough", [True, False])
def test_connections_that_open_at_equal_distances(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rough: bool
) -> None:
    """Looks at equal distances would meet each of 32 bursts, or none of them."""
    frames = [
        request(1000 + 50 * copy + number % 50, SYN if number < 50 else 24, number)
        for copy in range(32)
        for number in range(2000)
    ]
    packets = [(1, number, frame) for number, frame in enumerate(frames)]
    path = written(tmp_path, "copies.pcap", pcap(packets))
    period = path.stat().st_size // 32
    monkeypatch.setattr(sampling, "SPLIT_BYTES", 2 * period)
    monkeypatch.setattr(sampling, "LOOK_BYTES", period // 20)
    files = [CaptureFile(str(path), path.name)]
    sample = rough_sample(files) if rough else take_sample(index_captures(files, period // 40).splits)
    assert sample is not None
    assert 300 <= sample.connections <= 4000  # of 1,600; looks at equal distances estimate 7,000 or 30,000


def test_captures_without_packets_have_an_empty_sample() -> None:
    assert take_sample([]).connections == NO_SAMPLE.connections == 0
    assert NO_SAMPLE.segments.shape == (BUCKETS,)


def test_a_file_that_is_gone_is_an_error_of_the_system(tmp_path: Path) -> None:
    (split,) = splits_of(tmp_path, [request(1000)])
    with pytest.raises(OSError, match="No such file"):
        take_sample([replace(split, path=str(tmp_path / "gone"))])


@pytest.mark.parametrize("connections", [0, 1, 500, 60_000, 200_000])
def test_connections_are_estimated_by_the_buckets_they_leave_empty(connections: int) -> None:
    seen = np.zeros(BUCKETS, np.int64)
    np.add.at(seen, np.random.default_rng(7).integers(0, BUCKETS, connections), 1)
    assert distinct(seen) == pytest.approx(connections, rel=0.02)


def two_files(folder: Path) -> list[CaptureFile]:
    """Return a pcap and a pcapng file with some connections."""
    made = {"a.pcap": pcap_traffic(1, 300), "b.pcapng": pcapng_traffic(2, 300)}
    for name, data in made.items():
        (folder / name).write_bytes(data)
    return [CaptureFile(str(folder / name), name) for name in made]


def test_places_of_captures_that_are_not_indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They lie evenly in all files together, at records, and know the interfaces."""
    files = two_files(tmp_path)
    seen: list[Split] = []

    def read(split: Split, found: FlowTable) -> None:
        seen.append(split)
        read_split(split, found)

    monkeypatch.setattr(sampling, "SPLIT_BYTES", 5_000)
    monkeypatch.setattr(sampling, "read_split", read)
    sample = rough_sample(files)
    assert sample is not None
    assert sample.segments.sum() > 100
    assert sample.bytes == sum(Path(file.path).stat().st_size for file in files)
    assert {split.path for split in seen} == {file.path for file in files}
    assert MOST_LOOKS - 4 <= len(seen) <= MOST_LOOKS
    records = {(split.path, split.start) for split in index_captures(files, 1).splits}
    found = {(split.path, split.start) for split in seen}
    assert {one for one in found - records if one[0].endswith("pcap")} == set()  # pcapng has other blocks
    assert all(split.interfaces for split in seen)


def test_a_rough_sample_is_like_that_of_indexed_captures() -> None:
    names = ("steady.pcapng", "broker-restart.pcapng")
    for name in names:
        files = [CaptureFile(str(CAPTURES / name), name)]
        rough, exact = rough_sample(files), take_sample(index_captures(files).splits)
        assert rough is not None
        assert rough.connections == exact.connections > 0
        np.testing.assert_array_equal(rough.segments, exact.segments)


def test_some_of_many_small_files_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "SPLIT_BYTES", 5_000)
    parts = [
        CaptureFile(str(written(tmp_path, f"{seed}.pcap", pcap_traffic(seed, 4))), f"{seed}.pcap")
        for seed in range(100)
    ]
    sample = rough_sample(parts)
    assert sample is not None
    assert sample.bytes == sum(Path(part.path).stat().st_size for part in parts)
    assert sample.connections > 10


def written(folder: Path, name: str, data: bytes) -> Path:
    """Write a file."""
    (folder / name).write_bytes(data)
    return folder / name


def test_what_has_no_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "empty.pcap", pcap([]))
    empty = rough_sample([CaptureFile(str(path), "empty.pcap")])
    assert empty is not None
    assert (empty.bytes, empty.connections) == (24, 0)
    with pytest.raises(InputError, match="not a packet capture"):
        rough_sample([CaptureFile(str(written(tmp_path, "text", b"no capture")), "text")])

    def fail(*_: object) -> None:
        raise OSError("gone")

    monkeypatch.setattr(sampling, "read_split", fail)
    assert rough_sample([CaptureFile(str(path), "empty.pcap")]) is None
