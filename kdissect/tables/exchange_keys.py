"""The key that joins the tables: rows of partitions and events find their exchange by connection and ordinal.

In come the keys of two batches, out goes a row number for each key of the first. Both batches must be of the
same batch of tables, as `tables.build` makes them: the rows of an exchange always come with it.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kdissect.array_types import Int64s

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
    def of(cls, batch: pa.RecordBatch) -> "ExchangeKeys":
        """Return the keys of a batch with the columns connection and ordinal."""
        return cls(
            batch["connection"].to_numpy(),
            batch["ordinal"].fill_null(0).to_numpy(),
            batch["ordinal"].is_valid().to_numpy(zero_copy_only=False),
        )


def find_exchanges(keys: ExchangeKeys, exchanges: ExchangeKeys) -> Int64s:
    """Return for each key the row of the exchange that has it, -1 if there is none.

    Equal connections mostly follow each other, so their runs are numbered and not every row.
    """
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


def _number_runs(values: Int64s) -> Int64s:
    """Return a number for each value, the same for equal values."""
    starts = np.flatnonzero(np.r_[True, values[1:] != values[:-1]])
    numbers = pa.array(values[starts]).dictionary_encode().indices.to_numpy().astype(np.int64)
    return np.repeat(numbers, np.diff(np.r_[starts, len(values)]))
