"""One run at a time uses a checkpoint at a URI."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kdissect.capture.storage_folder import StorageFolder, _NearFolder, open_folder
from kdissect.spark.watch.checkpoint_lease import CheckpointLease, LeaseError, owner_file

SHORT_S = 0.3
OTHER = owner_file(7, "aa")


@pytest.fixture
def folder(tmp_path: Path) -> StorageFolder:
    return open_folder(tmp_path)


def owned(folder: StorageFolder, **changes: object) -> None:
    """Write the lease of a run of another machine that was killed."""
    owner = {"machine": "elsewhere", "process": 1, "renewals": 7, **changes}
    folder.write(OTHER, json.dumps(owner).encode())


def test_a_second_run_is_refused_while_the_first_one_renews(folder: StorageFolder) -> None:
    lease = CheckpointLease(folder, SHORT_S)
    try:
        with pytest.raises(LeaseError):
            CheckpointLease(folder, 10)
        lease.check()
    finally:
        lease.close()
    CheckpointLease(folder, 10).close()
    assert not folder.files()


@pytest.mark.parametrize("content", [None, b"", b"nonsense", b"[]"])
def test_a_lease_that_nobody_renews_is_taken(folder: StorageFolder, content: bytes | None) -> None:
    if content is None:
        owned(folder)
    else:
        folder.write(OTHER, content)
    CheckpointLease(folder, SHORT_S).close()


class InSteps(_NearFolder):
    """A store in which a file is away, and then empty, for a moment whenever it is written again."""

    def write(self, name: str, data: bytes) -> None:
        self.remove(name)
        time.sleep(0.01)
        super().write(name, b"")
        time.sleep(0.01)
        super().write(name, data)


def test_the_owner_keeps_a_lease_that_it_renews(tmp_path: Path) -> None:
    lease = CheckpointLease(InSteps(tmp_path), 0.06)
    try:
        for _ in range(50):
            lease.check()
            time.sleep(0.002)
    finally:
        lease.close()


class AtABadMoment(_NearFolder):
    """A store that is asked just when a file is away, or has nothing in it yet, and then again."""

    def __init__(self, path: Path, seen: bytes | None) -> None:
        super().__init__(path)
        self._seen, self._reads = seen, 0

    def read(self, name: str) -> bytes:
        self._reads += 1
        if self._reads > 1:
            return super().read(name)
        if self._seen is None:
            raise FileNotFoundError
        return self._seen


@pytest.mark.parametrize("seen", [None, b""])
def test_a_lease_that_is_being_renewed_is_not_free(
    folder: StorageFolder, tmp_path: Path, seen: bytes | None
) -> None:
    lease = CheckpointLease(folder, SHORT_S)
    try:
        with pytest.raises(LeaseError):
            CheckpointLease(AtABadMoment(tmp_path, seen), 10)
    finally:
        lease.close()


def test_nobody_waits_for_a_process_of_this_machine_that_is_gone(
    folder: StorageFolder, tmp_path: Path
) -> None:
    code = f"""
from kdissect.capture.storage_folder import open_folder
from kdissect.spark.watch.checkpoint_lease import CheckpointLease
import os
CheckpointLease(open_folder({str(tmp_path)!r}))
os._exit(9)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    CheckpointLease(folder, 1e6).close()


def test_the_owner_learns_that_another_run_has_taken_over(folder: StorageFolder) -> None:
    lease = CheckpointLease(folder, 1e6)
    owned(folder, process=os.getpid())
    with pytest.raises(LeaseError):
        lease.check()
    lease.close()
    assert [file.name for file in folder.files()] == [OTHER]


class TakenMeanwhile(_NearFolder):
    """A store in which another run becomes the owner just before a file is written again."""

    taken = 0

    def write(self, name: str, data: bytes) -> None:
        if self.taken:
            owned(_NearFolder(self._path))
        self.taken += 1
        super().write(name, data)


def test_a_run_that_stood_still_while_it_renewed_displaces_nobody(tmp_path: Path) -> None:
    folder = TakenMeanwhile(tmp_path)
    lease = CheckpointLease(folder, 0.06)
    while folder.taken < 2:
        time.sleep(0.01)
    with pytest.raises(LeaseError):
        lease.check()
    lease.close()
    assert [file.name for file in folder.files()] == [OTHER]


def test_of_two_runs_that_begin_at_once_one_is_the_owner(folder: StorageFolder) -> None:
    one = CheckpointLease(folder, 1e6)
    (own,) = [file.name for file in folder.files()]
    folder.write(owner_file(1, "0"), b"{}")
    one.check()
    folder.write(owner_file(1, "g" * 16), b"{}")  # no token has such letters
    one.check()
    folder.write(owner_file(1, "f" * 17), b"{}")
    with pytest.raises(LeaseError):
        one.check()
    one.close()
    assert own not in [file.name for file in folder.files()]
