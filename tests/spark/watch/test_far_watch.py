"""A watch whose captures, tables and checkpoint are in an object store gives the same rows, also when killed.

KDISSECT_KILLS says how often it is killed (twice unless said), KDISSECT_KILLS_SEED when.
"""

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from kdissect.capture.storage_folder import open_folder
from tests.helpers.command import COMMAND, environment, kdissect
from tests.helpers.rings import (
    CAPTURES,
    assert_same,
    ring_files,
    tables_at_once,
    tables_of_watch,
)

KILLS = int(os.environ.get("KDISSECT_KILLS", "2"))
SEED = int(os.environ.get("KDISSECT_KILLS_SEED", "0"))
WHEN = ("--every", "200ms", "--max-files", "2", "--master", "local[2]", "--format", "jsonl", "--quiet")


class Bucket:
    """A ring in an object store, and what a watch makes of it."""

    def __init__(self, name: str, settings: str) -> None:
        self.ring, self.out = (f"s3://captures/{name}/{folder}{settings}" for folder in ("ring", "out"))
        self._name = name

    def start(self, *options: str) -> "subprocess.Popen[bytes]":
        command = [*COMMAND, "watch", self.ring, "--out", self.out, *WHEN, *options]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), start_new_session=True
        )

    def download(self, folder: Path) -> Path:
        """Copy the tables to a local folder, which is returned."""
        from pyarrow import fs

        system, inside = fs.FileSystem.from_uri(self.out)
        folder.mkdir()
        fs.copy_files(
            inside, str(folder), source_filesystem=system, destination_filesystem=fs.LocalFileSystem()
        )
        return folder


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_watch_of_an_object_store_that_is_killed_goes_on(s3: str, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    files = ring_files(CAPTURES / "old-broker.pcap", 4 * (KILLS + 1))
    bucket, waiting = Bucket(tmp_path.name, s3), list(enumerate(files))

    def add(count: int) -> None:
        for number, data in waiting[:count]:
            open_folder(bucket.ring).write(f"ring-{number:05}.pcap", data)
        del waiting[:count]

    for kill in range(KILLS):
        add(4)
        run = bucket.start()
        assert run.stdout is not None
        first = run.stdout.readline()  # it is at work
        time.sleep(chance.random() * 1.5)
        os.killpg(run.pid, signal.SIGKILL)
        _, errors = run.communicate()
        assert json.loads(first)["event"] == "interval", (kill, errors)
    add(len(waiting))
    run = bucket.start("--until-idle", "2s")
    lines, errors = run.communicate()
    assert run.returncode == 0, errors
    assert json.loads(lines.splitlines()[-1])["open_connections"] == 0
    local = bucket.download(tmp_path / "out")
    assert_same(tables_of_watch(local), tables_at_once(bucket.ring))
    assert not list(local.glob("_pending*"))
    again = bucket.start()
    _, errors = again.communicate()
    assert (again.returncode, b"is finished" in errors) == (2, True)
    far, near = (
        kdissect("report", place, "--last", "1h", "--format", "json") for place in (bucket.out, local)
    )
    assert far.returncode == near.returncode == 0, far.stderr
    assert json.loads(far.stdout) == json.loads(near.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["none://a/b", "s3://no-such-bucket-for-a-watch/ring"])
def test_a_place_that_cannot_be_listed_is_one_sentence(s3: str, place: str) -> None:
    done = kdissect("watch", place + s3.replace("&allow_bucket_creation=true", ""))
    assert done.returncode == 2
    assert done.stderr.startswith(f"kdissect: cannot list {place}")
    assert done.stderr.count("\n") == 1
