"""A file is read when nobody writes to it any more."""

import os
from pathlib import Path

import pytest

from kdissect.spark.watch.closed_files import SeenFile, closed_files, files_to_read, list_files

S = 10**9
NOW = 1_000 * S


def seen(name: str, age_s: float, size: int = 100) -> SeenFile:
    return SeenFile(f"/ring/{name}", size, NOW - round(age_s * S))


def names(*files: SeenFile, settle_s: float = 30) -> list[str]:
    return [os.path.basename(file.path) for file in closed_files(files, NOW, round(settle_s * S))]


def test_the_newest_file_of_a_series_is_open() -> None:
    assert names(seen("a1.pcap", 3), seen("a2.pcap", 2), seen("a3.pcap", 1)) == ["a1.pcap", "a2.pcap"]


def test_a_file_that_rests_is_closed() -> None:
    assert names(seen("a1.pcap", 31)) == ["a1.pcap"]
    assert names(seen("a1.pcap", 29)) == []
    assert names(seen("a1.pcap", 29), settle_s=5) == ["a1.pcap"]


def test_files_of_other_hosts_close_nothing() -> None:
    assert names(seen("host-a-7.pcap", 5), seen("host-b-1.pcap", 1)) == []


def test_the_oldest_comes_first_whatever_its_name() -> None:
    assert names(seen("x2.pcap", 9), seen("x1.pcap", 5), seen("x3.pcap", 1)) == ["x2.pcap", "x1.pcap"]


@pytest.mark.parametrize("count", [0, 1])
def test_empty_and_hidden_files_are_not_listed(tmp_path: Path, count: int) -> None:
    (tmp_path / "empty.pcap").touch()
    (tmp_path / ".hidden.pcap").write_bytes(b"x")
    (tmp_path / "folder").mkdir()
    for number in range(count):
        (tmp_path / f"{number}.pcap").write_bytes(b"x")
    assert [file.path for file in list_files(str(tmp_path))] == [str(tmp_path / "0.pcap")][:count]


def test_a_file_that_was_closed_between_two_listings_has_its_final_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "1.pcap", tmp_path / "2.pcap"
    for path, age_s in ((first, 2), (second, 1)):
        path.write_bytes(b"x")
        os.utime(path, ns=(0, NOW - age_s * S))
    listed = []

    def list_and_write(directory: str) -> list[SeenFile]:
        listed.append(list_files(directory))
        first.write_bytes(b"xyz")  # the last bytes of a file that its writer had closed already
        os.utime(first, ns=(0, NOW - 2 * S))
        return listed[-1]

    monkeypatch.setattr("kdissect.spark.watch.closed_files.list_files", list_and_write)
    found = files_to_read(str(tmp_path), NOW, 30 * S)
    assert [(Path(file.path).name, file.size, file.is_closed) for file in found] == [
        ("1.pcap", 3, True),
        ("2.pcap", 1, False),
    ]
    assert listed[0][0].size + listed[0][1].size == 2
