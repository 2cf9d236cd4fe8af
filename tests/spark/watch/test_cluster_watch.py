"""The command `watch` on a cluster whose machines know nothing of kdissect, one of them killed meanwhile."""

import gzip
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.command import COMMAND, environment, kdissect
from tests.helpers.rings import (
    CAPTURES,
    assert_same,
    download,
    ring_files,
    tables_at_once,
    tables_of_watch,
    write_ring,
)
from tests.helpers.spark_cluster import Standalone

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("cluster"), workers=2) as started:
        yield started


def command_of(
    cluster: Standalone, tmp_path: Path, ring: Path, out: str | Path
) -> tuple[list[str | Path], dict[str, str]]:
    """Return the words of a watch on the cluster, and its variables."""
    settings = "".join(f"{name} {value}\n" for name, value in cluster.confs.items())
    (tmp_path / "spark-defaults.conf").write_text(settings)
    words: list[str | Path] = ["watch", ring, "--out", out, "--master", cluster.master]
    words += ["--every", "200ms", "--settle", "0s", "--format", "jsonl", "--quiet"]
    variables = {"SPARK_CONF_DIR": str(tmp_path), "PYSPARK_PYTHON": str(cluster.python)}
    return words, variables


@pytest.mark.thorough
def test_a_worker_is_killed_and_a_capture_is_compressed(cluster: Standalone, tmp_path: Path) -> None:
    ring, out, shared = tmp_path / "ring", tmp_path / "out", tmp_path / "shared"
    whole = write_ring(tmp_path / "whole", ring_files(CAPTURES / "old-broker.pcap", 9)[:3])
    for folder in (ring, shared):
        folder.mkdir()
    shutil.copy(whole[0], ring)
    words, variables = command_of(cluster, tmp_path, ring, out)
    words += ["--until-idle", "3s"]
    running = subprocess.Popen(
        [*COMMAND, *map(str, words)], env=environment(**variables), stderr=subprocess.PIPE
    )
    patience = time.monotonic() + 120
    while not list(out.glob("exchanges/*/*.parquet")) and time.monotonic() < patience:
        time.sleep(0.1)
    cluster.kill_worker()
    shutil.copy(whole[1], ring)
    (ring / f"{whole[2].name}.gz").write_bytes(gzip.compress(whole[2].read_bytes()))
    assert b"a cluster cannot read compressed captures" in running.communicate(timeout=120)[1]
    assert running.returncode == 2
    done = kdissect(*words, "--spool", shared, **variables)
    assert (done.returncode, done.stderr) == (0, "")
    expected = {
        name: table.select([column for column in table.column_names if column != "capture_file"])
        for name, table in tables_at_once(whole[0].parent).items()
    }
    assert_same(tables_of_watch(out), expected)
    assert not list(shared.iterdir())


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_tables_and_checkpoint_are_in_an_object_store(cluster: Standalone, s3: str, tmp_path: Path) -> None:
    parts = ring_files(CAPTURES / "old-broker.pcap", 6)
    ring, out = tmp_path / "ring", f"s3://captures/{tmp_path.name}/out{s3}"
    words, variables = command_of(cluster, tmp_path, ring, out)
    write_ring(ring, parts[:3])
    running = subprocess.Popen(
        [*COMMAND, *map(str, words)], env=environment(**variables), stdout=subprocess.PIPE
    )
    assert running.stdout is not None
    assert json.loads(running.stdout.readline())["event"] == "interval"
    running.kill()
    running.communicate()
    write_ring(ring, parts[3:], 3)
    done = kdissect(*words, "--until-idle", "2s", **variables)
    assert (done.returncode, done.stderr) == (0, "")
    assert_same(tables_of_watch(download(out, tmp_path / "local")), tables_at_once(ring))
