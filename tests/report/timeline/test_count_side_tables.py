"""Events and what replicas told are counted with exchanges and without, and gathered as the rows come."""

import pyarrow as pa

from kdissect.report.partials import merge, summarise
from kdissect.report.timeline.count_side_tables import (
    EVENTS,
    count_events,
    count_side_tables,
)
from kdissect.report.timeline.grid import Grid
from kdissect.tables.schemas import (
    ADDRESSED_VOTERS,
    ENDS,
    GROUP_EVENTS,
    REPLICA_SETS,
    SHARE_ACKNOWLEDGEMENTS,
    SHUTDOWN_REQUESTS,
)

GRID = Grid(0, 10, 10)
EVENT = {"connection": 7, "ordinal": 1, "event": "join", "group_id": "readers", "time_ns": 5}
HOSTS = {"connection": 7, "client_host": "10.1.0.2", "server_host": "10.0.0.1", "server_port": 9092}


def with_events(*times):
    return {
        "group_events": pa.Table.from_pylist([EVENT | {"time_ns": time} for time in times], GROUP_EVENTS),
        "ends": pa.Table.from_pylist([HOSTS], ENDS),
    }


def test_an_event_has_the_host_of_its_connection():
    counted = count_events(with_events(5))
    assert counted.keys() == {EVENTS["group_events"].name}
    (row,) = counted[EVENTS["group_events"].name].to_pylist()
    assert (row["client_host"], row["group_id"], row["events"]) == ("10.1.0.2", "readers", 1)


def test_events_need_no_exchanges_and_add_up_in_any_batches():
    part = EVENTS["group_events"]
    for grids in ((GRID, None), (None, GRID), (GRID, GRID)):
        whole = summarise(with_events(5, 5, 8), *grids).table(part).sort_by("time_ns")
        assert whole["events"].to_pylist() == [2, 1]
        merged = merge(summarise(with_events(*times), *grids) for times in ((8,), (), (5, 5)))
        assert merged.table(part).sort_by("time_ns").equals(whole)
    assert summarise(with_events(5)).tables == {}


def test_nothing_is_counted_of_empty_tables():
    empty = {"group_events": GROUP_EVENTS.empty_table(), "replica_sets": REPLICA_SETS.empty_table()}
    assert count_events(empty) == count_events({}) == {}
    assert count_side_tables(empty) == {}
    nothing = {"share_acknowledgements": SHARE_ACKNOWLEDGEMENTS.empty_table()}
    assert count_side_tables(nothing) == {}
    unasked = {"shutdown_requests": SHUTDOWN_REQUESTS.empty_table()}
    assert count_side_tables(unasked) == {}
    uncalled = {"addressed_voters": ADDRESSED_VOTERS.empty_table()}
    assert count_side_tables(uncalled) == {}
    assert count_side_tables(empty | nothing | unasked | uncalled) == count_side_tables({}) == {}


def test_a_replica_set_is_one_row_however_often_it_is_told():
    told = [
        {"partition": 1, "leader_id": 2, "messages": 1, "first_ns": time, "last_ns": time} for time in (7, 3)
    ]
    (rows,) = count_side_tables({"replica_sets": pa.Table.from_pylist(told, REPLICA_SETS)}).values()
    (row,) = rows.to_pylist()
    assert (row["leader_id"], row["messages"], row["first_ns"], row["last_ns"]) == (2, 2, 3, 7)


def test_acknowledgements_add_up_by_second_and_kind_with_the_host_of_their_connection():
    row = {"connection": 7, "group_id": "queue", "kind": "release", "records": 2, "deliveries": 0}
    told = [row | {"time_ns": time} for time in (3, 5, 2_000_000_000)]
    tables = {"share_acknowledgements": pa.Table.from_pylist(told, SHARE_ACKNOWLEDGEMENTS)}
    (rows,) = count_side_tables(tables | {"ends": pa.Table.from_pylist([HOSTS], ENDS)}).values()
    first, second = sorted(rows.to_pylist(), key=lambda row: int(row["second"]))
    assert (first["second"], first["records"], first["messages"], first["client_host"]) == (
        0,
        4,
        2,
        "10.1.0.2",
    )
    assert (first["first_ns"], first["last_ns"], second["second"]) == (3, 5, 2)


def test_requests_to_end_add_up_by_node_and_second():
    told = [{"node_id": node, "time_ns": time} for node, time in ((2, 5), (2, 3), (3, 4), (2, 2_000_000_000))]
    (rows,) = count_side_tables({"shutdown_requests": pa.Table.from_pylist(told, SHUTDOWN_REQUESTS)}).values()
    found = [tuple(row[name] for name in ("node_id", "messages", "first_ns")) for row in rows.to_pylist()]
    assert sorted(found) == [(2, 1, 2_000_000_000), (2, 2, 3), (3, 1, 4)]


def test_a_controller_is_one_row_for_each_connection_that_calls_it():
    told = [
        {"node_id": node, "connection": connection} for node, connection in ((5, 1), (5, 1), (6, 1), (5, 2))
    ]
    tables = {"addressed_voters": pa.Table.from_pylist(told, ADDRESSED_VOTERS)}
    (rows,) = count_side_tables(tables).values()
    found = [tuple(row[name] for name in ("node_id", "connection", "messages")) for row in rows.to_pylist()]
    assert sorted(found) == [(5, 1, 2), (5, 2, 1), (6, 1, 1)]
    assert count_side_tables(tables).keys() == {"voters"}
