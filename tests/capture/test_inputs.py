"""PATH arguments: plain and compressed files, pipes, directories, and the errors for all others."""

import gzip
import io
import os
import select
import threading
from pathlib import Path

import pytest
import zstandard

from kdissect.capture.formats.file_types import InputError
from kdissect.capture.inputs import Inputs, open_inputs
from tests.helpers.crafted_packets import interface, section
from tests.helpers.random_traffic import pcap_traffic, pcapng_traffic

PCAP = pcap_traffic(1, 50)
PCAPNG = pcapng_traffic(1, 50)


@pytest.fixture
def spool(tmp_path: Path) -> str:
    folder = tmp_path / "spool"
    folder.mkdir()
    return str(folder)


def content(inputs: Inputs) -> list[bytes]:
    return [Path(file.path).read_bytes() for file in inputs.files]


@pytest.mark.parametrize("data", [PCAP, PCAPNG])
def test_a_plain_file_is_read_where_it_is(tmp_path: Path, spool: str, data: bytes) -> None:
    path = tmp_path / "any.name"
    path.write_bytes(data)
    (file,) = open_inputs([str(path)], spool).files
    assert (file.path, file.name, file.spooled, file.warnings) == (str(path), str(path), False, ())
    assert os.listdir(spool) == []


COMPRESSED = {
    "gzip": gzip.compress(PCAP, mtime=0),
    "gzip in members": gzip.compress(PCAP[:1000])
    + gzip.compress(PCAP[1000:1001])
    + gzip.compress(PCAP[1001:]),
    "gzip, padded": gzip.compress(PCAP, mtime=0) + bytes(1000),
    "zstd": zstandard.compress(PCAP),
    "zstd in frames": zstandard.compress(PCAP[:10]) + zstandard.compress(PCAP[10:]),
    "pzstd": b"".join(
        b"\x50\x2a\x4d\x18\4\0\0\0" + len(frame).to_bytes(4, "little") + frame
        for frame in (zstandard.compress(PCAP[:99]), zstandard.compress(PCAP[99:]))
    ),
}


@pytest.mark.parametrize("kind", COMPRESSED)
def test_compressed_files_are_spooled(tmp_path: Path, spool: str, kind: str) -> None:
    path = tmp_path / "capture.pcap"
    path.write_bytes(COMPRESSED[kind])
    inputs = open_inputs([str(path)], spool)
    (file,) = inputs.files
    assert (file.name, file.spooled, file.warnings) == (str(path), True, ())
    assert Path(file.path).parent == Path(spool)
    assert content(inputs) == [PCAP]


def test_unpacking_ends_when_it_is_stopped(
    tmp_path: Path, spool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kdissect.capture.inputs.CHUNK_BYTES", 200)
    for name in ("first", "second"):
        (tmp_path / name).write_bytes(COMPRESSED["gzip"])
    calls = iter(range(4))
    paths = [str(tmp_path / name) for name in ("first", "second")]
    inputs = open_inputs(paths, spool, is_stopped=lambda: next(calls, None) is None)
    (file,) = inputs.files
    (part,) = content(inputs)
    assert (file.name, file.warnings, inputs.left) == (paths[0], (), 2)
    assert 0 < len(part) < len(PCAP)
    assert PCAP.startswith(part)


def test_large_compressed_files(tmp_path: Path, spool: str) -> None:
    data = PCAP + bytes(9_000_000) + os.urandom(100_000)
    for name, packed in {"g": gzip.compress(data), "z": zstandard.compress(data)}.items():
        (tmp_path / name).write_bytes(packed)
    assert content(open_inputs([str(tmp_path / "g"), str(tmp_path / "z")], spool)) == [data, data]


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_cut_compressed_files_keep_what_was_readable(tmp_path: Path, spool: str, kind: str) -> None:
    noise = pcapng_traffic(5, 3000)
    packed = gzip.compress(noise) if kind == "gzip" else zstandard.compress(noise)
    path = tmp_path / "cut"
    path.write_bytes(packed[: len(packed) * 2 // 3])
    inputs = open_inputs([str(path)], spool)
    assert inputs.files[0].warnings == ("the compressed data is cut off; what came before was read",)
    (kept,) = content(inputs)
    assert noise.startswith(kept)
    assert len(kept) > len(noise) // 4


@pytest.mark.parametrize(
    "tail", [b"garbage behind the end", gzip.compress(b"x" * 100, mtime=0)[:-12] + b"!" * 12]
)
def test_damaged_compressed_files_keep_what_was_readable(tmp_path: Path, spool: str, tail: bytes) -> None:
    path = tmp_path / "damaged"
    path.write_bytes(gzip.compress(PCAP, mtime=0) + tail)
    inputs = open_inputs([str(path)], spool)
    assert "compressed data is damaged" in inputs.files[0].warnings[0]
    assert content(inputs)[0].startswith(PCAP)


@pytest.mark.parametrize("data", [PCAP, gzip.compress(PCAP, mtime=0), zstandard.compress(PCAP)])
def test_standard_input_is_spooled(spool: str, data: bytes) -> None:
    inputs = open_inputs(["-"], spool, io.BytesIO(data))
    assert inputs.files[0].name == "standard input"
    assert inputs.files[0].spooled
    assert content(inputs) == [PCAP]


def test_a_named_pipe_is_spooled(tmp_path: Path, spool: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(PCAP))
    writer.start()
    inputs = open_inputs([str(pipe)], spool)
    writer.join()
    assert content(inputs) == [PCAP]


def test_a_named_pipe_that_nobody_writes_to_is_left_when_reading_is_stopped(
    tmp_path: Path, spool: str
) -> None:
    pipe, looks = tmp_path / "pipe", iter([False, False])
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="pipe is empty"):
        open_inputs([str(pipe)], spool, is_stopped=lambda: next(looks, True))


def test_what_a_named_pipe_brought_before_reading_was_stopped_is_read(tmp_path: Path, spool: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)  # stays open, so that the pipe never ends
    os.write(writer, PCAP)
    inputs = open_inputs([str(pipe)], spool, is_stopped=lambda: not select.select([writer], [], [], 0)[0])
    os.close(writer)
    assert content(inputs) == [PCAP]
    assert inputs.left == 1


def test_a_directory_gives_its_captures_and_names_the_rest(tmp_path: Path, spool: str) -> None:
    folder = tmp_path / "captures"
    (folder / "deeper").mkdir(parents=True)
    (folder / "deeper" / "no.pcap").write_bytes(PCAP)
    (folder / "b.pcap").write_bytes(PCAP)
    (folder / "a.pcapng.gz").write_bytes(gzip.compress(PCAPNG))
    (folder / "README").write_text("# words about the captures")
    (folder / "nothing.pcap").touch()
    inputs = open_inputs([str(folder)], spool)
    assert content(inputs) == [PCAPNG, PCAP]
    assert [name.removeprefix(str(folder)) for name in inputs.skipped] == [
        "/README is not a packet capture (pcap or pcapng): it looks like a text file",
        "/nothing.pcap is empty",
    ]


def test_a_directory_without_captures(tmp_path: Path, spool: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(InputError, match="folder/: no packet captures in this directory"):
        open_inputs([str(folder) + "/"], spool)


def test_a_directory_named_with_a_slash(tmp_path: Path, spool: str) -> None:
    (tmp_path / "a.pcap").write_bytes(PCAP)
    (tmp_path / "b.pcap").write_bytes(PCAPNG)
    assert len(open_inputs([f"{tmp_path}/", f"{tmp_path}//"], spool).files) == 2


def test_a_file_named_twice_is_read_once(tmp_path: Path, spool: str) -> None:
    (tmp_path / "a.pcap").write_bytes(PCAP)
    os.symlink(tmp_path / "a.pcap", tmp_path / "link.pcap")
    inputs = open_inputs([str(tmp_path / "link.pcap"), str(tmp_path), str(tmp_path / "a.pcap")], spool)
    assert [file.name for file in inputs.files] == [str(tmp_path / "link.pcap")]


WRONG = {
    b"": "wrong is empty",
    b"PK\x03\x04rest of a zip file": "it looks like a zip archive",
    b"\xfd7zXZ\0\0\0": "xz file",
    b'{"json": true}': "JSON text",
    b"snoop\0\0\0\0\0\0\2": "snoop capture",
    b"\x9f\x13\x77" + b"\0" * 100: "is not a packet capture",
    PCAP[:20]: "header of this capture is cut off or damaged",
    (section() + interface())[:27]: "header of this capture is cut off or damaged",
    gzip.compress(b"", mtime=0): "wrong is empty",
    gzip.compress(b"text, not a capture", mtime=0) * 5: "is not a packet capture",
    gzip.compress(gzip.compress(PCAP, mtime=0), mtime=0): "a gzip file in a gzip file",
    gzip.compress(PCAP, mtime=0)[:10]: "the compressed data is cut off",
    b"\x1f\x8b\x08 and then nothing that could be decompressed": "the compressed data is damaged",
    zstandard.compress(PCAP)[:6]: "the compressed data is cut off",
}


@pytest.mark.parametrize("data", WRONG)
def test_what_is_no_capture_is_told_in_one_sentence(tmp_path: Path, spool: str, data: bytes) -> None:
    (tmp_path / "wrong").write_bytes(data)
    with pytest.raises(InputError) as caught:
        open_inputs([str(tmp_path / "wrong")], spool)
    assert WRONG[data] in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file(spool: str) -> None:
    with pytest.raises(InputError, match=r"^/no/such\.pcap: no such file or directory$"):
        open_inputs(["/no/such.pcap"], spool)


def test_a_file_that_may_not_be_read(tmp_path: Path, spool: str) -> None:
    path = tmp_path / "secret.pcap"
    path.write_bytes(PCAP)
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(InputError, match="permission denied"):
        open_inputs([str(path)], spool)


def test_the_password_of_a_uri_is_not_shown(spool: str) -> None:
    """Programs may pass one; the command refuses it in arguments."""
    with pytest.raises(InputError) as failed:
        open_inputs(["nosuch://me:hunter2@host/a.pcap"], spool)
    assert "hunter2" not in str(failed.value)
    assert "nosuch://me:***@host/a.pcap" in str(failed.value)


def test_a_name_that_is_no_text_is_shown_as_one(tmp_path: Path, spool: str) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.pcap")
    path.write_bytes(PCAP)
    (found,) = open_inputs([str(path)], spool).files
    assert found.name == f"{tmp_path}/caf\\xe9.pcap"
    assert found.path == str(path)


def test_a_name_of_this_process_is_resolved(tmp_path: Path, spool: str) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(PCAP)
    with path.open("rb") as file:
        (found,) = open_inputs([f"/dev/fd/{file.fileno()}"], spool).files
        assert found.path == str(path)
        path.unlink()
        (found,) = open_inputs([f"/dev/fd/{file.fileno()}"], spool).files
        assert (found.spooled, Path(found.path).read_bytes()) == (True, PCAP)
