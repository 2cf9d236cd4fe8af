"""A watch on a cluster gives the same rows when a worker dies. All machines share directories here."""

from pathlib import Path

import pytest

from kdissect.spark.session import Engine
from kdissect.spark.watch.batch_store import BatchStore
from kdissect.spark.watch.watch_query import BatchReport, WatchQuery, WatchSettings
from kdissect.spark.watch.watched_directory import WatchedDirectory
from tests.helpers.rings import (
    CAPTURES,
    assert_same,
    ring_files,
    tables_at_once,
    tables_of_watch,
    write_ring,
)
from tests.helpers.spark_cluster import Standalone, half_way

PARTITIONS = 16


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_worker_that_dies_changes_no_row(cluster: Standalone, far: Engine, tmp_path: Path) -> None:
    write_ring(tmp_path / "ring", ring_files(CAPTURES / "old-broker.pcap", 3))
    reports: list[BatchReport] = []
    settings = WatchSettings(
        WatchedDirectory(str(tmp_path / "ring")),
        every_s=0.1,
        settle_s=0,
        until_idle_s=1,
        most_files=1,
        partitions=PARTITIONS,
    )
    store = BatchStore(tmp_path / "checkpoint", tmp_path / "out", settings.about())
    try:
        with half_way(far, PARTITIONS, cluster.kill_worker):
            WatchQuery(far, settings, store, reports.append).run()
    finally:
        store.close()
    assert [report.files for report in reports] == [1, 1, 1, 0]
    assert_same(tables_of_watch(tmp_path / "out"), tables_at_once(tmp_path / "ring"))
    assert not list((tmp_path / "out").rglob("*.part*"))
