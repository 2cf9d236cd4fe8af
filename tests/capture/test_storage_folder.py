"""A folder has its files by name, on this machine and in an object store."""

from pathlib import Path

import pytest

from kdissect.capture.storage_folder import StorageFolder, open_folder


@pytest.fixture(params=["near", "far"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> StorageFolder:
    if request.param == "near":
        return open_folder(f"file://{tmp_path}/new")
    return open_folder(f"s3://captures/{tmp_path.name}/new{request.getfixturevalue('s3')}")


def sizes(folder: StorageFolder) -> dict[str, int]:
    return {file.name: file.size for file in folder.files()}


def test_files_are_written_listed_and_removed(folder: StorageFolder, tmp_path: Path) -> None:
    assert sizes(folder) == {}
    folder.write("a b+%41.json", b"one")
    folder.write("below/c", b"three")
    folder.write("a b+%41.json", b"other")
    (tmp_path / "d").write_bytes(bytes(9 << 20))
    folder.take("below/d", tmp_path / "d")
    assert sizes(folder) == {"a b+%41.json": 5}
    assert sizes(folder.below("below")) == {"c": 5, "d": 9 << 20}
    assert folder.read("a b+%41.json") == b"other"
    assert folder.below("below").read("c") == b"three"
    assert min(file.modified_ns for file in folder.files()) > 1_700_000_000 * 10**9
    folder.remove("a b+%41.json")
    folder.remove("a b+%41.json")
    assert sizes(folder) == {}
    with pytest.raises(FileNotFoundError):
        folder.read("a b+%41.json")


def test_a_place_without_file_system_is_an_os_error() -> None:
    with pytest.raises(OSError, match="no file system for it"):
        open_folder("none://a/b")
