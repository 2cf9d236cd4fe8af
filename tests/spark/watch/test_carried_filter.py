"""A filter over batches selects what it selects in one analysis."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.index.splits import Split
from kdissect.capture.inputs import open_inputs
from kdissect.spark import tasks
from kdissect.spark.task_tables import TableOptions, build_tables
from kdissect.spark.watch.carried_filter import CarriedFilter, SeenNames
from kdissect.tables.dissection import AgeLimits, Dissection
from kdissect.tables.filters import Filter, TableBatches
from kdissect.tables.schemas import TABLES
from tests.helpers.batch_partials import INCIDENTS, SUMMED
from tests.helpers.in_batches import numbered, pieces_of, rows_in_order

BATCHES = 4
WINDOW = AgeLimits(1 << 62, 1 << 62)


@pytest.fixture(scope="module")
def splits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Split, ...]:
    spool = tmp_path_factory.mktemp("spool")
    (file,) = open_inputs([str(INCIDENTS / "idle-connection-dropped-2.pcapng.zst")], str(spool)).files
    size = Path(file.path).stat().st_size // BATCHES
    return index_captures([file], size, range_bytes=size).splits


def in_batches(splits: tuple[Split, ...], wanted: Filter) -> Iterator[TableBatches]:
    """Yield the selected rows, with nothing carried on but what is carried as values."""
    seen, carried, selected = SeenNames(), None, None
    for split in [*splits, None]:
        mine = numbered([split]) if split else ()
        dissection = Dissection(mine, wanted=SUMMED, carried=carried)
        carried_filter = CarriedFilter(wanted, SeenNames(dict(seen.topics), set(seen.brokers)), selected)
        for tables in dissection.feed(pieces_of(mine)) if mine else ():
            yield carried_filter.select(tables)
        over = dissection.aged(0, WINDOW).rows if split else dissection.every_row()
        for tables in dissection.end(over):
            yield carried_filter.select(tables)
        carried = dissection.carried(over)
        seen, selected = carried_filter.seen, np.array(carried_filter.carried(), np.int64)
    assert not selected.size


def at_once(splits: tuple[Split, ...], wanted: Filter) -> Iterator[TableBatches]:
    pieces = pieces_of(splits)
    names = tasks.collect_known(tasks.known_step(pieces, splits))
    yield from build_tables(pieces, splits, TableOptions(wanted, names=names), SUMMED)


def test_rows_are_those_of_one_analysis(splits: tuple[Split, ...]) -> None:
    everything = rows_in_order(at_once(splits, Filter()))
    connections, exchanges = everything["connections"], everything["exchanges"]
    host, port = (connections[name][0].as_py() for name in ("server_host", "server_port"))
    client = next(name for name in exchanges["client_id"].to_pylist() if name)
    for wanted in (
        Filter(apis=frozenset([3, 18]), clients=(client[:3] + "*",)),
        Filter(brokers=(f"{host}:{port}",)),
        Filter(errors=frozenset([None]), until_ns=int(exchanges["request_first_ns"][-1].as_py())),
    ):
        found, expected = rows_in_order(in_batches(splits, wanted)), rows_in_order(at_once(splits, wanted))
        assert {name: table.num_rows for name, table in found.items()} == {
            name: expected[name].num_rows for name in TABLES
        }
        assert found == expected
        assert wanted.errors or found["exchanges"].num_rows
    assert rows_in_order(in_batches(splits, Filter(apis=frozenset([18]))))["exchanges"].num_rows > 0


def test_addresses_count_from_where_they_are_seen() -> None:
    seen = SeenNames()
    seen.learn(
        {"brokers": pa.record_batch({"node_id": [1, 1, 2], "host": ["a", "b", "c"], "port": [9, 9, 9]})}
    )
    assert seen.nodes() == {1: frozenset({("a", 9), ("b", 9)}), 2: frozenset({("c", 9)})}
