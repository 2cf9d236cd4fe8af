"""Check whether a broker is slower than the others most of the time, for the same clients."""

import numpy as np
import pyarrow as pa
import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.aggregate.histogram import bucket_of
from kdissect.report.query.steady_pace import SteadyPace
from kdissect.report.timeline.signal_tables import PACE, PACE_CELL_BITS

MS = 10**6
HOSTS = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
SLOW = (HOSTS[1], 9092)


def pace(latency_ms, clients=("a", "b"), steps=100):
    """Return calls whose latency in ms is a function of the host, the client and the step."""
    rows = []
    for step in range(steps):
        for host in HOSTS:
            for client in clients:
                took = latency_ms(host, client, step)
                if took is None:
                    continue
                cell = int(bucket_of(np.array([int(took * MS)]))[0]) >> PACE_CELL_BITS
                rows.append(
                    dict.fromkeys(PACE.schema.names)
                    | {"step": step, "api_key": ApiKey.PRODUCE, "server_host": host, "server_port": 9092}
                    | {"client_id": client, "client_host": "10.1.0.1", "cell": cell, "exchanges": 1}
                )
    return SteadyPace(TableColumns(pa.Table.from_pylist(rows, schema=PACE.schema)))


def share(found):
    return found.slower_share(ApiKey.PRODUCE, SLOW, 3)


def test_a_broker_that_is_always_slower():
    assert share(pace(lambda host, client, step: 30 if host == SLOW[0] else 3)) == 1.0


def test_a_broker_that_is_slower_for_a_third_of_the_time():
    found = share(pace(lambda host, client, step: 300 if host == SLOW[0] and step < 33 else 3))
    assert found == pytest.approx(0.3, abs=0.11)


def test_clients_that_wait_for_all_replicas_are_compared_with_themselves():
    """One writes to all brokers in 30 ms, the other to two of them in 3 ms."""

    def took(host, client, step):
        if client == "b" and host == SLOW[0]:
            return None
        return 30 if client == "a" else 3

    assert share(pace(took)) == 0.0


def test_too_few_calls_tell_nothing():
    assert share(pace(lambda host, client, step: 3 if step < 5 else None, steps=6)) is None
    assert pace(lambda host, client, step: 3).slower_share(ApiKey.FETCH, SLOW, 3) is None
