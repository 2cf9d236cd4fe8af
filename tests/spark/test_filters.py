"""A filter means the same to the tables, to a dump and to a reader of single rows."""

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kdissect.capture.index.splits import Split
from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.filter import ExchangeFilter
from kdissect.exchanges.prescan import prescan_capture
from kdissect.exchanges.reader import ExchangeReader
from kdissect.spark import tasks
from kdissect.spark.task_tables import TableOptions
from kdissect.tables.filters import (
    Filter,
)
from kdissect.tables.schemas import TABLES
from tests.spark.conftest import CAPTURES

SplitsOf = Callable[..., tuple[Split, ...]]
RESTART = CAPTURES / "broker-restart.pcapng"
JOIN_GROUP, SYNC_GROUP = 11, 14  # a dump also finds topics inside of what members tell each other
TRANSACTIONS = CAPTURES / "transactions.pcapng"


def pieces_of(splits: tuple[Split, ...]) -> list[pa.RecordBatch]:
    return [
        batch
        for split in splits
        for batch in tasks.scan_step([pa.record_batch({"split": [split.index]})], splits, ())
    ]


def selected(splits: tuple[Split, ...], wanted: Filter) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the tables that a filter selects."""
    pieces = pieces_of(splits)
    names = tasks.collect_known(tasks.known_step(pieces, splits))
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    for name, batch in tasks.tables_step(pieces, splits, list(TABLES), TableOptions(wanted, names=names)):
        if name in found:
            rows = tasks.with_topics(batch, names.topics) if name == "partitions" else batch
            found[name] += rows.to_pylist()
    return found


def dumped(splits: tuple[Split, ...], **options: Any) -> Iterator[tuple[int, int | None]]:
    """Yield connection and ordinal of what a dump shows."""
    wanted = ExchangeFilter(**options)
    prescan = prescan_capture(splits)
    reader = ExchangeReader(splits, (), prescan)
    for exchange in reader.exchanges(wanted.header_mask, wanted.until_ns):
        if wanted.selects(DecodedExchange(exchange), prescan.names):
            yield reader.identity(exchange.connection), exchange.ordinal


CASES: dict[str, dict[str, Any]] = {
    "api": {"apis": frozenset({0, 3})},
    "client": {"clients": ("orders-*",)},
    "topic": {"topics": ("ord*",), "apis": frozenset(range(100)) - {JOIN_GROUP, SYNC_GROUP}},
    "broker": {"brokers": ("2",)},
    "error": {"errors": frozenset({None})},
    "one error": {"errors": frozenset({6, 74})},
    "several": {
        "apis": frozenset({1}),
        "topics": ("orders",),
        "brokers": ("127.0.0.1",),
        "errors": frozenset({74}),
    },
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_tables_and_dump_select_the_same_exchanges(splits_of: SplitsOf, options: dict[str, Any]) -> None:
    splits = splits_of(RESTART)
    rows = selected(splits, Filter(**options))["exchanges"]
    assert rows
    assert sorted((row["connection"], row["ordinal"]) for row in rows) == sorted(dumped(splits, **options))


@pytest.fixture(scope="module")
def everything(whole: Callable[[Path], dict[str, pa.Table]]) -> dict[str, list[dict[str, Any]]]:
    return {name: table.to_pylist() for name, table in whole(TRANSACTIONS).items()}


def by_hand(
    tables: dict[str, list[dict[str, Any]]], wanted: Callable[[dict[str, Any], list[dict[str, Any]]], bool]
) -> set[Any]:
    """Choose exchanges one by one; `wanted` sees the exchange and its partitions."""
    parts: dict[Any, list[dict[str, Any]]] = {}
    for row in tables["partitions"]:
        parts.setdefault((row["connection"], row["ordinal"]), []).append(row)
    keys = ((row, (row["connection"], row["ordinal"])) for row in tables["exchanges"])
    return {key for row, key in keys if wanted(row, parts.get(key, []))}


def test_a_window_and_names_against_single_rows(
    splits_of: SplitsOf, everything: dict[str, list[dict[str, Any]]]
) -> None:
    start = min(row["request_first_ns"] for row in everything["exchanges"])
    since, until = start + 2 * 10**9, start + 6 * 10**9
    groups = {row["group_id"] for row in everything["exchanges"]} - {None}
    topics = {row["topic"] for row in everything["partitions"]} - {None}
    group, topic = min(groups), max(topics)
    for options, is_wanted in (
        (
            Filter(since_ns=since, until_ns=until),
            lambda row, _: since <= row["request_first_ns"] < until,
        ),
        (Filter(groups=(group,)), lambda row, _: row["group_id"] == group),
        (
            Filter(topics=(topic[:3] + "*",)),
            lambda _, parts: any(fnmatchcase(part["topic"] or "", topic[:3] + "*") for part in parts),
        ),
    ):
        found = selected(splits_of(TRANSACTIONS), options)
        keys = {(row["connection"], row["ordinal"]) for row in found["exchanges"]}
        assert keys
        assert keys == by_hand(everything, is_wanted)
        connections = {connection for connection, _ in keys}
        assert {(row["connection"], row["ordinal"]) for row in found["partitions"]} <= keys
        assert connections <= {row["connection"] for row in found["connections"]}
        rest = [row for row in found["connections"] if row["connection"] not in connections]
        assert not any(row["requests"] for row in rest)
        assert not rest or not options.groups + options.topics


def test_refused_connections_stay_when_their_server_is_options_for(splits_of: SplitsOf) -> None:
    splits = splits_of(RESTART)
    whole = selected(splits, Filter())["connections"]
    silent = [row for row in whole if not row["bytes_to_server"] and row["closed"] == "rst"]
    server = f"{silent[0]['server_host']}:{silent[0]['server_port']}"
    kept = selected(splits, Filter(brokers=(server,)))["connections"]
    assert {row["connection"] for row in kept} == {
        row["connection"] for row in whole if f"{row['server_host']}:{row['server_port']}" == server
    }
    assert not selected(splits, Filter(brokers=(server,), apis=frozenset({999})))["connections"]
