"""One run at a time uses a checkpoint at a URI."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kdissect.capture.storage_folder import StorageFolder, open_folder
from kdissect.spark.watch.checkpoint_lease import OWNER, CheckpointLease, LeaseError

SHORT_S = 0.3


@pytest.fixture
def folder(tmp_path: Path) -> StorageFolder:
    return open_folder(tmp_path)


def owned(folder: StorageFolder, **changes: object) -> None:
    """Write the lease of a run of another machine that was killed."""
    owner = {"token": "other", "machine": "elsewhere", "process": 1, "renewals": 7, **changes}
    folder.write(OWNER, json.dumps(owner).encode())


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
        folder.write(OWNER, content)
    CheckpointLease(folder, SHORT_S).close()


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
    assert json.loads(folder.read(OWNER))["token"] == "other"
