"""The captures, and the pipeline's steps without Spark."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.index.splits import Split
from kdissect.capture.inputs import open_inputs
from kdissect.capture.segment_index import PIECES
from kdissect.spark import tasks
from kdissect.spark.session import Engine
from kdissect.spark.spark_settings import SparkSettings
from kdissect.spark.task_tables import TableOptions
from kdissect.streams.tls.keylog import KeyLog, keys_for
from kdissect.tables.schemas import TABLES
from tests.helpers.spark_cluster import Standalone
from tests.helpers.tiers import ALL, spread

CAPTURES = Path(__file__).parents[2] / "captures"
PLACES = (
    "capture_file",
    "request_packet",
    "response_packet",
)  # where a row was found, which cutting a file changes

Tables = dict[str, pa.Table]


@pytest.fixture(params=spread(sorted(CAPTURES.glob("*.pcap*")), 4), ids=lambda path: path.name)
def capture(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


@pytest.fixture
def splits_of(tmp_path: Path) -> Callable[..., tuple[Split, ...]]:
    def look(*paths: Path, split_bytes: int = 1 << 30) -> tuple[Split, ...]:
        files = open_inputs([str(path) for path in paths], str(tmp_path)).files
        return index_captures(files, split_bytes, range_bytes=split_bytes).splits

    return look


@pytest.fixture(scope="module")
def whole() -> Callable[[Path], Tables]:
    """Return the tables of a capture that is dissected in one go; the same for every test."""
    known: dict[Path, Tables] = {}

    def look(path: Path) -> Tables:
        if path not in known:
            known[path] = dissect(index_captures(open_inputs([str(path)], "").files, 1 << 30).splits)
        return known[path]

    return look


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """Return a cluster with one worker more than tests kill."""
    with Standalone(tmp_path_factory.mktemp("cluster"), workers=3 if ALL else 2) as started:
        yield started


@contextmanager
def spark_apart(python: Path | None = None) -> Iterator[None]:
    """Make room for a Spark beside that of other tests in this process. Its workers run `python`."""
    from pyspark import SparkContext

    known: Any = SparkContext
    names = ("_active_spark_context", "_gateway", "_jvm")
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setattr(known, name, None)
        if python is not None:
            patch.setenv("PYSPARK_PYTHON", str(python))
        yield


@pytest.fixture(scope="module")
def far(cluster: Standalone) -> Iterator[Engine]:
    """Spark on the cluster."""
    with spark_apart(cluster.python), Engine.start(SparkSettings(cluster.master, cluster.confs)) as engine:
        engine.context()
        yield engine


@pytest.fixture(scope="session")
def dissected() -> Callable[..., Tables]:
    return dissect


@cache
def key_log() -> KeyLog:
    """Return the secrets that are in the captures."""
    return keys_for(None, index_captures(open_inputs([str(CAPTURES)], "").files).files)


def dissect(splits: tuple[Split, ...], partitions: int = 1, rows: int = 1 << 20) -> Tables:
    """Run both passes here, routed and ordered as Spark does it, in batches of at most `rows`."""
    ordinals = [pa.record_batch({"split": [split.index]}) for split in splits]
    pieces = pa.Table.from_batches(tasks.scan_step(ordinals, splits, ()), PIECES)
    buckets = pieces["bucket"].to_numpy() % partitions
    names = {}
    treatment = TableOptions(keys=key_log())
    parts = [
        pieces.filter(pa.array(buckets == number)).sort_by([("split", "ascending"), ("piece", "ascending")])
        for number in range(partitions)
    ]
    for part in parts:
        for _, batch in tasks.tables_step(part.to_batches(rows), splits, (), treatment):
            names |= dict(zip(batch["topic_id"].to_pylist(), batch["topic"].to_pylist(), strict=True))
    return {
        table: in_order(
            pa.Table.from_batches(
                [
                    tasks.with_topics(batch, names) if table == "partitions" and names else batch
                    for part in parts
                    for name, batch in tasks.tables_step(part.to_batches(rows), splits, [table], treatment)
                    if name == table
                ],
                TABLES[table],
            )
        )
        for table in TABLES
    }


def in_order(table: pa.Table, without: tuple[str, ...] = ()) -> pa.Table:
    """Return a table in an order that depends on its rows alone."""
    kept = table.drop_columns([name for name in without if name in table.column_names])
    return kept.sort_by([(name, "ascending") for name in kept.column_names]).combine_chunks()
