"""A choice means the same to the tables, to a dump and to whoever reads the rows one by one."""

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kdissect.capture.index.splits import Split
from kdissect.exchanges import filter as dumped
from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.prescan import look_ahead
from kdissect.exchanges.reader import Follower
from kdissect.spark import tasks
from kdissect.spark.tasks import TableOptions
from kdissect.tables.filters import (
    Known,
    TableFilter,
    is_server,
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


def narrowed(splits: tuple[Split, ...], choice: TableFilter) -> dict[str, list[dict[str, Any]]]:
    """Give the rows of the tables under a choice."""
    pieces = pieces_of(splits)
    known = tasks.collect_known(tasks.known_step(pieces, splits))
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    for name, batch in tasks.tables_step(pieces, splits, list(TABLES), TableOptions(choice, known=known)):
        if name in found:
            rows = tasks.with_topics(batch, known.topics) if name == "partitions" else batch
            found[name] += rows.to_pylist()
    return found


def of_dump(splits: tuple[Split, ...], **asked: Any) -> Iterator[tuple[int, int]]:
    """Give connection and ordinal of what a dump shows."""
    choice = dumped.MessageFilter(**asked)
    foresight = look_ahead(splits)
    follower = Follower(splits, (), foresight)
    for exchange in follower.exchanges(
        partial(choice.rows, known=Known({}, foresight.nodes)), choice.until_ns
    ):
        spoken = DecodedExchange(exchange)
        if choice.message(spoken, foresight.names):
            yield follower.identity(exchange.connection), exchange.ordinal


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


@pytest.mark.parametrize("asked", CASES.values(), ids=CASES)
def test_tables_and_dump_choose_the_same_exchanges(splits_of: SplitsOf, asked: dict[str, Any]) -> None:
    splits = splits_of(RESTART)
    rows = narrowed(splits, TableFilter(**asked))["exchanges"]
    assert rows
    assert sorted((row["connection"], row["ordinal"]) for row in rows) == sorted(of_dump(splits, **asked))


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
    for choice, wanted in (
        (
            TableFilter(since_ns=since, until_ns=until),
            lambda row, _: since <= row["request_first_ns"] < until,
        ),
        (TableFilter(groups=(group,)), lambda row, _: row["group_id"] == group),
        (
            TableFilter(topics=(topic[:3] + "*",)),
            lambda _, parts: any(fnmatchcase(part["topic"] or "", topic[:3] + "*") for part in parts),
        ),
    ):
        found = narrowed(splits_of(TRANSACTIONS), choice)
        keys = {(row["connection"], row["ordinal"]) for row in found["exchanges"]}
        assert keys
        assert keys == by_hand(everything, wanted)
        connections = {connection for connection, _ in keys}
        assert {(row["connection"], row["ordinal"]) for row in found["partitions"]} <= keys
        assert connections <= {row["connection"] for row in found["connections"]}
        rest = [row for row in found["connections"] if row["connection"] not in connections]
        assert not any(row["requests"] for row in rest)
        assert not rest or not choice.groups + choice.topics


def test_refused_connections_stay_when_their_server_is_asked_for(splits_of: SplitsOf) -> None:
    splits = splits_of(RESTART)
    whole = narrowed(splits, TableFilter())["connections"]
    silent = [row for row in whole if not row["bytes_to_server"] and row["closed"] == "rst"]
    server = f"{silent[0]['server_host']}:{silent[0]['server_port']}"
    kept = narrowed(splits, TableFilter(brokers=(server,)))["connections"]
    assert {row["connection"] for row in kept} == {
        row["connection"] for row in whole if f"{row['server_host']}:{row['server_port']}" == server
    }
    assert not narrowed(splits, TableFilter(brokers=(server,), apis=frozenset({999})))["connections"]


def test_brokers_go_by_host_address_and_node() -> None:
    known = Known(
        {},
        {
            1: frozenset({("kafka-1", 9092)}),
            2: frozenset({("kafka-2", 9093)}),
            3: frozenset({("kafka-3", 9093)}),
        },
    )
    assert is_server("10.0.0.1", 9092, ["10.0.0.1"], known)
    assert is_server("10.0.0.1", 9092, ["10.0.0.1:9092"], known)
    assert is_server("10.0.0.1", 9092, ["10.0.0.?:9092"], known)
    assert is_server("::1", 9092, ["[::1]:9092"], known)
    assert is_server("10.0.0.1", 9092, ["1"], known)  # the port is that of node 1 alone
    assert not is_server("10.0.0.1", 9093, ["2"], known)  # two nodes have it
    assert is_server("kafka-2", 9093, ["2"], known)
    assert not is_server("10.0.0.1", 9092, ["2"], known)
