"""Parts of files: what is put can be read at once, wherever it lies."""

import pickle
from pathlib import Path

import pytest

from kdissect.spark.file_parts import FilePart, new_path, parts_in


def test_parts_are_read_as_they_were_put_while_the_file_is_written(tmp_path: Path) -> None:
    path = new_path(str(tmp_path))
    contents = [b"first", b"", bytes(100_000), b"last"]
    with parts_in(path) as writer:
        for content in contents:
            part = writer.put(content)
            assert part.read() == content
            assert pickle.loads(pickle.dumps(part)) == part


def test_a_file_that_ends_before_a_part_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "short"
    path.write_bytes(b"12345")
    with pytest.raises(EOFError, match="short"):
        FilePart(str(path), 3, 3).read()


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        FilePart(str(tmp_path / "gone"), 0, 1).read()


def test_no_two_paths_are_the_same(tmp_path: Path) -> None:
    assert len({new_path(str(tmp_path)) for _ in range(100)}) == 100
