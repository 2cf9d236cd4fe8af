"""The key that joins the tables: rows of partitions and events find their exchange by connection and ordinal.

In come the keys of two batches, out goes a row number for each key of the first. Both batches must be of the
same batch of tables, as `tables.build` makes them: the rows of an exchange always come with it.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kdissect.array_types import Bools, Int64s
from kdissect.jit.decorators import jit_flat
from kdissect.jit.many_rows import are_many, read_only
from kdissect.tables.array_batch import ArrayBatch, numbers_of
from kdissect.tables.column_values import run_starts

DIRECT_CELLS = 4
"""With up to so many possible keys for each row, rows are found in an array: half of the time of a search."""


class ExchangeKeys(NamedTuple):
    """The keys of the rows of one batch.

    `present` is false where the request was not captured, so there is no key.
    """

    connection: Int64s
    ordinal: Int64s
    present: NDArray[np.bool_]

    @classmethod
    def of(cls, batch: pa.RecordBatch | ArrayBatch) -> "ExchangeKeys":
        """Return the keys of a batch with the columns connection and ordinal."""
        ordinal = numbers_of(batch, "ordinal")
        return cls(numbers_of(batch, "connection").values, ordinal.values, ordinal.present)


def find_exchanges(keys: ExchangeKeys, exchanges: ExchangeKeys) -> Int64s:
    """Return for each key the row of the exchange that has it, -1 if there is none.

    Equal connections mostly follow each other, so their runs are numbered and not every row.
    """
    if are_many(len(keys.connection)):
        followed = _followed(keys, exchanges)
        if followed is not None:
            return followed
    rows = np.flatnonzero(exchanges.present)
    if not len(rows) or not len(keys.connection):
        return np.full(len(keys.connection), -1, np.int64)
    connection = _number_runs(np.concatenate([exchanges.connection[rows], keys.connection]))
    ordinal = np.concatenate([exchanges.ordinal[rows], keys.ordinal])
    lowest, width = int(ordinal.min()), int(ordinal.max()) - int(ordinal.min()) + 1
    key = connection * width + (ordinal - lowest)
    known, wanted = key[: len(rows)], key[len(rows) :]
    cells = (int(connection.max()) + 1) * width
    if cells <= DIRECT_CELLS * len(key):
        place = np.full(cells, -1, np.int64)
        place[known[::-1]] = rows[::-1]  # the first row of a key is the last to be written
        return np.where(keys.present, place[wanted], -1)
    if not (known[1:] >= known[:-1]).all():
        order = np.argsort(known, kind="stable")
        known, rows = known[order], rows[order]
    nearest = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where((known[nearest] == wanted) & keys.present, rows[nearest], -1)


def _followed(keys: ExchangeKeys, exchanges: ExchangeKeys) -> Int64s | None:
    """Return the rows that `follow_exchanges` finds, None if keys are not in its order.

    Batches of a task have that order.
    """
    rows = np.empty(len(keys.connection), np.int64)
    columns = (read_only(column) for column in (*keys, *exchanges))
    return rows if follow_exchanges(*columns, rows) else None


@jit_flat
def follow_exchanges(
    connection: Int64s,
    ordinal: Int64s,
    present: Bools,
    of_connection: Int64s,
    of_ordinal: Int64s,
    of_present: Bools,
    rows: Int64s,
) -> bool:
    """Fill `rows` with the exchange of each key, -1 for one that is not present. Return whether that worked.

    It works if keys come in the order of their exchanges. An ordinal occurs once in a connection, so there
    is no other exchange to find. It takes a fifth of the time of a table of all keys.
    """
    at = -1
    for row in range(len(connection)):
        if not present[row]:
            rows[row] = -1
            continue
        while at < 0 or of_connection[at] != connection[row] or of_ordinal[at] != ordinal[row]:
            at += 1
            while at < len(of_connection) and not of_present[at]:
                at += 1
            if at == len(of_connection):
                return False
        rows[row] = at
    return True


def call_all() -> None:
    """Call the loop, so that it is compiled and kept."""
    none, mask = read_only(np.zeros(0, np.int64)), read_only(np.zeros(0, np.bool_))
    follow_exchanges(none, none, mask, none, none, mask, np.zeros(0, np.int64))


def _number_runs(values: Int64s) -> Int64s:
    """Return a number for each value, the same for equal values."""
    starts = run_starts(values)
    numbers = pa.array(values[starts]).dictionary_encode().indices.to_numpy().astype(np.int64)
    return np.repeat(numbers, np.diff(np.r_[starts, len(values)]))
