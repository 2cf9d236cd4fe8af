"""Rules about the way between client and broker, and about requests that wait for others on the same connection."""

from collections import defaultdict

import numpy as np

from kdissect.protocol.api_keys import ApiKey
from kdissect.report.aggregate.grouping import encode, group_rows
from kdissect.report.findings.connection_evidence import connection_evidence, select_connections
from kdissect.report.findings.context import (
    ConsumerLag,
    FindingContext,
    Judgement,
    evidence,
    group_by,
    plural,
)
from kdissect.report.model.summary import Evidence
from kdissect.text import format_duration, format_share

RETRANSMITTED, RETRANSMITTED_PART = 20, 0.01
FAR_NS = 5_000_000
"""Round trips from here on are longer than what a broker takes for most requests."""

NEAR_TIMES = 3
"""A service time of fewer round trips than this is mostly the way there and back."""

BEHIND_TIMES = 10
"""A request may be slow for its own reasons now and then."""


def network_slow(scene: FindingContext) -> Judgement | None:
    """Pairs of hosts between which segments are lost again and again, or that are so far apart that brokers hardly matter."""
    columns = scene.facts.columns
    kafka = np.flatnonzero(columns.equals("protocol", "kafka"))
    if not len(kafka):
        return None
    hosts = [columns.plain(name).take(kafka) for name in ("client_host", "server_host")]
    groups = group_rows(*(encode(host) for host in hosts))
    names = list(zip(*(host.take(groups.first).to_pylist() for host in hosts), strict=True))
    medians = _service_medians(scene)
    rows: list[tuple[float, Evidence]] = []
    for group, (client, server) in enumerate(names):
        of = kafka[groups.of == group]
        packets, again = (int(columns.ints(name)[of].sum()) for name in ("packets", "retransmitted_segments"))
        said = []
        if again >= RETRANSMITTED and again >= RETRANSMITTED_PART * packets:
            said.append(f"{format_share(again / packets)} of packets sent again")
        trip = _median_trip(scene, of)
        service = medians.get((client, server))
        if trip >= FAR_NS and service is not None and service < NEAR_TIMES * trip:
            said.append(f"round trip {format_duration(trip)}, median service time {format_duration(service)}")
        if said:
            row = connection_evidence(
                f"{client or '?'} to {server or '?'}",
                f"{plural(len(of), 'connection')}: {'; '.join(said)}",
                select_connections(scene, of),
                count=max(again, len(of)),
            )
            rows.append((again / max(packets, 1), row))
    rows.sort(key=lambda row: -row[0])
    return (
        Judgement(
            f"Network rather than broker between {plural(len(rows), 'pair')} of hosts",
            [row for _, row in rows],
        )
        if rows
        else None
    )


def _median_trip(scene: FindingContext, of: np.ndarray[tuple[int], np.dtype[np.int64]]) -> int:
    """Give the median of whole round trips: from the capture to the server and back, and to the client and back."""
    columns = scene.facts.columns
    there = of[columns.known("server_rtt_ns")[of] & columns.known("client_rtt_ns")[of]]
    trips = columns.ints("server_rtt_ns")[there] + columns.ints("client_rtt_ns")[there]
    return int(np.median(trips)) if len(trips) else 0


def _service_medians(scene: FindingContext) -> dict[tuple[str | None, str | None], int]:
    ranked = scene.ranking.by((), ("client_host", "server_host"))
    found = {}
    for group, ends in enumerate(zip(*ranked.keys, strict=True)):
        latency = ranked.profile.service.latency(group)
        if latency is not None:
            found[ends] = latency.p50_ns
    return found


def behind_long_poll(scene: FindingContext) -> Judgement | None:
    """Requests that waited in line behind a Fetch which itself waited for data: a broker answers a connection in order."""
    calls = scene.ranking.calls
    polling = calls.truths("idle_wait") & (calls.ints("api_key") == ApiKey.FETCH)
    shared = set(calls.ints("connection")[polling].tolist())
    notes = [note for note in scene.of("behind") if note.place.connection in shared]
    rows = []
    for (client, api), found in group_by(notes, lambda note: (note.client, note.api)):
        count = sum(note.exchanges for note in found)
        if count >= BEHIND_TIMES:
            waited = format_duration(max(note.most for note in found) * 10**6)
            rows.append(evidence(client, f"{api} took up to {waited} on a connection with long polls", found))
    clients = {row.subject for row in rows}
    return (
        Judgement(f"{plural(len(clients), 'client')} made requests wait behind long polls", rows)
        if rows
        else None
    )


def lag_growing(scene: FindingContext) -> Judgement | None:
    """Consumers that are farther behind at the end than at the start, and as far as they ever were."""
    by_client: dict[tuple[str, str], list[ConsumerLag]] = defaultdict(list)
    for lag in scene.lags:
        by_client[lag.client, lag.topic].append(lag)
    rows = []
    for (client, topic), lags in by_client.items():
        before, after, most = (
            sum(getattr(lag, name) for lag in lags) for name in ("before", "after", "most")
        )
        lasted = max(lag.last_ns for lag in lags) - min(lag.first_ns for lag in lags)
        if after - before < GREW or after < TIMES_MORE * before or after < STILL * most or lasted < LASTED_NS:
            continue
        first = min(lags, key=lambda lag: lag.first_ns)
        rows.append(
            Evidence(
                subject=f"{client}: {topic}",
                detail=f"from {before:,} to {after:,} records behind in {format_duration(lasted)}, {plural(len(lags), 'partition')}",
                count=after - before,
                first_time_ns=first.first_ns,
                last_time_ns=max(lag.last_ns for lag in lags),
                place=first.place,
            )
        )
    rows.sort(key=lambda row: -row.count)
    return Judgement(f"{plural(len(rows), 'consumer')} falling behind", rows) if rows else None


GREW, TIMES_MORE, STILL, LASTED_NS = 500, 2, 0.8, 5 * 10**9
"""Records more, times as many, part of the farthest that the last is, and for how long at least."""
