"""Destinations of reports: a directory, or an object store, tried before there is anything to write."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow import fs

from kdissect.cli.outputs import output_file, output_folder
from kdissect.errors import OutputError

CAPTURE = Path(__file__).parents[2] / "captures" / "pause.pcapng"


def test_a_directory_is_made_and_files_replaced(tmp_path: Path) -> None:
    for place in (str(tmp_path / "a" / "b"), f"file://{tmp_path}/a/b"):
        for text in ("first", "sécond"):
            output_folder(place).write("report.txt", text)
            assert (tmp_path / "a" / "b" / "report.txt").read_text("utf-8") == text
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["report.txt"]


def test_an_object_store(s3: str) -> None:
    folder = output_folder(f"s3a://captures/reports/{s3}")
    page, name = output_file(f"s3://captures/reports/deep/page.html{s3}")
    folder.write("report.json", "{}")
    page.write(name, "<p>é")
    system, _ = fs.FileSystem.from_uri("s3://captures" + s3)
    assert system.open_input_stream("captures/reports/report.json").read() == b"{}"
    assert system.open_input_stream("captures/reports/deep/page.html").read() == "<p>é".encode()


@pytest.mark.parametrize("place", ["{}/file/below", "none://a/b", "s3://{}"])
def test_what_cannot_be_written_is_one_sentence(place: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OutputError) as raised:
        output_folder(place.format(tmp_path))
    assert str(raised.value).startswith("cannot write to ")
    assert "\n" not in str(raised.value)


def test_a_name_that_is_too_long_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="file name too long"):
        output_file(str(tmp_path / ("x" * 256)))


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="it is a directory"):
        output_file(str(tmp_path))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_capture_is_not_replaced(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "incident.pcap"
    path.write_bytes(pack(CAPTURE.read_bytes()))
    with pytest.raises(OutputError, match="it is a packet capture"):
        output_file(str(path))


def test_a_device_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="it is a device or a pipe"):
        output_file(os.devnull)
