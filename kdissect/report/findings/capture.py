"""Rules about brokers against each other, and about the capture itself."""

from statistics import median

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.schema.registry import api_name
from kdissect.report.findings.connection_evidence import (
    Row,
    client_label,
    connection_evidence,
    group_connections,
    select_connections,
    server_label,
)
from kdissect.report.findings.context import (
    FindingContext,
    Judgement,
    plural,
)
from kdissect.report.model.summary import (
    Evidence,
    Latency,
    Location,
)
from kdissect.text import (
    format_duration,
    format_share,
    format_size,
)

ENOUGH, TIMES_SLOWER, SLOWER_NS = 100, 3, 2_000_000
COMPARED = (ApiKey.PRODUCE, ApiKey.FETCH)
"""What every broker does for its partitions; other APIs go to one coordinator or controller."""

SERIOUS_LOSS = 0.01


def slow_broker(scene: FindingContext) -> Judgement | None:
    """Brokers whose median of an API is several times that of the others."""
    ranked = scene.ranking.by(("api_key",), ("server_host", "server_port"))
    waits: dict[int, dict[tuple[str, int], Latency]] = {}
    for group, (key, host, port) in enumerate(zip(*ranked.keys, strict=True)):
        latency = ranked.profile.service.latency(group)
        if key in COMPARED and latency is not None and latency.count >= ENOUGH and host is not None:
            waits.setdefault(key, {})[host, port] = latency
    rows = []
    for key, brokers in sorted(waits.items()):
        for broker, latency in brokers.items():
            peers = [other.p50_ns for peer, other in brokers.items() if peer != broker]
            usual = median(peers) if peers else latency.p50_ns
            if latency.p50_ns >= TIMES_SLOWER * usual and latency.p50_ns - usual >= SLOWER_NS:
                detail = (
                    f"{api_name(key)} p50 {format_duration(latency.p50_ns)}, p99 {format_duration(latency.p99_ns)}; "
                    f"its peers' p50 {format_duration(round(usual))}"
                )
                rows.append(
                    connection_evidence(
                        f"{broker[0]}:{broker[1]}", detail, _to(scene, *broker), latency.count
                    )
                )
    return (
        Judgement(f"{plural(len({row.subject for row in rows}), 'broker')} slower than the others", rows)
        if rows
        else None
    )


def _to(scene: FindingContext, host: str, port: int) -> list[Row]:
    columns = scene.facts.columns
    return select_connections(
        scene, columns.equals("server_host", host) & (columns.ints("server_port") == port)
    )


def clock_steps(scene: FindingContext) -> Judgement | None:
    """Times that jump back, answers before their requests."""
    rows, seen = [], scene.capture
    if seen.clock_steps:
        farthest, place = seen.largest_clock_step_ns, seen.largest_clock_step
        at = "" if place is None else f", with packet #{place.request_packet}"
        detail = f"time jumps back from one packet to the next, by {format_duration(farthest)} at most{at}"
        rows.append(_row("packets", detail, seen.clock_steps, place))
    if scene.totals.untimed:
        rows.append(_row("answers", "before their request, or days later", scene.totals.untimed))
    return Judgement("The capture's clock stepped: latencies around it are wrong", rows) if rows else None


def capture_loss(scene: FindingContext) -> Judgement | None:
    """Bytes the capture lost, and connections of which it has one direction only."""
    seen, rows, missing = scene.connections, [], ""
    whole = seen.lost_bytes + seen.bytes_to_server + seen.bytes_to_client - seen.cut_bytes
    if seen.lost_bytes and seen.lost_bytes >= SERIOUS_LOSS * whole:
        missing = f", {format_size(seen.lost_bytes)} ({format_share(seen.lost_bytes / whole)}) are missing"
        lossy = select_connections(scene, scene.facts.columns.ints("lost_bytes") > 0, "lost_bytes")
        rows += [
            connection_evidence(
                client_label(row),
                f"{format_size(row['lost_bytes'])} missing of a connection to {server_label(row)}",
                [row],
            )
            for row in sorted(lossy, key=lambda row: -row["lost_bytes"])
        ]
    dropped = scene.capture.dropped_packets
    if dropped and dropped >= SERIOUS_LOSS * scene.capture.packets:
        rows.append(_row("packets", "lost in capturing, as the capture itself says", dropped))
    one_way = select_connections(scene, scene.facts.one_way & scene.facts.columns.equals("protocol", "kafka"))
    rows += [
        connection_evidence(name, f"captured in one direction only, to {server_label(each[0])}", each)
        for name, each in group_connections(one_way, client_label)
    ]
    title = f"The capture is incomplete{missing}: what looks unanswered may have been answered"
    return Judgement(title, rows) if rows else None


def _row(subject: str, detail: str, count: int, place: Location | None = None) -> Evidence:
    at_ns = None if place is None else place.time_ns
    return Evidence(
        subject=subject, detail=detail, count=count, first_time_ns=at_ns, last_time_ns=at_ns, place=place
    )
