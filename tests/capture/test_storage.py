"""Captures on other file systems, an S3 server among them: the bytes are the same in every way of reading."""

import gzip
import random
import sys
from pathlib import Path

import pytest

from kdissect.capture import storage
from kdissect.capture.formats.file_types import InputError
from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.capture.storage import open_storage, shared_scratch
from tests.helpers.random_traffic import pcap_traffic
from tests.helpers.tiers import thorough_after

DATA = pcap_traffic(5, 3000)


@pytest.fixture(scope="module")
def bucket(s3: str) -> str:
    """Return the settings that lead to a server with the bucket `captures`."""
    from pyarrow import fs

    system, _ = fs.FileSystem.from_uri("s3://captures" + s3)
    for name in ("b", "a"):
        with system.open_output_stream(f"captures/day/{name}.pcap") as file:
            file.write(DATA)
    return s3


@pytest.mark.slow
@pytest.mark.parametrize("scheme", thorough_after(1, ["s3a", "s3"]))
def test_the_same_bytes_in_any_order(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setattr(storage, "BLOCK_BYTES", 10_000)
    monkeypatch.setattr(storage, "BLOCKS_KEPT", 3)
    (tmp_path / "a.pcap").write_bytes(DATA)
    chance = random.Random(1)
    with (
        open_storage(str(tmp_path / "a.pcap")) as near,
        open_storage(f"{scheme}://captures/day/a.pcap{bucket}") as far,
    ):
        assert near.size == far.size == len(DATA)
        for _ in range(200):
            at, length = chance.randrange(len(DATA) + 100), chance.randrange(30_000)
            assert near.read(length, at) == far.read(length, at) == DATA[at : at + length]
        assert far.read_into(memoryview(bytearray(5)), len(DATA)) == 0


def test_a_folder_of_captures_is_surveyed_where_it_lies(bucket: str, tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(DATA)
    inputs = open_inputs([f"s3://captures/day{bucket}"], str(tmp_path))
    assert [file.name.partition("?")[0] for file in inputs.files] == [
        "s3://captures/day/a.pcap",
        "s3://captures/day/b.pcap",
    ]
    assert not any(file.spooled for file in inputs.files)
    near = index_captures(open_inputs([f"file://{tmp_path}/a.pcap"], "").files, 50_000)
    far = index_captures(inputs.files[:1], 50_000)
    assert [(split.start, split.stop, split.packets) for split in far.splits] == [
        (split.start, split.stop, split.packets) for split in near.splits
    ]
    assert len(near.splits) > 3


def test_a_pattern_names_some_files_of_a_folder(bucket: str, tmp_path: Path) -> None:
    for name in ("a-1.pcap", "a-2.pcap", "b-1.pcap"):
        (tmp_path / name).write_bytes(DATA)
    found = open_inputs([f"s3://captures/day/[ab].p*{bucket}", f"file://{tmp_path}/a-*"], str(tmp_path)).files
    names = [file.name.partition("?")[0].rpartition("/")[2] for file in found]
    assert names == ["a.pcap", "b.pcap", "a-1.pcap", "a-2.pcap"]
    with pytest.raises(InputError, match="no packet captures of this name"):
        open_inputs([f"s3://captures/day/c*{bucket}"], str(tmp_path))


@pytest.mark.parametrize("far", [True, False])
def test_what_is_compressed_is_unpacked_where_others_see_it(bucket: str, tmp_path: Path, far: bool) -> None:
    (tmp_path / "a.pcap").write_bytes(DATA)
    (tmp_path / "packed").write_bytes(gzip.compress(DATA))
    place = f"s3://captures/scratch{bucket}" if far else f"file://{tmp_path}"
    with shared_scratch(place) as folder:
        (file,) = open_inputs([str(tmp_path / "packed")], folder).files
        assert file.spooled
        assert file.path.startswith(place.removeprefix("file://").partition("?")[0])
        found = index_captures([file], 50_000)
        near = index_captures(open_inputs([str(tmp_path / "a.pcap")], "").files, 50_000)
        assert [split.start for split in found.splits] == [split.start for split in near.splits]
    with pytest.raises(FileNotFoundError), open_storage(file.path):
        pass


def test_without_a_way_to_hdfs_one_sentence_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    monkeypatch.delenv("CLASSPATH", raising=False)
    with pytest.raises(InputError, match=r"^hdfs://host/a.pcap: reading HDFS needs the package hdfs-native"):
        open_inputs(["hdfs://host/a.pcap"], "")


@pytest.mark.parametrize("name", ["s3://captures/nothing.pcap{}", "s3://nowhere/a.pcap{}", "none://a/b"])
def test_what_is_not_there_is_one_sentence(bucket: str, tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError) as raised:
        open_inputs([name.format(bucket)], str(tmp_path))
    assert str(raised.value).startswith(name.partition("{")[0])
    assert "\n" not in str(raised.value)
