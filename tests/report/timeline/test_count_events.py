"""Events of groups and transactions, counted with the hosts of their clients."""

import pyarrow as pa

from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.timeline.count_events import EVENTS, count_events
from kdissect.tables.schemas import ENDS, GROUP_EVENTS


def test_an_event_has_the_host_of_its_connection():
    event = {"connection": 7, "ordinal": 1, "event": "join", "group_id": "readers", "time_ns": 5}
    ends = {"connection": 7, "client_host": "10.1.0.2", "server_host": "10.0.0.1", "server_port": 9092}
    counted = count_events(
        {"group_events": pa.Table.from_pylist([event], GROUP_EVENTS)},
        TableColumns(pa.Table.from_pylist([ends], ENDS)),
    )
    assert counted.keys() == {EVENTS["group_events"].name}
    (row,) = counted[EVENTS["group_events"].name].to_pylist()
    assert (row["client_host"], row["group_id"], row["events"]) == ("10.1.0.2", "readers", 1)
