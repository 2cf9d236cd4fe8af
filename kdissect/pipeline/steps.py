"""What Spark's workers run: functions from Arrow batches to Arrow batches, the same with and without Spark.

A step takes the batches of one task and may be given them cut anywhere; rows arrive in order of (split, piece). It holds
no more than one split's pieces, the connections in the making, and one merged partial.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kdissect.capture.pieces import Counts, pack_counts, unpack_counts
from kdissect.capture.scan import scan_batches
from kdissect.capture.splits import Split
from kdissect.exchange.dissect import dissect_batches
from kdissect.report.partials import EMPTY, PARTIAL, merge, summarise, to_arrow
from kdissect.tables import NAMES, TABLES

COUNTS_PART = "counts"
"""The name under which the counts of pass one travel among the parts of a partial; its rows are packed `Counts`."""

MERGED_AT = 16  # partials that are merged together


def scan_step(
    batches: Iterable[pa.RecordBatch], splits: Sequence[Split], ports: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """Turn ordinals of splits (column `split`) into PIECES."""
    yield from scan_batches(batches, splits, ports)


def routed(pieces: pa.RecordBatch, partitions: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Part the pieces of a split by the partition of pass two that their connections belong to.

    All pieces of a connection share a bucket, so they meet in one partition. Rows keep their order.
    """
    partition = pieces["bucket"].to_numpy() % partitions
    for number in np.unique(partition).tolist():
        yield number, pieces.filter(pa.array(partition == number))


def summary_step(batches: Iterable[pa.RecordBatch], splits: Sequence[Split]) -> Iterator[pa.RecordBatch]:
    """Turn PIECES into one partial summary (PARTIAL) and the counts of pass one."""
    counts = [0] * len(Counts._fields)
    pending, merged = [], EMPTY
    for tables in dissect_batches(_tapped(batches, counts), splits):
        pending.append(summarise(tables))
        if len(pending) == MERGED_AT:
            merged, pending = merge([merged, *pending]), []
    yield to_arrow(merge([merged, *pending]))
    packed = pack_counts(Counts(*counts))
    yield pa.record_batch([pa.array([COUNTS_PART]), pa.array([packed], pa.binary())], schema=PARTIAL)


def table_step(
    batches: Iterable[pa.RecordBatch], splits: Sequence[Split], table: str, names: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """Turn PIECES into rows of one public table; `names` gives topics for topic ids."""
    for tables in dissect_batches(batches, splits):
        if table in tables:
            rows = tables[table].select(TABLES[table].names)
            yield _named(rows, names) if table == "partitions" and names else rows


def names_step(batches: Iterable[pa.RecordBatch], splits: Sequence[Split]) -> Iterator[pa.RecordBatch]:
    """Turn PIECES into what they say of topic ids and names (columns of NAMES), each pair once."""
    seen: set[tuple[str, str]] = set()
    for tables in dissect_batches(batches, splits):
        if "names" in tables:
            rows = tables["names"]
            seen.update(zip(rows["topic_id"].to_pylist(), rows["topic"].to_pylist(), strict=True))
    pairs = sorted(seen)
    columns = [pa.array([pair[place] for pair in pairs], pa.string()) for place in (0, 1)]
    yield pa.record_batch(columns, names=["topic_id", "topic"]).select(NAMES.names)


def counts_in(batches: Iterable[pa.RecordBatch]) -> Counts:
    """Add up the counts among the rows of PARTIAL batches."""
    packed = (
        rows
        for batch in batches
        for rows in batch["rows"].filter(pc.equal(batch["part"], COUNTS_PART)).to_pylist()
    )
    return Counts(*map(sum, zip(Counts(), *map(unpack_counts, packed), strict=True)))


def partials_in(batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Give PARTIAL batches without the counts."""
    return [batch.filter(pc.not_equal(batch["part"], COUNTS_PART)) for batch in batches]


def _tapped(batches: Iterable[pa.RecordBatch], counts: list[int]) -> Iterator[pa.RecordBatch]:
    """Pass pieces on and add up what the rows of counts (bucket -1) say."""
    for batch in batches:
        for packed in batch["segments"].filter(pc.less(batch["bucket"], 0)).to_pylist():
            counts[:] = map(sum, zip(counts, unpack_counts(packed), strict=True))
        yield batch


def _named(rows: pa.RecordBatch, names: Mapping[str, str]) -> pa.RecordBatch:
    """Fill in the topics that only an id stands for."""
    ids, topics = pa.array(list(names), pa.string()), pa.array(list(names.values()), pa.string())
    found = topics.take(pc.index_in(rows["topic_id"], ids))
    return rows.set_column(rows.schema.get_field_index("topic"), "topic", pc.coalesce(rows["topic"], found))
