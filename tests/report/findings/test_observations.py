"""Observations and consumer lags with names, addresses and locations."""

import pytest

from kdissect.report.findings import observations as module
from kdissect.report.findings.observations import find_consumer_lags, find_observations
from kdissect.report.partials import summarise
from kdissect.report.query.connection_facts import read_connection_facts
from kdissect.report.query.topic_names import TopicNames
from tests.helpers.paper_capture import MS, T, partition
from tests.helpers.report_rows import (
    FETCH,
    HEARTBEAT,
    PRODUCE,
    SECOND,
    connection,
    failing,
    many,
    tables,
    unanswered,
)


def found(find, exchanges, partitions=(), connections=None):
    partial = summarise(tables(exchanges, partitions, connections))
    return find(partial, read_connection_facts(partial), TopicNames(partial))


def test_observations_are_in_the_order_of_time():
    rows = [*failing(1, PRODUCE, 6, [500]), *failing(2, HEARTBEAT, 25, [100, 200])]
    observations = found(find_observations, rows)
    assert [(one.code, one.exchanges, one.first_ns) for one in observations.rows] == [
        (25, 2, T + 101 * MS),
        (6, 1, T + 501 * MS),
    ]
    assert observations.omitted == 0


def test_observations_of_one_moment_are_in_the_order_of_their_text():
    rows = [*failing(2, HEARTBEAT, 25, [0]), *failing(1, PRODUCE, 6, [0, 3]), *failing(3, FETCH, 3, [0])]
    observations = found(find_observations, rows).rows
    assert [one.first_ns for one in observations] == [T + MS] * 3
    assert list(observations) == sorted(observations, key=lambda one: (one.first_ns, repr(one)))
    assert list(observations) != sorted(observations, key=lambda one: one.code)


@pytest.mark.parametrize(
    ("more", "closed_ns"),
    [({}, T + 60 * SECOND), ({"closed": "open"}, None), ({"lost_bytes": 9}, None)],
    ids=["whole", "open", "lossy"],
)
def test_the_end_of_a_connection_is_known_only_if_it_was_captured_in_full(more, closed_ns):
    (one,) = found(find_observations, unanswered(PRODUCE, 0), [], [connection(1, **more)]).rows
    assert one.closed_ns == closed_ns
    assert (one.location.client_host, one.location.request_packet) == ("10.1.0.1", 10)


def test_those_with_the_most_exchanges_are_kept_and_the_others_counted(monkeypatch):
    monkeypatch.setattr(module, "MAX_OBSERVATIONS", 1)
    rows = [*failing(1, PRODUCE, 6, [0]), *failing(2, HEARTBEAT, 25, [100, 200])]
    observations = found(find_observations, rows)
    assert ([one.code for one in observations.rows], observations.omitted) == ([25], 1)


def test_connections_of_one_client_have_one_lag():
    exchanges = many(2, FETCH, 1000) + [
        row | {"client_id": "client-1"} for row in many(2, FETCH, 3000, number=2)
    ]
    rows = [
        partition(number, at, 1, 0, None, topic="orders", offset=0, high_watermark=lag)
        for number, lags in ((1, (5, 70)), (2, (20, 40)))
        for at, lag in enumerate(lags)
    ]
    ends = [connection(1), connection(2, client_host="10.1.0.1", client_id="client-1")]
    (lag,) = found(find_consumer_lags, exchanges, rows, ends)
    assert (lag.client, lag.topic) == ("client-1 at 10.1.0.1", "orders")
    assert (lag.before, lag.after, lag.most) == (5, 40, 70)
    assert (lag.first_ns, lag.last_ns) == (T + MS, T + 3001 * MS)
    assert lag.location.connection == 1


def test_without_a_fetch_no_client_lags():
    assert found(find_consumer_lags, many(2, PRODUCE, 1000)) == ()
