"""`replay.load.connection_groups`: which connections one process must replay."""

from __future__ import annotations

from kdissect.replay.load.connection_groups import ConnectionGroups
from tests.helpers.paper_cluster import batch, produce
from tests.helpers.paper_target import Script


def test_what_is_shared_joins_connections() -> None:
    groups, script = ConnectionGroups(), Script()
    for connection in range(1, 8):
        script.add(connection, 0, 9, {}, connection=connection)
    writes = script.requests
    groups.take(writes[0], produce(batch(0)), None, None, "a", {})
    groups.add_reader(2, ["orders"])  # which the first one writes
    groups.take(writes[2], {}, None, "payments", "c", {})
    groups.take(writes[3], {}, None, "payments", "d", {})
    groups.take(writes[4], {}, {"producer_id": 77}, None, "e", {})
    groups.take(writes[5], {"producer_id": 77}, None, None, "f", {})
    assert groups.groups(range(1, 8)) == [[1, 2], [3, 4], [5, 6], [7]]
