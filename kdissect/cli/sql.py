"""`kdissect sql`: a Spark SQL query over the public tables, which may read these tables and nothing else.

`--unrestricted-sql` lets it do whatever Spark can do with the rights of the user.
"""

import argparse
import csv
import json
import math
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

from kdissect.capture.formats.decompress import LONGEST_MAGIC, is_compressed
from kdissect.cli.context import (
    AnalysisRun,
    AnyEngine,
    announce,
    notify,
    prepare_run,
    reading_job,
    spark_engine,
)
from kdissect.cli.filter_options import table_filter
from kdissect.cli.options import EVERY_TABLE, ROW_TABLES
from kdissect.cli.report_build import report_frames
from kdissect.errors import UsageError
from kdissect.spark.spark_settings import RunKind

AHEAD_BYTES = 1 << 30  # are indexed in less time than Spark starts in
ROWS_SHOWN = 1000
NO_STRUCTS = (
    "key_struct and value_struct need --topic with the name of one topic, and schemas: --schemas, "
    "--schema-registry, or traffic of a registry in the capture"
)
UNCUT_WIDTH = 1 << 16  # columns, if standard output is not a terminal


def sql(arguments: argparse.Namespace) -> int:
    """Run the command."""
    with spark_engine(arguments, arguments.paths, kind=RunKind.SQL) as engine:
        engine.build()
        run = (
            prepare_run(engine, arguments, arguments.paths, announces=False)
            if is_ahead(engine, arguments)
            else None
        )
        engine.context()  # first: two threads that import pyspark at once get half of it
        session = engine.session()

        from kdissect.spark.queries import compile_query, run_query

        try:
            wanted = checked_tables(session, arguments)
            if run is None:
                run = prepare_run(engine, arguments, arguments.paths)
            else:
                announce(run.index, arguments.quiet)
            compile_query(session, run.index.captured_bytes)
            views = row_frames(run, arguments, session, wanted)
            views |= report_frames(run, arguments, session, wanted)
            if names_structs(arguments) and "records" in views:
                require_structs(views["records"].columns, arguments.query)
            frame = run_query(session, views, arguments.query)
        except ValueError as wrong:
            raise UsageError(str(wrong)) from None
        write_rows(frame, arguments)
        return run.exit_code()


def is_ahead(engine: AnyEngine, arguments: argparse.Namespace) -> bool:
    """Return whether captures are indexed while Spark starts, which takes longer.

    Large and compressed captures, and standard input, wait until the query is checked.
    """
    files = [Path(path) for path in arguments.paths]
    if not engine.may_be_helped or not all(file.is_file() for file in files):
        return False
    try:
        return (
            not any(map(_is_compressed, files)) and sum(file.stat().st_size for file in files) <= AHEAD_BYTES
        )
    except OSError:
        return False  # it is reported later


def _is_compressed(file: Path) -> bool:
    with file.open("rb") as opened:
        return is_compressed(opened.read(LONGEST_MAGIC))


def checked_tables(session: Any, arguments: argparse.Namespace) -> list[str]:
    """Return the tables that the query needs, before captures are read.

    Raise ValueError for a wrong query.
    """
    from kdissect.report.build.incident_tables import report_schemas
    from kdissect.spark.queries import check_columns
    from kdissect.tables.schemas import ROW_TABLES as SCHEMAS

    wanted = wanted_tables(session, arguments)
    if names_structs(arguments):  # which depend on schemas
        if table_filter(arguments, 0).only_topic is None:
            raise ValueError(NO_STRUCTS)
    elif not arguments.unrestricted_sql:  # which may be a command, and would be run here
        known = {**SCHEMAS, **report_schemas()}
        check_columns(session, arguments.query, {name: known[name] for name in wanted})
    return wanted


def names_structs(arguments: argparse.Namespace) -> bool:
    """Return whether the query names columns that only records with a schema have."""
    return re.search(r"\b(key|value)_struct\b", arguments.query, re.IGNORECASE) is not None


def wanted_tables(session: Any, arguments: argparse.Namespace) -> list[str]:
    """Return the tables that the query needs. Raise ValueError if it may not be run."""
    from kdissect.spark.queries import check_query, check_syntax

    if not arguments.unrestricted_sql:
        read = check_query(session, arguments.query, EVERY_TABLE)
        return [table for table in EVERY_TABLE if table in read]
    check_syntax(session, arguments.query)
    return [table for table in EVERY_TABLE if re.search(rf"\b{table}\b", arguments.query, re.IGNORECASE)]


def row_frames(
    run: AnalysisRun, arguments: argparse.Namespace, session: Any, wanted: Sequence[str]
) -> dict[str, Any]:
    """Return the tables of rows as DataFrames, as far as they are `wanted`.

    If nothing is, the captures are read all the same, for a query that only tells whether they can be.
    """
    from kdissect.spark import table_jobs
    from kdissect.spark.parquet_tables import LARGE_ROWS, parquet_tables

    own = [table for table in wanted if table in ROW_TABLES]
    if wanted and not own:
        return {}
    with reading_job(run, arguments.quiet):
        if run.engine.settings.local and own and LARGE_ROWS.isdisjoint(own):
            return parquet_tables(session, run.work, own, run.engine.temporary / "tables")
        return table_jobs.tables(session, run.work, own, with_structs=True)


def require_structs(columns: Sequence[str], query: str) -> None:
    """Raise ValueError if a query names a column of structs that the records do not have."""
    for name in ("key_struct", "value_struct"):
        if re.search(rf"\b{name}\b", query, re.IGNORECASE) and name not in columns:
            part = name.partition("_")[0]
            raise ValueError(
                f"there is no {name}: no {part} of this topic was decoded by a schema with fields"
            )


def write_rows(frame: Any, arguments: argparse.Namespace) -> None:
    """Write the rows of a DataFrame, and let go of the rest while Spark is there, also on an error."""
    with closing(rows_of(frame)) as rows:
        WRITERS[arguments.format](frame.columns, rows, arguments)


def rows_of(frame: Any) -> Generator[list[Any], None, None]:
    """Return the rows one after another, fetched from Spark as they are needed."""
    for row in frame.toLocalIterator():
        yield [_tree(value) for value in row]


def _tree(value: Any) -> Any:
    """Return a value with rows of structs as dictionaries, and bytes as hexadecimal digits."""
    if isinstance(value, tuple):  # a Row
        names = getattr(value, "__fields__", range(len(value)))
        return {name: _tree(inside) for name, inside in zip(names, value, strict=True)}
    if isinstance(value, list):
        return [_tree(one) for one in value]
    if isinstance(value, bytes | bytearray):
        return value.hex()
    return {name: _tree(one) for name, one in value.items()} if isinstance(value, dict) else value


def as_text(columns: list[str], rows: Iterator[list[Any]], arguments: argparse.Namespace) -> None:
    """Write a text table: as wide as the terminal, or uncut if standard output is not one."""
    from dataclasses import replace

    from kdissect.report.render.table import (
        TableCell,
        TableColumn,
        table_lines,
    )
    from kdissect.report.render.terminal import terminal_of

    terminal = terminal_of(sys.stdout, color=arguments.color)
    terminal = terminal if sys.stdout.isatty() else replace(terminal, width=UNCUT_WIDTH)
    most = arguments.limit or ROWS_SHOWN
    first = list(islice(rows, most + 1))
    shown = first[:most]
    numbers = [
        all(isinstance(row[at], int | float | None) and not isinstance(row[at], bool) for row in shown)
        for at in range(len(columns))
    ]
    table = [
        TableColumn(terminal.escape(name), right=right, shortest=0 if right else 8)
        for name, right in zip(columns, numbers, strict=True)
    ]
    cells = [[TableCell(_plain(value, terminal.escape, "{:.6g}".format)) for value in row] for row in shown]
    sys.stdout.write("\n".join(line.removeprefix(" ") for line in table_lines(table, cells, terminal)) + "\n")
    if len(first) > most:
        notify(f"kdissect: only the first {most:,} rows are shown (--limit, or --format csv for all)")


def as_csv(columns: list[str], rows: Iterator[list[Any]], arguments: argparse.Namespace) -> None:
    """Write CSV (RFC 4180) without anything that a spreadsheet would run. Null is an empty cell."""
    from kdissect.text import escape_cell

    writer = csv.writer(sys.stdout)
    writer.writerow([escape_cell(name) for name in columns])
    for row in _limited(rows, arguments):
        writer.writerow(["" if value is None else _plain(value, escape_cell) for value in row])


def as_jsonl(columns: list[str], rows: Iterator[list[Any]], arguments: argparse.Namespace) -> None:
    """Write one JSON object for each line, in ASCII."""
    names = distinct(columns)
    for row in _limited(rows, arguments):
        sys.stdout.write(_json(dict(zip(names, row, strict=True))) + "\n")


def distinct(columns: Iterable[str]) -> list[str]:
    """Return unique column names: the second `x` becomes `x_2`."""
    found: dict[str, None] = {}
    for name in columns:
        count, other = 1, name
        while other in found:
            count += 1
            other = f"{name}_{count}"
        found[other] = None
    return list(found)


def _limited(rows: Iterator[list[Any]], arguments: argparse.Namespace) -> Iterator[list[Any]]:
    return islice(rows, arguments.limit)


def _json(value: Any, in_ascii: bool = True) -> str:
    return json.dumps(_finite(value), ensure_ascii=in_ascii, default=_in_json, allow_nan=False)


def _finite(value: Any) -> Any:
    """Return a value with null for each number that JSON does not have: NaN and the infinities."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [_finite(one) for one in value]
    return {name: _finite(one) for name, one in value.items()} if isinstance(value, dict) else value


def _in_json(value: Any) -> Any:
    """Return decimals as numbers, and times and everything else as text."""
    return float(value) if isinstance(value, Decimal) else str(value)


def _plain(value: Any, text: Any, number: Callable[[float], str] = repr) -> str:
    """Return a value as text, a float with all its digits unless `number` says otherwise."""
    if value is None:
        return "null"
    if isinstance(value, dict | list):
        value = _json(value, in_ascii=False)
    if isinstance(value, bool):
        return str(value).lower()
    return (
        str(value)
        if isinstance(value, int)
        else number(value)
        if isinstance(value, float)
        else str(text(str(value)))
    )


WRITERS = {"text": as_text, "csv": as_csv, "jsonl": as_jsonl}
