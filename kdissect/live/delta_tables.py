"""`--out-format delta`: the tables of a watch as Delta tables, each row exactly once.

    <out>/<table>/hour=2026-11-22-18/batch-00000012-003.parquet     as without this option
    <out>/<table>/_delta_log/                                       which of these files belong to the table

The files of a batch have their places when the batch counts (see `spark.watch.batch_store`). Then one commit
for each table adds them to its log, together with the number of the batch as the version of an application
transaction (Delta protocol, "Transaction Identifiers"). A run that was killed in between finds there which
batches a table lacks, and adds their files first. So a reader sees rows of batches that count, once. Nothing
is written twice.
"""

import json
import secrets
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction

from kdissect.errors import OutputError
from kdissect.files import write_atomically
from kdissect.spark.watch.batch_job import BatchReport
from kdissect.spark.watch.batch_store import BatchStore
from kdissect.spark.watch.hour_writer import SCHEMAS, batch_of
from kdissect.spark.watch.table_places import FILES, NearTables

HOUR = "hour"
IDENTITY = "delta.json"
NS_PER_MS = 1_000_000


class DeltaTables:
    """The logs of the tables of one watch. Files that a run before has left out are added first."""

    def __init__(self, store: BatchStore) -> None:
        """Add what is missing. Raise OutputError."""
        assert isinstance(store.tables, NearTables)
        self._out = store.tables.path
        self._application = _identity(store.checkpoint / IDENTITY)
        self._tables: dict[str, DeltaTable] = {}
        self._add(store.last.batch, (path for name in SCHEMAS for path in _files(self._out, name)))

    def account(self, report: BatchReport) -> None:
        """Add the files of a batch that counts. Raise OutputError."""
        batch = report.commit.batch
        files = [self._out / path for path in report.figures.files.paths]
        names = [path for path in self._out.glob(f"topic_names/{FILES}") if batch_of(path.name) == batch]
        self._add(batch, [path for path in (*files, *names) if self._table_of(path) in SCHEMAS])

    def _table_of(self, path: Path) -> str:
        return path.relative_to(self._out).parts[0]

    def _add(self, batch: int, files: Iterable[Path]) -> None:
        """Add files to the tables that lack their batches. None is of a batch after `batch`."""
        of_table: dict[str, list[Path]] = defaultdict(list)
        for path in files:
            of_table[self._table_of(path)].append(path)
        for name, paths in of_table.items():
            try:
                self._add_to_table(name, batch, sorted(paths))
            except (DeltaError, OSError) as error:
                reason = str(error).partition("\n")[0]
                raise OutputError(f"cannot write to the Delta table {self._out / name}: {reason}") from None

    def _add_to_table(self, name: str, batch: int, paths: list[Path]) -> None:
        table = self._tables.get(name) or self._open(name)
        version = table.transaction_version(self._application)
        known = -1 if version is None else version
        actions: list[AddAction | RemoveAction] = [
            _action(self._out / name, path) for path in paths if batch_of(path.name) > known
        ]
        if not actions:
            return
        done = Transaction(self._application, batch)
        table.create_write_transaction(
            actions,
            "append",
            Schema.from_arrow(_schema(name)),
            _partitions(name),
            commit_properties=CommitProperties(app_transactions=[done]),
        )
        table.update_incremental()

    def _open(self, name: str) -> DeltaTable:
        """Return a table, made if there is none, with all columns of this version of kdissect."""
        schema = Schema.from_arrow(_schema(name))
        table = DeltaTable.create(
            self._out / name,
            schema,
            "ignore",
            name=name,
            description=f"table {name} of kdissect",
            partition_by=_partitions(name),
        )
        known = {field.name for field in table.schema().fields}
        if missing := [field for field in schema.fields if field.name not in known]:
            table.alter.add_columns(missing)
        self._tables[name] = table
        return table


def _identity(path: Path) -> str:
    """Return the name under which tables note the batches of a checkpoint, made at the first time."""
    try:
        if not path.exists():
            write_atomically(path, json.dumps({"application": f"kdissect-{secrets.token_hex(8)}"}))
        return str(json.loads(path.read_text())["application"])
    except OSError as error:
        raise OutputError.of(path, error) from None


def _files(out: Path, name: str) -> Iterable[Path]:
    return out.glob(f"{name}/{HOUR}=*/{FILES}" if _partitions(name) else f"{name}/{FILES}")


def _partitions(name: str) -> list[str]:
    return [] if name == "topic_names" else [HOUR]


def _schema(name: str) -> pa.Schema:
    schema = SCHEMAS[name]
    return schema.append(pa.field(HOUR, pa.string())) if _partitions(name) else schema


def _action(folder: Path, path: Path) -> AddAction:
    """Return what adds a file to the table in a folder."""
    inside, found = path.relative_to(folder), path.stat()
    hour = {HOUR: inside.parts[0].partition("=")[2]} if len(inside.parts) > 1 else {}
    rows = pq.read_metadata(path).num_rows
    return AddAction(
        path=inside.as_posix(),
        size=found.st_size,
        partition_values=hour,
        modification_time=found.st_mtime_ns // NS_PER_MS,
        data_change=True,
        stats=json.dumps({"numRecords": rows}),
    )
