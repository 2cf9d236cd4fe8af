"""The survey: what it counts, how it cuts, and that neither depends on how the file is read."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from operator import eq
from pathlib import Path

import pytest

from kdissect.capture.formats.file_types import InputError
from kdissect.capture.index.index import CaptureIndex, index_captures
from kdissect.capture.index.range_scan import RangeScan, RangeTask, scan_range
from kdissect.capture.inputs import CaptureFile
from tests.helpers.crafted_packets import ethernet, pcap, survey_bytes, tcp
from tests.helpers.random_traffic import packets, pcap_traffic, pcapng_traffic

MADE = {
    "pcap": pcap_traffic(1, 400),
    "big-endian": pcap_traffic(2, 300, ">"),
    "pcapng": pcapng_traffic(3, 400),
}


@pytest.mark.parametrize("name", MADE)
def test_counts_against_the_traffic(tmp_path: Path, name: str) -> None:
    file = survey_bytes(tmp_path, MADE[name], name).files[0]
    frames = list(
        packets({"pcap": 1, "big-endian": 2, "pcapng": 3}[name], {"big-endian": 300}.get(name, 400))
    )
    times = [time_us * 1000 for time_us, _ in frames]
    if name == "pcapng":
        times = times[0::3] + times[1::3] + times[2::3]
    assert file.packets == len(frames)
    assert (file.first_time_ns, file.last_time_ns) == (times[0], times[-1])
    assert (file.earliest_time_ns, file.latest_time_ns) == (min(times), max(times))
    assert file.backward_steps == sum(later < earlier for earlier, later in pairwise(times))
    back = [earlier - later for earlier, later in pairwise(times)]
    farthest = max(range(len(back)), key=back.__getitem__)
    assert file.step_back == (
        (back[farthest], farthest + 2, times[farthest + 1]) if back[farthest] > 0 else (0, 0, 0)
    )
    assert file.wire_bytes == sum(len(frame) for _, frame in frames)
    longer = sum(len(frame) > 200 for _, frame in frames)
    assert file.truncated_packets == (longer if name == "pcapng" else 0)


@pytest.mark.parametrize("name", MADE)
def test_the_chunk_size_changes_nothing(tmp_path: Path, name: str) -> None:
    whole = survey_bytes(tmp_path, MADE[name], name, split_bytes=3000)
    assert len(whole.splits) > 10
    for chunk_bytes in (1, 65, 100, 1000, 4096, 1 << 24):
        assert survey_bytes(tmp_path, MADE[name], name, split_bytes=3000, chunk_bytes=chunk_bytes) == whole


def test_files_are_ordered_by_their_first_packet(tmp_path: Path) -> None:
    frame = ethernet(tcp())
    files = []
    for name, times in {"b": [30, 1], "a": [30], "c": [10, 99], "empty": []}.items():
        path = tmp_path / name
        path.write_bytes(pcap([(seconds, 0, frame) for seconds in times]))
        files.append(CaptureFile(str(path), name))
    found = index_captures(files)
    assert [file.file.name for file in found.files] == ["c", "a", "b", "empty"]
    assert [(split.index, split.name) for split in found.splits] == [(0, "c"), (1, "a"), (2, "b")]
    assert [split for file in found.files for split in file.splits] == list(found.splits)
    assert (found.packets, found.earliest_time_ns, found.latest_time_ns) == (5, 10**9, 99 * 10**9)
    assert found.files[-1].first_time_ns is None


def test_a_capture_without_packets(tmp_path: Path) -> None:
    found = survey_bytes(tmp_path, pcap([]))
    assert (found.packets, found.splits, found.warnings) == (0, (), ())
    assert found.earliest_time_ns is None


def test_warnings_carry_the_name_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(MADE["pcap"][:-1])
    found = index_captures([CaptureFile(str(path), "incident.pcap", warnings=("something before",))])
    assert found.warnings[0] == "incident.pcap: something before"
    assert found.warnings[1].startswith("incident.pcap: the file ends within a record at byte ")


def test_progress_ends_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(MADE["pcap"])
    heard: list[tuple[int, int]] = []
    index_captures(
        [CaptureFile(str(path), "x"), CaptureFile(str(path), "y")], progress=lambda *at: heard.append(at)
    )
    assert heard[-1] == (2 * len(MADE["pcap"]), 2 * len(MADE["pcap"]))
    assert heard == sorted(heard)


@pytest.mark.parametrize("data", [b"", b"x", b"not a capture at all, just some text of some length"])
def test_what_is_no_capture_is_an_input_error(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(InputError, match=r"made\.pcap is not a packet capture"):
        survey_bytes(tmp_path, data)


def test_a_file_that_is_gone_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        index_captures([CaptureFile(str(tmp_path / "gone"), "gone.pcap")])


def test_packets_longer_than_the_buffer_are_passed(tmp_path: Path) -> None:
    long = struct.pack("<IIII", 7, 0, 200_000, 200_000) + bytes(200_000)
    frame = ethernet(tcp())
    data = pcap([(1, 0, frame)]) + long + struct.pack("<IIII", 9, 0, len(frame), len(frame)) + frame
    found = survey_bytes(tmp_path, data, chunk_bytes=100)
    assert (found.packets, found.latest_time_ns) == (3, 9 * 10**9)
    assert replace(found.files[0]) == found.files[0]
    assert isinstance(found, CaptureIndex)


def for_a_while(patience: int) -> Callable[[Sequence[RangeTask]], list[RangeScan]]:
    """Return a run of tasks, one after the other, that is stopped when it has been asked `patience` times."""
    left = iter(range(patience))

    def run(tasks: Sequence[RangeTask]) -> list[RangeScan]:
        return [scan_range(task, lambda: next(left, None) is None) for task in tasks]

    return run


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("range_bytes", [4_000, 1 << 20])
def test_an_index_that_is_stopped_holds_the_first_packets(
    tmp_path: Path, name: str, range_bytes: int
) -> None:
    (tmp_path / name).write_bytes(MADE[name])
    file = CaptureFile(str(tmp_path / name), name)
    everything = index_captures([file], 4_000, chunk_bytes=2_000, range_bytes=range_bytes)
    for patience in (0, 1, 2, 5, 11):
        part = index_captures(
            [file], 4_000, chunk_bytes=2_000, range_bytes=range_bytes, run=for_a_while(patience)
        )
        read = sum(split.stop - split.start for split in part.splits)
        assert part.unread_bytes == len(MADE[name]) - read > 0
        assert part.packets == sum(split.packets for split in part.splits) < everything.packets
        assert [split.first_packet for split in part.splits] == [
            split.first_packet for split in everything.splits[: len(part.splits)]
        ]
        assert (part.packets > 0) == bool(part.files)
        assert part.warnings == ()
    assert part.packets > 0
    assert everything.unread_bytes == 0


def test_files_behind_the_one_that_was_stopped_are_left_out(tmp_path: Path) -> None:
    files = []
    for number in range(3):
        data = pcap([(3 - number, 0, ethernet(tcp(payload=b"x"))) for _ in range(10)])
        (tmp_path / f"{number}").write_bytes(data)
        files.append(CaptureFile(str(tmp_path / f"{number}"), f"{number}"))

    def run(tasks: Sequence[RangeTask]) -> list[RangeScan]:
        return [scan_range(task, partial(eq, task.range.name, "2")) for task in tasks]

    part = index_captures(files, run=run)
    assert [file.file.name for file in part.files] == ["1", "0"]
    headers = 24 * len(part.files)
    assert part.unread_bytes == (tmp_path / "2").stat().st_size + headers
