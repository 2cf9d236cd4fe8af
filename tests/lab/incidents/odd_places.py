"""Incidents of other modules, seen from an odd place: packets that are cut, one host of clients, one broker,
a part of the time.

    cut-96, cut-200    so many bytes of each packet were kept
    at-clients         all clients are on one host, and the capture is of that host
    at-a-broker        the capture is of one broker, whichever the incident is about
    begun-late         the capture begins four seconds after the incident
    ended-early        it ends seven seconds after the incident can be seen

`ODD` lists which incidents are seen so; each becomes a scenario of its own. This module is loaded last.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.lab.incidents.scene import SCENARIOS, Scene, scenario

HERE = "c2"
LATE_S, EARLY_S = 4.0, 7.0


def _cut(size: int) -> Callable[[Scene], None]:
    def prepare(s: Scene) -> None:
        s.snaplen = size

    return prepare


def _at_clients(s: Scene) -> None:
    s.record_at = HERE
    s.only_host = HERE


def _at_a_broker(s: Scene) -> None:
    s.record_at = s.broker().host


def _begun_late(s: Scene) -> None:
    s.late_s = LATE_S


def _ended_early(s: Scene) -> None:
    s.early_s = EARLY_S


PLACES: dict[str, Callable[[Scene], None]] = {
    "cut-96": _cut(96),
    "cut-200": _cut(200),
    "at-clients": _at_clients,
    "at-a-broker": _at_a_broker,
    "begun-late": _begun_late,
    "ended-early": _ended_early,
}
ODD = (
    ("new-connections-dropped", "cut-96"),
    ("replication-factor-refused", "cut-200"),
    ("growing-lag", "at-clients"),
    ("controller-killed", "at-clients"),
    ("leader-election", "at-a-broker"),
    ("quiet-night", "at-clients"),
    ("topics-come-and-go", "cut-96"),
    ("records-released", "cut-96"),
    ("narrow-way", "cut-200"),
    ("batch-beyond-segment", "at-clients"),
    ("inconsistent-group-protocol", "at-clients"),
    ("tls-to-plaintext", "at-clients"),
    ("internal-topic-written", "at-a-broker"),
    ("tls-failure", "at-a-broker"),
    ("zombie-producer", "at-a-broker"),
    ("large-records", "at-a-broker"),
    ("topic-settings", "cut-200"),
    ("slow-consumer", "cut-96"),
    ("offset-out-of-range", "cut-200"),
    ("poison-record", "at-clients"),
    ("broker-slow", "at-clients"),
    ("all-brokers-frozen", "at-a-broker"),
    ("tiny-batches", "begun-late"),
    ("path-dead", "ended-early"),
    ("groupless-readers", "at-clients"),
    ("static-restart", "at-a-broker"),
    ("connector-batches", "begun-late"),
    ("idle-connection-dropped", "cut-96"),
    ("topic-deleted", "cut-200"),
    ("replication-throttled", "at-clients"),
    ("one-way-cut", "at-a-broker"),
    ("partition-paused", "at-a-broker"),
    ("connection-leak", "begun-late"),
    ("session-timeout-refused", "ended-early"),
    ("many-kinds", "cut-96"),
    ("mirror", "at-clients"),
    ("security-chores", "at-a-broker"),
    ("follower-behind", "cut-96"),
    ("keyless-records", "cut-200"),
    ("unsupported-version", "at-clients"),
    ("request-timeout-short", "at-a-broker"),
    ("slow-reader", "begun-late"),
    ("connection-limit", "ended-early"),
    ("partitions-added", "cut-96"),
    ("joins-and-leaves", "at-a-broker"),
    ("sharers", "at-clients"),
    ("open-transaction", "cut-96"),
    ("topics-made-all-the-time", "cut-200"),
    ("wrong-advertised-listener", "at-clients"),
    ("duplicate-instance-id", "at-a-broker"),
    ("rebalance-loop", "begun-late"),
    ("steady", "at-a-broker"),
    ("regex-readers", "cut-96"),
    ("patient-consumers", "at-clients"),
    ("host-gone", "at-a-broker"),
    ("brokers-cut-off", "begun-late"),
    ("one-group-two-kinds", "ended-early"),
    ("broker-stopped", "cut-96"),
    ("idle-members", "at-a-broker"),
    ("mechanism-refused", "begun-late"),
    ("broker-killed", "cut-200"),
    ("records-limit-lowered", "at-clients"),
)


def _seen(base: str, how: str) -> None:
    """Add a scenario of that name, seen from that place."""
    known = SCENARIOS[base]

    def function(s: Scene) -> None:
        PLACES[how](s)
        known.function(s)

    scenario(f"{base}-{how}", twin_of=base, healthy=known.healthy, place="hosts", settings=known.settings)(
        function
    )


for name, place in ODD:
    _seen(name, place)
