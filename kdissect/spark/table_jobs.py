"""The Spark jobs for public tables: DataFrames over them, or files.

All tables come from one run of pass two, which leaves their rows as blobs on the disks of the workers,
together with the names of topics. Each table is a DataFrame over its own blobs, in which mapInArrow fills in
the names.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from kdissect.memory import release_memory
from kdissect.spark import tasks
from kdissect.spark.analysis_work import AnalysisWork
from kdissect.spark.arrow_ipc import Blob, from_blob, ordered_by_split, to_blob
from kdissect.spark.backend import ROWS, Backend, Rows
from kdissect.spark.backend_choice import backend_of
from kdissect.spark.jobs import named_batches, named_blobs, shuffled, watched, with_facts
from kdissect.spark.parquet_parts import complete_parts, write_parts
from kdissect.tables.record_structs import RecordStructs
from kdissect.tables.schemas import ROW_TABLES

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

WITH_TOPIC_IDS = ("partitions", "records")

Finish: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]


def tables(
    session: "SparkSession",
    work: AnalysisWork,
    wanted: Sequence[str],
    finish: Finish | None = None,
    with_structs: bool = False,
) -> "dict[str, DataFrame]":
    """Return public tables as DataFrames, with topic names learnt from anywhere in the captures.

    The captures are dissected now, once for all tables. Their rows stay on disk as long as the session has
    them. `finish` is applied to each batch last. `with_structs` adds columns of structs to the records of a
    topic (see `tables.record_structs`).
    """
    pieces, work = with_facts(shuffled(backend_of(session), work), work, wanted)
    step = _tables_step(work, backend_of(session), wanted)
    rows = pieces.through(partial(named_blobs, step=step)).kept()
    names = _topic_names(rows)
    finishes, schemas = dict.fromkeys(wanted, finish), dict(ROW_TABLES)
    topic = work.treatment.filter.only_topic
    if with_structs and topic is not None and "records" in wanted:
        structs = RecordStructs.of(topic, (batch for _, batch in named_batches(rows.only("record_types"))))
        finishes["records"], schemas["records"] = structs.add, structs.schema
    return {
        table: rows.only(table).frame(
            session,
            partial(
                _rows_of,
                names=names if table in WITH_TOPIC_IDS else {},
                finish=finishes[table],
                schema=schemas[table],
            ),
            schemas[table],
        )
        for table in wanted
    }


def write_tables(
    spark: "SparkContext | SparkSession | Backend",
    work: AnalysisWork,
    wanted: Sequence[str],
    folder: Path,
) -> None:
    """Write public tables as Parquet, each as a directory in an empty folder of this machine.

    Spark must run on this machine. Rows that wait for the names of topics stay on disk until all are known.
    """
    pieces, work = with_facts(shuffled(backend_of(spark), work), work, wanted)
    schemas = {table: ROW_TABLES[table] for table in wanted}
    at_once = {table: schema for table, schema in schemas.items() if table not in WITH_TOPIC_IDS}
    step = _tables_step(work, backend_of(spark), wanted)
    write = partial(_write_tables, step=step, folder=str(folder), schemas=at_once)
    rows = pieces.through_numbered(write).kept()
    names = _topic_names(rows)
    later = {table: schema for table, schema in schemas.items() if table in WITH_TOPIC_IDS}
    if later:
        rows.through_numbered(
            partial(_write_named, names=names, folder=str(folder), schemas=later)
        ).collected()
    complete_parts(folder, schemas)


def _tables_step(work: AnalysisWork, backend: Backend, wanted: Sequence[str]) -> Callable[..., Any]:
    step = partial(tasks.tables_step, splits=work.splits, wanted=tuple(wanted), treatment=work.treatment)
    return watched(work, backend, step)


def _topic_names(rows: Rows) -> dict[str, str]:
    return tasks.topic_names(
        pair for _, batch in named_batches(rows.only("names")) for pair in tasks.name_pairs(batch)
    )


def _write_tables(
    number: int,
    blobs: Iterable[Blob],
    step: Callable[[Iterable[pa.RecordBatch]], Iterator[tuple[str, pa.RecordBatch]]],
    folder: str,
    schemas: Mapping[str, pa.Schema],
) -> Iterator[tuple[str, bytes]]:
    for name, batch in write_parts(number, step(ordered_by_split(blobs)), folder, schemas):
        yield name, to_blob(batch, compression="lz4")
    release_memory()


def _write_named(
    number: int,
    blobs: Iterable[tuple[str, bytes]],
    names: Mapping[str, str],
    folder: str,
    schemas: Mapping[str, pa.Schema],
) -> Iterator[tuple[str, bytes]]:
    tables = (
        (table, tasks.with_topics(rows, names) if names else rows)
        for table, blob in blobs
        if table in schemas
        for rows in from_blob(blob)
    )
    yield from ((table, to_blob(rows)) for table, rows in write_parts(number, tables, folder, schemas))


def _rows_of(
    batches: Iterable[pa.RecordBatch], names: Mapping[str, str], finish: Finish | None, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for blob in batch[ROWS].to_pylist():
            for rows in from_blob(blob):
                named = tasks.with_topics(rows, names) if names else rows
                yield (finish(named) if finish else named).cast(schema)
