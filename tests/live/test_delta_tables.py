"""Delta tables have the rows of the batches that count, once, as Delta's own reader finds them."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder

from kdissect.errors import OutputError
from kdissect.live.delta_tables import DeltaTables
from kdissect.spark.watch.batch_job import BatchReport
from kdissect.spark.watch.batch_step import BatchFigures
from kdissect.spark.watch.batch_store import BatchStore, Commit
from kdissect.spark.watch.task_files import LeftFiles
from kdissect.tables.schemas import TABLES
from tests.helpers.command import environment

ROWS = 3
HOURS = ("2026-11-22-18", "2026-11-22-19")


def rows_of(name: str, batch: int) -> pa.Table:
    """Return rows of a table in which each number is one of the batch."""
    numbers = [batch * ROWS + row for row in range(ROWS)]
    return pa.table(
        {
            field.name: pa.array(
                list(map(str, numbers)) if pa.types.is_string(field.type) else [n % 100 for n in numbers]
                if pa.types.is_integer(field.type) and field.type.bit_width < 64 else numbers
                if pa.types.is_integer(field.type) else [True] * ROWS,
                field.type,
            )
            for field in TABLES[name]
        },
        TABLES[name],
    )  # fmt: skip


def open_store(folder: Path) -> BatchStore:
    return BatchStore(folder / "checkpoint", folder / "out", {})


def do_batch(store: BatchStore) -> BatchReport:
    """Do the next batch: rows of two tables in two hours, and a name of a topic."""
    batch = store.last.batch + 1
    attempt = store.attempt()
    assert attempt.out is not None
    files = {}
    for name in ("exchanges", "partitions"):
        for hour in HOURS:
            path = f"{name}/hour={hour}/batch-{batch:08}-000.parquet"
            (attempt.out / path).parent.mkdir(parents=True)
            pq.write_table(rows_of(name, batch), attempt.out / path)
            files[path] = path
    commit = Commit(batch, names=store.last.names | {f"id-{batch}": f"topic-{batch}"})
    store.commit(attempt, commit, files)
    return BatchReport(commit, BatchFigures(files=LeftFiles(files)), 1, 1, 0.1)


def numbers_in(folder: Path, name: str) -> list[tuple[str, int]]:
    table = DeltaTable(folder / "out" / name)
    rows = pa.table(QueryBuilder().register("t", table).execute("SELECT hour, connection FROM t").read_all())
    return sorted(zip(rows["hour"].to_pylist(), rows["connection"].to_pylist(), strict=True))


def numbers_up_to(batch: int) -> list[tuple[str, int]]:
    return [(hour, number) for hour in HOURS for number in range((batch + 1) * ROWS)]


def test_rows_of_batches_are_there_once(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    delta = DeltaTables(store)
    for batch in range(4):
        report = do_batch(store)
        delta.account(report)
        delta.account(report)  # no harm
        for name in ("exchanges", "partitions"):
            assert numbers_in(tmp_path, name) == numbers_up_to(batch)
    table = DeltaTable(tmp_path / "out" / "exchanges")
    assert table.metadata().partition_columns == ["hour"]
    assert [field.name for field in table.schema().fields] == [*TABLES["exchanges"].names, "hour"]
    read = table.to_pyarrow_table().drop_columns("hour").cast(TABLES["exchanges"])
    expected = pa.concat_tables([rows_of("exchanges", batch) for batch in range(4) for _ in HOURS])
    order = [("ordinal", "ascending")]
    assert read.sort_by(order).equals(expected.sort_by(order))
    names = DeltaTable(tmp_path / "out" / "topic_names").to_pyarrow_table()
    assert sorted(names["topic"].to_pylist()) == [f"topic-{batch}" for batch in range(4)]
    store.close()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_run_that_ended_while_it_added_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    store = open_store(tmp_path)
    delta = DeltaTables(store)
    delta.account(do_batch(store))
    add = DeltaTable.create_write_transaction

    def end(table: DeltaTable, *arguments: object, **options: object) -> None:
        if moment == "after":
            add(table, *arguments, **options)
        raise OSError("the end")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", end)
    with pytest.raises(OutputError, match=r"cannot write to the Delta table .*: the end"):
        delta.account(do_batch(store))
    monkeypatch.undo()
    store.close()
    again = open_store(tmp_path)
    DeltaTables(again)
    assert numbers_in(tmp_path, "exchanges") == numbers_in(tmp_path, "partitions") == numbers_up_to(1)
    again.close()


def test_a_watch_that_wrote_parquet_before(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    for _ in range(3):
        do_batch(store)
    (tmp_path / "out" / "exchanges" / f"hour={HOURS[0]}" / "notes.parquet").touch()
    delta = DeltaTables(store)
    assert numbers_in(tmp_path, "exchanges") == numbers_up_to(2)
    delta.account(do_batch(store))
    assert numbers_in(tmp_path, "exchanges") == numbers_up_to(3)
    store.close()


def test_tables_of_a_version_with_fewer_columns(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    fewer = TABLES["exchanges"].remove(len(TABLES["exchanges"]) - 1).append(pa.field("hour", pa.string()))
    DeltaTable.create(tmp_path / "out" / "exchanges", fewer, partition_by=["hour"])
    DeltaTables(store).account(do_batch(store))
    names = [field.name for field in DeltaTable(tmp_path / "out" / "exchanges").schema().fields]
    assert sorted(names) == sorted([*TABLES["exchanges"].names, "hour"])
    assert numbers_in(tmp_path, "exchanges") == numbers_up_to(0)
    store.close()


FOREVER = """
import sys
from pathlib import Path
from tests.live.test_delta_tables import DeltaTables, do_batch, open_store
store = open_store(Path(sys.argv[1]))
delta = DeltaTables(store)
while True:
    delta.account(do_batch(store))
    print(store.last.batch, flush=True)
"""


@pytest.mark.slow
def test_rows_are_there_once_after_kills_at_any_moment(tmp_path: Path) -> None:
    chance = random.Random(7)
    for _ in range(4):
        run = subprocess.Popen(
            [sys.executable, "-c", FOREVER, tmp_path], stdout=subprocess.PIPE, env=environment()
        )
        assert run.stdout
        assert run.stdout.readline()
        time.sleep(chance.random() * 0.1)
        run.send_signal(signal.SIGKILL)
        run.communicate()
    store = open_store(tmp_path)
    DeltaTables(store)
    assert store.last.batch >= 3
    for name in ("exchanges", "partitions"):
        assert numbers_in(tmp_path, name) == numbers_up_to(store.last.batch)
    store.close()
