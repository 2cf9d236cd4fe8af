"""CSV that a spreadsheet may open and a terminal show: no cell of it is taken for a formula, none moves a cursor.

A client chooses its own id and whoever creates a topic its name, and spreadsheet programs run what begins with = + - @, a
tab or a carriage return. Such text gets an apostrophe before it, which they take for "this is text" and do not show. Numbers
are numbers of ours and stay as they are. Control and format characters are written as in `safe`, but for tabs and ends of lines.
"""

import re

import pyarrow as pa
import pyarrow.compute as pc

from kdissect.text import escape_control

FORMULAS = ("=", "+", "-", "@", "\t", "\r")
BEGINS = r"^([=+\-@\t\r])"
PERHAPS_OBEYED = r"[^\t\n\r\x20-\x7e]"  # Arrow's Unicode may be another than Python's
LEFT_ALONE = re.compile(r"([\t\n\r]+)")


def csv_text(text: str) -> str:
    """Give text that no spreadsheet runs and no terminal obeys."""
    shown = "".join(
        part if LEFT_ALONE.match(part) else escape_control(part) for part in LEFT_ALONE.split(text)
    )
    return f"'{shown}" if text.startswith(FORMULAS) else shown


def csv_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Do the same to every text column of a batch."""
    columns = [_harmless(column) if pa.types.is_string(column.type) else column for column in batch.columns]
    return pa.record_batch(columns, schema=batch.schema)


def _harmless(column: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(column, PERHAPS_OBEYED)).as_py():
        return pa.array(
            [None if text is None else csv_text(text) for text in column.to_pylist()], pa.string()
        )
    return pc.replace_substring_regex(column, BEGINS, r"'\1")
