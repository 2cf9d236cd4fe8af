"""Rules about the network between clients and brokers, about requests that wait for others, and about lag."""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from kdissect.array_types import Int64s
from kdissect.protocol.api_keys import ApiKey
from kdissect.report.aggregate.grouping import encode, group_rows
from kdissect.report.findings.connection_evidence import chosen_evidence
from kdissect.report.findings.evidence import count_exchanges, group_by, observed
from kdissect.report.findings.finding_context import FindingContext, Judgement
from kdissect.report.findings.observations import ConsumerLag
from kdissect.report.model.findings import Evidence
from kdissect.report.wording import counted
from kdissect.text import format_duration, format_share

RETRANSMITTED, RETRANSMITTED_PART = 20, 0.01
FAR_NS = 5_000_000
"""Round trips from here on are longer than the time that a broker needs for most requests."""

NEAR_TIMES = 3
"""A service time of fewer round trips than this is mostly time on the network."""

BEHIND_TIMES = 10
"""A few requests may be slow for reasons of their own."""

LAG_GREW, LAG_TIMES_MORE, LAG_STILL, LAG_LASTED_NS = 500, 2, 0.8, 5 * 10**9
"""Records more, times as many, part of the largest lag that the last one is, and least duration."""

NS_PER_MS = 10**6
HostPair = tuple[str | None, str | None]
"""Client host and server host."""


def network_slow(context: FindingContext) -> Judgement | None:
    """Pairs of hosts with 20 or more retransmissions (1 % or more), or a round trip that dominates."""
    medians = _service_medians(context)
    rows: list[tuple[float, Evidence]] = []
    for pair, connections in _host_pairs(context):
        columns = context.facts.columns
        packets, retransmitted = (
            int(columns.ints(name)[connections].sum()) for name in ("packets", "retransmitted_segments")
        )
        reasons = []
        if retransmitted >= RETRANSMITTED and retransmitted >= RETRANSMITTED_PART * packets:
            reasons.append(f"{format_share(retransmitted / packets)} of packets retransmitted")
        trip, service = _median_round_trip(context, connections), medians.get(pair)
        if trip >= FAR_NS and service is not None and service < NEAR_TIMES * trip:
            median = format_duration(service)
            reasons.append(f"round trip {format_duration(trip)}, median service time {median}")
        if reasons:
            evidence = chosen_evidence(
                context,
                f"{pair[0] or '?'} to {pair[1] or '?'}",
                f"{counted(len(connections), 'connection')}: {'; '.join(reasons)}",
                connections,
                count=max(retransmitted, len(connections)),
            )
            rows.append((retransmitted / max(packets, 1), evidence))
    rows.sort(key=lambda row: -row[0])
    title = f"Slow or lossy network between {counted(len(rows), 'pair')} of hosts"
    return Judgement(title, [evidence for _, evidence in rows]) if rows else None


def _host_pairs(context: FindingContext) -> Iterator[tuple[HostPair, Int64s]]:
    """Yield each pair of client host and server host with the rows of its Kafka connections."""
    columns = context.facts.columns
    kafka = np.flatnonzero(columns.equals("protocol", "kafka"))
    if not len(kafka):
        return
    hosts = [columns.text(name).take(kafka) for name in ("client_host", "server_host")]
    groups = group_rows(*(encode(host) for host in hosts))
    pairs = zip(*(host.take(groups.first).tolist() for host in hosts), strict=True)
    for group, (client, server) in enumerate(pairs):
        yield (client, server), kafka[groups.of == group]


def _median_round_trip(context: FindingContext, connections: Int64s) -> int:
    """Return the median round trip in ns: capture to server and back, plus capture to client and back."""
    columns = context.facts.columns
    known = columns.present("server_rtt_ns")[connections] & columns.present("client_rtt_ns")[connections]
    measured = connections[known]
    trips = columns.ints("server_rtt_ns")[measured] + columns.ints("client_rtt_ns")[measured]
    return int(np.median(trips)) if len(trips) else 0


def _service_medians(context: FindingContext) -> dict[HostPair, int]:
    ranked = context.calls.group_by((), ("client_host", "server_host"))
    medians = {}
    for group, (client, server) in enumerate(zip(*ranked.keys, strict=True)):
        latency = ranked.figures.service.of(group)
        if latency is not None:
            medians[client, server] = latency.p50_ns
    return medians


def behind_long_poll(context: FindingContext) -> Judgement | None:
    """Clients with 10 or more requests that waited behind a Fetch for data on the same connection."""
    calls = context.calls.each
    polling = calls.bools("idle_wait") & (calls.ints("api_key") == ApiKey.FETCH)
    shared = set(calls.ints("connection")[polling].tolist())
    requests = [request for request in context.of_kind("behind") if request.location.connection in shared]
    rows = []
    for (client, api), group in group_by(requests, lambda request: (request.client, request.api)):
        if count_exchanges(group) >= BEHIND_TIMES:
            longest = format_duration(max(request.most for request in group) * NS_PER_MS)
            rows.append(
                observed(client, f"{api} took up to {longest} on a connection with long polls", group)
            )
    clients = counted(len({row.subject for row in rows}), "client")
    return Judgement(f"{clients} delayed their own requests behind long polls", rows) if rows else None


def lag_growing(context: FindingContext) -> Judgement | None:
    """Consumers whose lag grew by 500 records or more and at least doubled, over 5 s or more."""
    by_client: dict[tuple[str, str], list[ConsumerLag]] = defaultdict(list)
    for lag in context.lags:
        by_client[lag.client, lag.topic].append(lag)
    rows = []
    for (client, topic), lags in by_client.items():
        before, after, most = (
            sum(getattr(lag, name) for lag in lags) for name in ("before", "after", "most")
        )
        first, last_ns = min(lags, key=lambda lag: lag.first_ns), max(lag.last_ns for lag in lags)
        lasted_ns = last_ns - first.first_ns
        has_grown = after - before >= LAG_GREW and after >= LAG_TIMES_MORE * before
        if not has_grown or after < LAG_STILL * most or lasted_ns < LAG_LASTED_NS:
            continue
        lasted, partitions = format_duration(lasted_ns), counted(len(lags), "partition")
        rows.append(
            Evidence(
                subject=f"{client}: {topic}",
                detail=f"from {before:,} to {after:,} records behind in {lasted}, {partitions}",
                count=after - before,
                first_time_ns=first.first_ns,
                last_time_ns=last_ns,
                place=first.location,
            )
        )
    rows.sort(key=lambda row: -row.count)
    return Judgement(f"{counted(len(rows), 'consumer')} falling behind", rows) if rows else None
