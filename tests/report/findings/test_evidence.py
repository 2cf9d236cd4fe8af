"""Observations become evidence: groups, spells, names of brokers."""

from kdissect.report.findings.evidence import (
    count_exchanges,
    group_by,
    observed,
    server_names,
    span_ns,
    spells,
)
from kdissect.report.findings.observations import Observation
from kdissect.report.model.findings import Location

SECOND = 10**9
FIELDS = ("capture_file", "request_packet", "response_packet", "connection", "client_port", "detail")


def observation(first_s, last_s, exchanges=1, client="a", server="b1", partition=None):
    return Observation(
        kind="error",
        api_key=0,
        api_version=9,
        code=6,
        group_id=None,
        transactional_id=None,
        replica_id=None,
        generation=None,
        second=None,
        exchanges=exchanges,
        amount=0,
        most=0,
        first_ns=first_s * SECOND,
        last_ns=last_s * SECOND,
        closed_ns=None,
        software=None,
        location=Location(
            **dict.fromkeys(FIELDS),
            time_ns=first_s * SECOND,
            client_id=client,
            client_host="h",
            server_host=server,
            server_port=9092,
            topic="t",
            partition=partition,
        ),
    )


def test_an_observation_has_names():
    one = observation(1, 2, partition=7)
    assert (one.client, one.partition, one.api, one.error) == (
        "a at h",
        "t-7",
        "Produce",
        "NOT_LEADER_OR_FOLLOWER",
    )
    assert observation(1, 2).partition == "t"


def test_evidence_is_located_where_the_earliest_is():
    row = observed("who", "what", [observation(5, 6, 2), observation(1, 9, 3)])
    assert (row.count, row.first_time_ns, row.last_time_ns) == (5, SECOND, 9 * SECOND)
    assert row.place.time_ns == SECOND


def test_groups_are_ordered_by_exchanges():
    groups = group_by(
        [observation(1, 1, 2, "a"), observation(1, 1, 5, "b"), observation(2, 2, 1, "a")],
        lambda one: (one.client,),
    )
    assert [(key, count_exchanges(group)) for key, group in groups] == [(("b at h",), 5), (("a at h",), 3)]


def test_a_pause_divides_spells():
    found = list(spells([observation(20, 21), observation(1, 5), observation(9, 9)], 5 * SECOND))
    assert [[one.first_ns // SECOND for one in spell] for spell in found] == [[1, 9], [20]]
    assert span_ns(found[0]) == 8 * SECOND


def test_brokers_are_named_as_far_as_a_line_goes():
    servers = [observation(1, 1, server=name) for name in ("b2", "b1", "b3", "b1")]
    assert server_names(servers) == "b1:9092, b2:9092 and 1 more"
