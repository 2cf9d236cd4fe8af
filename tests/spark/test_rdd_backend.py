"""Rows in RDDs: scanned, shuffled, kept, narrowed and collected."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from pyspark.serializers import CloudPickleSerializer

from kdissect.capture.flow_pieces import BUCKETS
from kdissect.spark.arrow_ipc import Blob, from_blob, to_blob
from kdissect.spark.backend import ROWS, Row
from kdissect.spark.file_parts import FilePart
from kdissect.spark.partitioning import Partitioning
from kdissect.spark.rdd_backend import LARGE_RESULT, RddBackend, _taken_back
from kdissect.spark.session import Engine
from kdissect.spark.startup.local_scan import LocalScan

pytestmark = pytest.mark.spark
SCHEMA = pa.schema([("number", pa.int64())])


def scan(ordinals: Iterable[int]) -> Iterator[tuple[int, Row]]:
    for ordinal in ordinals:
        yield ordinal % 2, (ordinal, to_blob(pa.record_batch({"number": [ordinal]}, SCHEMA)))


def name_parity(rows: Iterable[Blob]) -> Iterator[tuple[str, bytes]]:
    for ordinal, blob in rows:
        yield ("odd" if ordinal % 2 else "even"), blob.read() if isinstance(blob, FilePart) else blob


def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for blob in batch[ROWS].to_pylist():
            yield from from_blob(blob)


def test_rows_meet_in_their_partition_and_are_chosen_by_key(engine: Engine) -> None:
    rows = (
        RddBackend(engine.context()).scan_and_shuffle(scan, range(6), 3, 2, None).through(name_parity).kept()
    )
    assert sorted(key for key, _ in rows.collected()) == ["even"] * 3 + ["odd"] * 3
    odd = rows.only("odd").frame(engine.session(), unpack, SCHEMA)
    assert sorted(row["number"] for row in odd.collect()) == [1, 3, 5]


def enlarge(rows: Iterable[Blob]) -> Iterator[tuple[str, bytes]]:
    for ordinal, _ in rows:
        yield str(ordinal), bytes([ordinal]) * (LARGE_RESULT if ordinal % 2 else 3)


def test_large_results_come_through_files_that_are_gone_afterwards(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Path] = []

    def taken_back(part: FilePart) -> bytes:
        taken.append(Path(part.path))
        return _taken_back(part)

    monkeypatch.setattr("kdissect.spark.rdd_backend._taken_back", taken_back)
    scanned = RddBackend(engine.context()).scan_and_shuffle(scan, range(4), 2, 2, None)
    found = scanned.through(enlarge).collected()
    assert sorted(found) == [
        (str(ordinal), bytes([ordinal]) * (LARGE_RESULT if ordinal % 2 else 3)) for ordinal in range(4)
    ]
    assert [path.parent for path in taken] == [engine.home / "tmp"] * 2
    assert not any(path.exists() for path in taken)


def name_holders(rows: Iterable[Blob]) -> Iterator[tuple[str, bytes]]:
    for ordinal, blob in rows:
        assert isinstance(blob, FilePart)
        yield Path(blob.path).parent.name, f"{ordinal} {from_blob(blob)[0]['number'].to_pylist()}".encode()


def test_descriptors_stay_in_files_of_the_run_and_their_places_are_shuffled(engine: Engine) -> None:
    scanned = RddBackend(engine.context()).scan_and_shuffle(scan, range(4), 2, 2, None)
    found = scanned.through(name_holders).collected()
    assert sorted(found) == [("tmp", f"{ordinal} [{ordinal}]".encode()) for ordinal in range(4)]


def test_without_a_directory_of_the_run_descriptors_and_results_go_through_spark(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kdissect.spark.rdd_backend.SHARED_FOLDER", "spark.kdissect.none")
    monkeypatch.setattr("kdissect.spark.rdd_backend._taken_back", None)
    scanned = RddBackend(engine.context()).scan_and_shuffle(scan, range(4), 2, 2, None)
    assert sorted(scanned.through(name_parity).collected()) == sorted(
        (name, to_blob(pa.record_batch({"number": [ordinal]}, SCHEMA)))
        for ordinal, name in enumerate(["even", "odd"] * 2)
    )
    assert len(scanned.through(enlarge).collected()) == 4


def test_nothing_to_scan_leaves_empty_partitions(engine: Engine) -> None:
    rows = RddBackend(engine.context()).scan_and_shuffle(scan, range(0), 1, 4, None)
    assert rows.through(name_parity).collected() == []


def test_what_was_scanned_ahead_is_read_and_the_task_is_small(engine: Engine) -> None:
    """The function of a task had the partition of all 65,536 buckets, which took 0.01 s to send."""
    blobs = tuple(((ordinal, str(ordinal).encode()),) for ordinal in range(2))
    ahead = LocalScan(2, Partitioning(2, np.zeros(BUCKETS, np.int16)), blobs)
    rows = RddBackend(engine.context()).scan_and_shuffle(scan, range(0), 1, 2, ahead).through(name_parity)
    assert rows.collected() == [("even", b"0"), ("odd", b"1")]
    function = cast("Any", rows._rdd).func
    assert len(CloudPickleSerializer().dumps(function)) < 5_000 < ahead.shares.of_bucket.nbytes


def test_each_item_is_a_task(engine: Engine) -> None:
    assert RddBackend(engine.context()).each(str.upper, ["a", "b", "c"]) == ["A", "B", "C"]
