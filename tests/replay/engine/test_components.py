"""`replay.engine.components`: what must stay together, why, and how it is dealt out by weight."""

from __future__ import annotations

from kdissect.replay.engine.components import BYTES_PER_REQUEST, Component, components_of, pack
from kdissect.replay.load.analysis import load
from tests.helpers.paper_cluster import FETCH, PRODUCE, batch, produce, took
from tests.helpers.paper_target import Script, settings


def test_components_name_what_ties_them_together() -> None:
    script = Script()
    for number, topic in enumerate(("a", "a", "b")):
        body = produce(batch(-1, 900), topic=topic)
        writer = f"writer-{number}"
        script.add(number, PRODUCE, 9, body, took(0), connection=number + 1, client_id=writer)
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100}
    fetch = {"max_wait_ms": 1, "min_bytes": 1, "topics": [{"topic": "a", "partitions": [partition]}]}
    for connection in (4, 5):
        script.add(9, FETCH, 4, fetch, connection=connection, client_id="reader")
    tied, alone = components_of(load(script.capture(), script.shelf, settings()))
    assert (set(tied.connections), tied.requests) == ({1, 2, 4, 5}, 4)
    assert [(*each.tie, each.connections) for each in tied.ties] == [
        ("topic", "a", 4),
        ("client", "reader", 2),
    ]
    assert (alone.connections, alone.requests, alone.ties) == ((3,), 1, ())


def test_bytes_weigh_as_well_as_requests() -> None:
    large = Component((1,), 10, 100 * BYTES_PER_REQUEST)
    small = [Component((number,), 55, 0) for number in (2, 3)]
    assert large.weight == 110
    owners = pack([large, *small], 2)
    assert owners[1] != owners[2] == owners[3]
