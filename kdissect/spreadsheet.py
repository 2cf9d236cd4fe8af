"""CSV that a spreadsheet may open: no cell of it is taken for a formula.

A client chooses its own id and whoever creates a topic its name, and spreadsheet programs run what begins with = + - @, a
tab or a carriage return. Such text gets an apostrophe before it, which they take for "this is text" and do not show. Numbers
are numbers of ours and stay as they are.
"""

import pyarrow as pa
import pyarrow.compute as pc

FORMULAS = ("=", "+", "-", "@", "\t", "\r")
BEGINS = r"^([=+\-@\t\r])"


def harmless(text: str) -> str:
    """Give text that no spreadsheet runs."""
    return f"'{text}" if text.startswith(FORMULAS) else text


def harmless_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Do the same to every text column of a batch."""
    columns = [
        pc.replace_substring_regex(column, BEGINS, r"'\1") if pa.types.is_string(column.type) else column
        for column in batch.columns
    ]
    return pa.record_batch(columns, schema=batch.schema)
