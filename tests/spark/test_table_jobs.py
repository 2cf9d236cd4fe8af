"""Tables of captures as jobs make them: what the steps give without Spark, and names learnt elsewhere."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kdissect.capture.index.splits import Split
from kdissect.spark import table_jobs
from kdissect.spark.analysis_work import AnalysisWork
from kdissect.spark.session import Engine
from kdissect.tables.schemas import TABLES
from tests.spark.conftest import CAPTURES, Tables, in_order

pytestmark = pytest.mark.spark

SMALL = CAPTURES / "cluster-life.pcapng"
WANTED = ["connections", "partitions"]


def test_frames_and_files_have_the_rows_of_the_steps(
    engine: Engine,
    splits_of: Callable[..., tuple[Split, ...]],
    whole: Callable[[Path], Tables],
    tmp_path: Path,
) -> None:
    work = AnalysisWork(splits_of(SMALL, split_bytes=100_000), partitions=3)
    frames = table_jobs.tables(engine.session(), work, WANTED, finish=lambda batch: batch)
    table_jobs.write_tables(engine.context(), work, WANTED, tmp_path)
    for name in WANTED:
        expected = in_order(whole(SMALL)[name])
        rows = [row.asDict() for row in frames[name].collect()]
        assert in_order(pa.Table.from_pylist(rows, TABLES[name])).equals(expected), name
        written = pq.read_table(tmp_path / name)
        assert written.num_rows == expected.num_rows > 0
    topics = {row["topic"] for row in frames["partitions"].select("topic").distinct().collect()}
    assert topics == set(whole(SMALL)["partitions"]["topic"].to_pylist())
