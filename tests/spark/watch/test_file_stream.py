"""The stream offers closed files in order of their packets, and the same ones whenever it is asked again."""

import gzip
import os
from pathlib import Path

import pytest

from kdissect.spark.watch.file_stream import FILES, FileRange, FileStream
from tests.helpers.rings import CAPTURES, ring_files, write_ring


def stream(tmp_path: Path, **options: str) -> FileStream:
    return FileStream(
        {"path": str(tmp_path / "ring"), "journal": str(tmp_path / "files.jsonl"), "settle": "0", **options}
    )


def names(stream: FileStream, start: int, stop: int) -> list[str]:
    ranges = stream.partitions({"file": start}, {"file": stop})
    rows = [row for part in ranges for row in stream.read(part)]
    assert all(len(row) == FILES.count(",") + 1 for row in rows)
    return [Path(row[1]).name for row in rows]


def test_files_come_in_order_of_their_packets(tmp_path: Path) -> None:
    files = ring_files(CAPTURES / "old-broker.pcap", 4)
    paths = write_ring(tmp_path / "ring", files[::-1])
    (tmp_path / "ring" / "notes.txt").write_bytes(b"no capture")
    reader = stream(tmp_path)
    assert reader.latestOffset(reader.initialOffset(), None) == {"file": 5}
    captures = [name for name in names(reader, 0, 5) if name != "notes.txt"]
    assert captures == [path.name for path in paths[::-1]]


def test_batches_have_a_limit_and_are_the_same_again(tmp_path: Path) -> None:
    write_ring(tmp_path / "ring", ring_files(CAPTURES / "old-broker.pcap", 5))
    reader = stream(tmp_path, maxFiles="2")
    assert reader.latestOffset({"file": 0}, None) == {"file": 2}
    assert reader.latestOffset({"file": 2}, None) == {"file": 4}
    before = names(reader, 2, 4)
    reader._open().close()
    for path in (tmp_path / "ring").iterdir():
        os.utime(path)
    again = stream(tmp_path)
    assert names(again, 2, 4) == before
    assert again.latestOffset({"file": 4}, None) == {"file": 5}
    assert again.partitions({"file": 5}, {"file": 5}) == []


def test_a_file_that_is_written_to_is_offered_as_it_grows(tmp_path: Path) -> None:
    (path,) = write_ring(tmp_path / "ring", ring_files(CAPTURES / "old-broker.pcap", 1))
    data = path.read_bytes()
    path.write_bytes(data[:1001])
    reader = stream(tmp_path, settle="60")
    assert reader.latestOffset({"file": 0}, None) == {"file": 1}
    assert reader.latestOffset({"file": 1}, None) == {"file": 1}
    path.write_bytes(data)
    assert reader.latestOffset({"file": 1}, None) == {"file": 2}
    write_ring(tmp_path / "ring", [data], 1)
    assert reader.latestOffset({"file": 2}, None) == {"file": 4}
    files = reader._open().files(0, 4)
    assert [(file.start, file.size, file.is_closed) for file in files if file.path == str(path)] == [
        (0, 1001, False),
        (1001, len(data), False),
        (len(data), len(data), True),
    ]


def test_a_compressed_file_waits_until_it_is_closed(tmp_path: Path) -> None:
    (tmp_path / "ring").mkdir()
    (tmp_path / "ring" / "1.pcap.gz").write_bytes(gzip.compress(b"any" * 100))
    reader = stream(tmp_path, settle="60")
    assert reader.latestOffset({"file": 0}, None) == {"file": 0}
    reader._open().close()
    assert stream(tmp_path).latestOffset({"file": 0}, None) == {"file": 1}


def test_an_option_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'journal'"):
        FileStream({"path": str(tmp_path)})


def test_a_range_has_its_files(tmp_path: Path) -> None:
    write_ring(tmp_path / "ring", ring_files(CAPTURES / "old-broker.pcap", 2))
    reader = stream(tmp_path)
    reader.latestOffset({"file": 0}, None)
    (part,) = reader.partitions({"file": 0}, {"file": 2})
    assert isinstance(part, FileRange)
    assert [file.number for file in part.files] == [0, 1]
    reader.commit({"file": 2})
