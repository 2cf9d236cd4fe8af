"""Rows of public tables as Parquet files, by hour: one file for each table, hour, batch and task.

    <folder>/<table>/hour=2026-11-22-18/batch-00000012-003.parquet

A row belongs to the hour (UTC) of its time: that of the request, or of the response if the request was not
captured; of a connection, that of its last packet. A batch has at most MOST_HOURS hours; rows of further
ones, which only a capture with wrong clocks has, go to `hour=other`.
"""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from kdissect.array_types import Int64s
from kdissect.tables.exchange_keys import ExchangeKeys, find_exchanges
from kdissect.tables.schemas import NAMES, TABLES

NS_PER_HOUR = 3_600_000_000_000
MOST_HOURS = 64
OTHER = -1
ROW_GROUP = 1 << 16
TIME_OF = {"connections": "last_time_ns", "group_events": "asked_ns", "transaction_events": "asked_ns"}
TOPIC_NAMES = "topic_names"
SCHEMAS = {**TABLES, TOPIC_NAMES: NAMES}


class HourWriter:
    """Writes the rows of one task of one batch below a folder. Its files are complete after `close`."""

    def __init__(self, folder: Path, batch: int, task: int) -> None:
        self._folder = folder
        self._name = file_name(batch, task)
        self._writers: dict[tuple[str, int], pq.ParquetWriter] = {}
        self._held: dict[tuple[str, int], list[pa.RecordBatch]] = {}
        self._hours: set[int] = set()

    def add(self, tables: Mapping[str, pa.RecordBatch]) -> None:
        """Add the rows of the public tables among a batch of tables."""
        for name in TABLES:
            if name in tables and tables[name].num_rows:
                rows = tables[name].select(TABLES[name].names)
                self._add(name, rows, _hours(name, rows, tables))

    def close(self) -> list[str]:
        """Finish all files. Return their paths below the folder."""
        for key in list(self._held):
            self._write(key)
        paths = []
        for (name, hour), writer in self._writers.items():
            writer.close()
            path = self._path(name, hour)
            sync_file(self._folder / path)
            paths.append(path)
        return paths

    def _add(self, name: str, rows: pa.RecordBatch, hours: Int64s) -> None:
        for hour in np.unique(hours).tolist():
            if len(self._hours) < MOST_HOURS:
                self._hours.add(hour)
            key = (name, hour if hour in self._hours else OTHER)
            part = rows if (hours == hour).all() else rows.filter(pa.array(hours == hour))
            held = self._held.setdefault(key, [])
            held.append(part)
            if sum(batch.num_rows for batch in held) >= ROW_GROUP:
                self._write(key)

    def _write(self, key: tuple[str, int]) -> None:
        name, hour = key
        if key not in self._writers:
            path = self._folder / self._path(name, hour)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._writers[key] = pq.ParquetWriter(path, TABLES[name], compression="zstd")
        self._writers[key].write_table(pa.Table.from_batches(self._held.pop(key), TABLES[name]))

    def _path(self, name: str, hour: int) -> str:
        return f"{name}/hour={hour_label(hour)}/{self._name}"


def write_names(folder: Path, batch: int, names: Mapping[str, str]) -> list[str]:
    """Write names of topics (id to name) as a file of the table TOPIC_NAMES. Return its path, if any."""
    if not names:
        return []
    path = f"{TOPIC_NAMES}/{file_name(batch, 0)}"
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    columns = {"topic_id": list(names), "topic": list(names.values())}
    pq.write_table(pa.table(columns, schema=NAMES), folder / path)
    sync_file(folder / path)
    return [path]


def file_name(batch: int, task: int) -> str:
    """Return the name of the files of a task.

    >>> file_name(12, 3)
    'batch-00000012-003.parquet'
    """
    return f"batch-{batch:08}-{task:03}.parquet"


def batch_of(name: str) -> int:
    """Return the batch of a file by its name.

    >>> batch_of("batch-00000012-003.parquet")
    12
    """
    return int(name.split("-")[1])


def hour_label(hour: int) -> str:
    """Return the label of an hour, counted from the epoch.

    >>> hour_label(496_602)
    '2026-08-26-18'
    """
    return "other" if hour == OTHER else datetime.fromtimestamp(hour * 3600, UTC).strftime("%Y-%m-%d-%H")


def _hours(name: str, rows: pa.RecordBatch, tables: Mapping[str, pa.RecordBatch]) -> Int64s:
    if name in TIME_OF:
        times: Int64s = rows[TIME_OF[name]].to_numpy()
    elif name == "exchanges":
        times = _exchange_times(rows)
    else:
        exchanges = tables["exchanges"]
        found = find_exchanges(ExchangeKeys.of(rows), ExchangeKeys.of(exchanges))
        of_exchange = _exchange_times(exchanges)
        # Rows of a response without its request have no key: they go with what they came with.
        times = of_exchange[np.maximum(found, 0)]
    return times // NS_PER_HOUR


def _exchange_times(exchanges: pa.RecordBatch) -> Int64s:
    request = exchanges["request_first_ns"].fill_null(0).to_numpy()
    times: Int64s = np.where(request > 0, request, exchanges["response_first_ns"].fill_null(0).to_numpy())
    return times


def sync_file(path: Path) -> None:
    """Write a file to its disk. Raise OSError."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def write_synced(path: Path, data: bytes) -> None:
    """Write bytes to a file, and the file to its disk. Raise OSError."""
    path.write_bytes(data)
    sync_file(path)
