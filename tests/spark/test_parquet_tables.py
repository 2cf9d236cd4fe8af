"""Tables that Spark reads as Parquet against those that it is handed row by row."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kdissect.capture.index.splits import Split
from kdissect.spark import table_jobs
from kdissect.spark.analysis_work import AnalysisWork
from kdissect.spark.parquet_tables import LARGE_ROWS, parquet_tables
from kdissect.spark.session import Engine
from kdissect.tables.schemas import ROW_TABLES, TABLES
from tests.spark.conftest import CAPTURES

pytestmark = pytest.mark.spark

CAPTURE = CAPTURES / "transactions.pcapng"


def test_rows_and_types_are_those_of_the_other_way(
    engine: Engine, splits_of: Callable[..., tuple[Split, ...]], tmp_path: Path
) -> None:
    work = AnalysisWork(splits_of(CAPTURE, split_bytes=300_000), partitions=3)
    plain = table_jobs.tables(engine.session(), work, list(TABLES))
    quick = parquet_tables(engine.session(), work, list(TABLES), tmp_path / "é %20")
    for name, frame in plain.items():
        assert quick[name].dtypes == frame.dtypes
        rows = [sorted(map(repr, one.collect())) for one in (quick[name], frame)]
        assert rows[0] == rows[1]
        assert rows[0], name


def test_tables_of_bounded_rows_are_all_but_the_records() -> None:
    assert set(ROW_TABLES) - LARGE_ROWS == set(TABLES)
