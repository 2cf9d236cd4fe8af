"""The blocks of docs/tables.md: every column of every public table, from the definitions of the tables."""

from collections.abc import Callable, Mapping
from functools import partial

from kdissect.report.build.incident_tables import REPORT_COLUMNS
from kdissect.tables.column import Column
from kdissect.tables.schemas import COLUMNS as ROW_COLUMNS
from kdissect.tables.schemas import RECORD_COLUMNS
from tests.docs.markdown import table

COLUMNS = {**ROW_COLUMNS, "records": RECORD_COLUMNS, **REPORT_COLUMNS}


def blocks() -> Mapping[str, Callable[[], str]]:
    """Return one block for each table."""
    return {f"table {name}": partial(_columns, name) for name in COLUMNS}


def _columns(name: str) -> str:
    return table(("column", "type", "meaning", "null"), [_row(column) for column in COLUMNS[name]])


def _row(column: Column) -> tuple[str, str, str, str]:
    kind = f"{column.type}, {column.unit}" if column.unit else str(column.type)
    return f"`{column.name}`", kind, column.meaning, "never" if column.null is None else column.null
