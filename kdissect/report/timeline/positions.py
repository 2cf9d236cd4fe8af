"""How far readers, committers and writers are in each partition: the last offset of each step of time.

A Fetch names the offset it wants next and its answer the high watermark; an OffsetCommit the offset a group has done with,
an OffsetFetch the one it goes on from; a Produce where its records were put. Their distance is what people call lag.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.protocol.api_keys import ApiKey
from kdissect.report.aggregate.grouping import Mask, TableColumns
from kdissect.report.aggregate.histogram import Ints
from kdissect.report.aggregate.partial_tables import AnyColumn, take_rows
from kdissect.report.timeline.exchange_columns import ExchangeColumns, make_timeline_table
from kdissect.report.timeline.timeline_tables import CLIENT, POSITIONS

MOST_OFFSET = np.int64(1) << 62  # captured bytes may claim any


class PositionKind(NamedTuple):
    """What a row of partitions says, by its API."""

    name: str
    apis: tuple[int, ...]


KINDS = (
    PositionKind("written", (ApiKey.PRODUCE,)),
    PositionKind("fetched", (ApiKey.FETCH,)),
    PositionKind("committed", (ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.TXN_OFFSET_COMMIT)),
)


def find_positions(scene: ExchangeColumns, partitions: TableColumns, located: Ints) -> pa.Table:
    """Give the part POSITIONS."""
    api, offset, end = (partitions.ints(name) for name in ("api_key", "offset", "high_watermark"))
    answered = scene.exchanges.known("response_first_ns")
    sound = (located >= 0) & (partitions.ints("error_code") == 0) & partitions.known("offset")
    sound &= (offset >= 0) & (offset < MOST_OFFSET)
    sound &= answered[np.maximum(located, 0)] if scene.exchanges.rows else False
    has_end = partitions.known("high_watermark") & (end >= 0) & (end < MOST_OFFSET)
    written = offset + np.clip(partitions.ints("records"), 0, 1 << 40)
    found = [
        _rows(kind, scene, partitions, located, _wanted(kind, api, sound, has_end), written) for kind in KINDS
    ]
    return pa.concat_tables(found)


def _wanted(kind: PositionKind, api: Ints, sound: Mask, has_end: Mask) -> Ints:
    wanted = sound & np.isin(api, kind.apis)
    return np.flatnonzero(wanted & has_end if kind.name == "fetched" else wanted)


def _rows(
    kind: PositionKind,
    scene: ExchangeColumns,
    partitions: TableColumns,
    located: Ints,
    rows: Ints,
    written: Ints,
) -> pa.Table:
    exchange = located[rows]
    columns: dict[str, AnyColumn] = {
        name: take_rows(partitions.plain(name), rows) for name in ("topic", "topic_id", "partition", "offset")
    }
    columns |= scene.at(exchange, ("step", "capture_file", "request_packet", "response_packet"))
    columns |= {"order_ns": -scene.begin[exchange], "exchanges": np.ones(len(rows), np.int64)}
    columns["kind"] = pa.repeat(pa.scalar(kind.name), len(rows))
    if kind.name == "written":
        columns["end_offset"] = written[rows]
    else:
        columns |= scene.at(exchange, ("group_id", *CLIENT))
    if kind.name == "fetched":
        columns["end_offset"] = take_rows(partitions.plain("high_watermark"), rows)
    return make_timeline_table(POSITIONS, columns)
