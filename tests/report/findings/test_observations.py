"""Observations and consumer lags with names, addresses and locations."""

import pytest

from kdissect.report.findings import observations as module
from kdissect.report.findings.evidence import (
    address_texts,
    count_exchanges,
    group_by,
    observed,
    observed_times,
    server_names,
)
from kdissect.report.findings.observations import Clients, Rest, find_consumer_lags, find_observations
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
    observations, omitted = found(find_observations, rows)
    assert [(one.code, one.exchanges, one.first_ns) for one in observations.of_kind("error")] == [
        (25, 2, T + 101 * MS),
        (6, 1, T + 501 * MS),
    ]
    assert omitted == 0


def test_observations_of_one_moment_are_in_the_order_of_their_text():
    rows = [*failing(2, HEARTBEAT, 25, [0]), *failing(1, PRODUCE, 6, [0, 3]), *failing(3, FETCH, 3, [0])]
    observations = found(find_observations, rows)[0].of_kind("error")
    assert [one.first_ns for one in observations] == [T + MS] * 3
    assert list(observations) == sorted(observations, key=lambda one: (one.first_ns, repr(one)))
    assert list(observations) != sorted(observations, key=lambda one: one.code)


@pytest.mark.parametrize(
    ("more", "closed_ns"),
    [({}, T + 60 * SECOND), ({"closed": "open"}, None), ({"lost_bytes": 9}, None)],
    ids=["whole", "open", "lossy"],
)
def test_the_end_of_a_connection_is_known_only_if_it_was_captured_in_full(more, closed_ns):
    observations, _ = found(find_observations, unanswered(PRODUCE, 0), [], [connection(1, **more)])
    (one,) = observations.of_kind("unanswered")
    assert one.closed_ns == closed_ns
    assert (one.location.client_host, one.location.request_packet) == ("10.1.0.1", 10)


def test_those_with_the_most_exchanges_are_kept_and_the_others_counted(monkeypatch):
    monkeypatch.setattr(module, "MAX_OBSERVATIONS", 1)
    rows = [*failing(1, PRODUCE, 6, [0]), *failing(2, HEARTBEAT, 25, [100, 200])]
    observations, omitted = found(find_observations, rows)
    assert ([one.code for one in observations.of_kind("error")], omitted) == ([25], 1)


def writers():
    """Return producers with acks=1: client-2 and -3 write as much, client-1 most."""
    return [
        *many(5, PRODUCE, 100, acks=1),
        *many(2, PRODUCE, 700, number=2, acks=1),
        *many(2, PRODUCE, 300, number=3, acks=1, client_id="client-2"),
        *many(4, PRODUCE, 100, number=4, acks=1, client_id=None),
        *failing(5, HEARTBEAT, 25, [100, 200]),
    ]


ENDS = [connection(at, client_host=f"10.1.0.{min(at, 2)}", server_port=9000 + at) for at in (1, 2, 3)]


@pytest.mark.parametrize("few", [0, 4096])
def test_a_kind_is_the_same_alone_and_with_all_others(monkeypatch, few):
    plain, _ = found(find_observations, writers(), (), ENDS)
    monkeypatch.setattr(module, "FEW", few)
    observations, _ = found(find_observations, writers(), (), ENDS)
    for kind in ("acks_leader", "error", "throttled"):
        assert observations.of_kind(kind) == plain.of_kind(kind)
    assert [one.kind for one in observations.of_kind("acks_leader")] == ["acks_leader"] * 4


@pytest.mark.parametrize("most", [1, 2, 9])
def test_the_sums_of_clients_are_those_of_their_observations(most):
    observations, _ = found(find_observations, writers(), (), ENDS)
    groups = group_by(observations.of_kind("acks_leader"), lambda one: (one.client,))
    clients = observations.by_client("acks_leader", most)
    for sums, ((client,), rows) in zip(clients.first, groups[:most], strict=True):
        plain = observed(client, server_names(rows), rows)
        assert (sums.client, sums.exchanges, sums.first.location) == (client, plain.count, plain.place)
        assert (sums.first.first_ns, sums.last_ns) == (plain.first_time_ns, plain.last_time_ns)
        assert address_texts(sums.servers) == plain.detail
    left = [one for _, rows in groups[most:] for one in rows]
    if left:
        plain = observed("others", "", left)
        spans = plain.first_time_ns, plain.last_time_ns
        assert clients.rest == Rest(len(groups) - most, plain.count, *spans)
    else:
        assert clients.rest == Rest()


@pytest.mark.parametrize("least", [0, 3, 4, 5, 99])
def test_the_columns_of_clients_are_those_of_their_observations(least):
    observations, _ = found(find_observations, writers(), (), ENDS)
    groups = group_by(observations.of_kind("acks_leader"), lambda one: (one.client,))
    expected = sorted((client, own) for (client,), own in groups if count_exchanges(own) >= least)
    times = observations.client_times("acks_leader", least)
    assert [(one.client, one.first) for one in times] == [(client, own[0]) for client, own in expected]
    for one, (client, own) in zip(times, expected, strict=True):
        assert one.first_ns.tolist() == [row.first_ns for row in own]
        assert one.exchanges.tolist() == [row.exchanges for row in own]
        assert observed_times("", one) == observed(client, "", own)


def test_without_observations_of_a_kind_there_are_no_clients():
    observations, _ = found(find_observations, writers(), (), ENDS)
    assert observations.client_times("acks_none", 0) == []
    assert observations.by_client("acks_none", 5) == Clients([], Rest())


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
