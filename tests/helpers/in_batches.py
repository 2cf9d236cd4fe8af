"""The tables of captures that are dissected batch by batch, carried on as bytes in between."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from kdissect.capture.index.splits import Split
from kdissect.capture.segment_index import PIECES
from kdissect.spark import tasks
from kdissect.streams.carry.value_bytes import from_bytes, to_bytes
from kdissect.streams.tls.keylog import NO_KEYS, KeyLog
from kdissect.tables.dissection import AgeLimits, Dissection
from kdissect.tables.filters import TableBatches
from kdissect.tables.schemas import TABLES

ENDLESS = AgeLimits(1 << 62, 1 << 62)
WANTED = tuple(name for name in TABLES if name != "connections")


def rows_in_order(batches: Iterable[TableBatches]) -> dict[str, pa.Table]:
    """Return the public tables, each in an order that depends on its rows alone."""
    parts: dict[str, list[pa.RecordBatch]] = {name: [] for name in TABLES}
    for batch in batches:
        for name in TABLES:
            if name in batch and batch[name].num_rows:
                parts[name].append(batch[name].select(TABLES[name].names))
    return {
        name: pa.Table.from_batches(found, TABLES[name])
        .sort_by([(column, "ascending") for column in TABLES[name].names])
        .combine_chunks()
        for name, found in parts.items()
    }


def pieces_of(splits: Sequence[Split]) -> list[pa.RecordBatch]:
    """Return the result of pass one, a batch for each split."""
    return list(tasks.scan_step([pa.record_batch({"split": list(range(len(splits)))})], splits, ()))


def in_batches(
    splits: Sequence[Split],
    cuts: Sequence[int],
    keys: KeyLog = NO_KEYS,
    age_limits: AgeLimits = ENDLESS,
    sizes: list[int] | None = None,
) -> Iterable[TableBatches]:
    """Yield batches of tables of splits that are dissected in batches, which end before the splits `cuts`.

    `sizes` gets the bytes of what is carried on.
    """
    pieces = pieces_of(splits)
    carried = None
    for first, stop in zip([0, *cuts], [*cuts, len(splits)], strict=True):
        # The numbers of splits begin anew with every batch, as in a batch of files.
        mine = [
            part.set_column(1, PIECES.field("split"), pa.array([index] * len(part), pa.int32()))
            for index, part in enumerate(pieces[first:stop])
        ]
        dissection = Dissection(numbered(splits[first:stop]), keys, WANTED, carried=carried)
        yield from dissection.feed(mine)
        last_ns = [part["last_time_ns"].to_numpy().max() for part in pieces[:stop] if len(part)]
        is_last = stop == len(splits)
        over = dissection.aged(max(last_ns, default=0), age_limits).rows
        over = dissection.every_row() if is_last else over
        yield from dissection.end(over)
        data = to_bytes(dissection.carried(over))
        if sizes is not None:
            sizes.append(len(data))
        carried = from_bytes(data)


def numbered(splits: Sequence[Split]) -> list[Split]:
    """Return splits numbered from 0."""
    return [replace(split, index=index) for index, split in enumerate(splits)]
