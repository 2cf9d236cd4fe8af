"""Rows by name: one number for each name, whatever pairs of columns it comes from."""

import numpy as np
import pyarrow as pa

from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.aggregate.partial_tables import NAMES
from kdissect.report.partials import Partial
from kdissect.report.query.topic_names import TopicNames
from kdissect.report.signals.named_rows import NamedColumns, client_rows, name_rows, server_rows
from kdissect.report.signals.server_names import ServerNames

CLIENTS = TableColumns(
    pa.table(
        {
            "client_id": ["orders", None, "audit", "", "orders"],
            "client_host": ["10.0.0.2", "10.0.0.9", "10.0.0.1", "10.0.0.9", "10.0.0.2"],
        }
    )
)


def test_rows_get_the_numbers_of_their_names() -> None:
    rows = client_rows(CLIENTS)
    assert rows.names == ("(no client id) at 10.0.0.9", "audit at 10.0.0.1", "orders at 10.0.0.2")
    assert rows.of.tolist() == [2, 0, 1, 0, 2]
    assert rows.equal("orders at 10.0.0.2").tolist() == [True, False, False, False, True]
    assert not rows.equal("nobody").any()


def test_chosen_rows_keep_their_numbers() -> None:
    chosen = client_rows(CLIENTS).only(np.array([False, True, True, True, False]))
    assert chosen.of.tolist() == [0, 1, 0]
    assert chosen.present() == ["(no client id) at 10.0.0.9", "audit at 10.0.0.1"]


def test_the_busiest_names_come_in_their_order() -> None:
    rows = client_rows(CLIENTS)
    count = np.array([5, 1, 3, 1, 5])
    assert rows.busiest(count, 2) == ["audit at 10.0.0.1", "orders at 10.0.0.2"]
    assert rows.only(np.array([1, 3])).busiest(count[[1, 3]], 9) == ["(no client id) at 10.0.0.9"]


def test_servers_with_two_listeners_have_one_name() -> None:
    broker = {"node_id": 1, "host": "10.1.0.1", "port": 9092}
    servers = ServerNames([("10.1.0.1", 9092), ("10.1.0.1", 9093)], [broker])
    columns = TableColumns(
        pa.table({"server_host": ["10.1.0.1", "10.1.0.1", None], "server_port": [9093, 9092, None]})
    )
    rows = server_rows(columns, servers)
    assert rows.of[0] == rows.of[1] != rows.of[2]
    assert rows.names[rows.of[0]] == "broker 1 (10.1.0.1:9092)"


def test_a_table_without_rows_has_no_names() -> None:
    empty = TableColumns(CLIENTS.table.slice(0, 0))
    rows = name_rows(empty, ("client_id", "client_host"), lambda *_pair: "never")
    assert rows.names == ()
    assert not len(rows.of)
    assert rows.present() == rows.busiest(np.zeros(0, np.int64), 3) == []


def test_rows_of_python_have_the_names_that_their_columns_tell() -> None:
    topics = TopicNames(
        Partial({NAMES.name: pa.table({"topic_id": ["id-1"], "topic": ["orders"]}, NAMES.schema)})
    )
    table = CLIENTS.table.slice(0, 2).append_column("topic", pa.array([None, "audit"]))
    assert [row["client"] for row in NamedColumns(TableColumns(table), topics).dicts()] == [
        "orders at 10.0.0.2",
        "(no client id) at 10.0.0.9",
    ]
    table = table.append_column("topic_id", pa.array(["id-1", None]))
    rows = NamedColumns(TableColumns(table), topics).dicts()
    assert [row["name"] for row in rows] == ["orders", "audit"]
    assert [{name: row[name] for name in table.column_names} for row in rows] == table.to_pylist()
    some = NamedColumns(TableColumns(table), topics)
    assert list(some.values("name", "topic_id")) == [("orders", "id-1"), ("audit", None)]
    assert some.dicts("name") == [{"name": "orders"}, {"name": "audit"}]
