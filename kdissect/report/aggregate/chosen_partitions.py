"""Rows of partitions that tables are counted from: lags, load, reads, and positions of each kind.

Each table wants other rows, by the same few columns: API, offset, end of the log, error, size. The masks that
they share are made once for all of them, which took 19 ns an exchange of chatty traffic, and takes 9.
"""

from typing import NamedTuple

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.protocol.api_keys import OFFSET_COMMITS, ApiKey
from kdissect.protocol.api_mask import in_apis
from kdissect.report.aggregate.grouping import TableColumns

MOST_OFFSET = 1 << 62  # captured bytes may claim any
NO_OFFSET = -1
"""The offset in a response when the coordinator knows none."""


class ChosenPartitions(NamedTuple):
    """Rows of partitions by what is counted from them; all of these rows have an exchange."""

    lags: Int64s
    """Fetches that tell how far a consumer is behind."""
    load: Int64s
    """Records that are written and fetched."""
    reads: Int64s
    """Fetches of consumers that returned records."""
    written: Int64s
    fetched: Int64s
    committed: Int64s
    absent: Int64s
    """Positions: the last ones where no offset is committed."""


def chosen_partitions(
    partitions: TableColumns, exchanges: TableColumns, exchange_rows: Int64s
) -> ChosenPartitions:
    """Return the rows that tables are counted from, chosen once for each table."""
    return partitions.once("chosen", lambda: _chosen(partitions, exchanges, exchange_rows))


def _chosen(partitions: TableColumns, exchanges: TableColumns, exchange_rows: Int64s) -> ChosenPartitions:
    api, offset, end = map(partitions.ints, ("api_key", "offset", "high_watermark"))
    there = exchange_rows >= 0
    is_answered, is_replica = (
        exchanges.present(name)[exchange_rows] & there if exchanges.rows else there
        for name in ("response_first_ns", "replica_id")
    )
    is_fetch = api == ApiKey.FETCH
    sound = there & (partitions.ints("error_code") == 0) & partitions.present("offset")
    known = sound & is_answered & (offset >= 0) & (offset < MOST_OFFSET)
    has_end = partitions.present("high_watermark") & (end >= 0)
    moved = there & partitions.present("batches") & (partitions.ints("batches") > 0)
    masks: dict[str, Bools] = {
        "lags": sound & is_fetch & has_end & (offset >= 0) & partitions.present("partition"),
        "load": moved & in_apis(api, (ApiKey.PRODUCE, ApiKey.FETCH)),
        "reads": sound & is_fetch & (partitions.ints("record_bytes") > 0) & ~is_replica,
        "written": known & (api == ApiKey.PRODUCE),
        "fetched": known & is_fetch & has_end & (end < MOST_OFFSET),
        "committed": known & in_apis(api, (*OFFSET_COMMITS, ApiKey.OFFSET_FETCH)),
        "absent": sound & is_answered & (offset == NO_OFFSET) & (api == ApiKey.OFFSET_FETCH),
    }
    return ChosenPartitions(**{name: np.flatnonzero(mask) for name, mask in masks.items()})
