"""Rules about brokers against each other, and about the capture itself."""

from statistics import median

from kdissect.protocol.schema import api_name
from kdissect.report.findings.scene import Judgement, Scene, plural
from kdissect.report.summary import Evidence, Latency
from kdissect.report.units import duration, share, size

ENOUGH, TIMES_SLOWER, SLOWER_NS = 100, 3, 2_000_000
COMPARED = (0, 1)
"""Produce and Fetch: what every broker does for its partitions; other APIs go to one coordinator or controller."""

SERIOUS_LOSS = 0.01


def slow_broker(scene: Scene) -> Judgement | None:
    """Brokers whose median of an API is several times that of the others."""
    ranked = scene.ranking.by(("api_key",), ("server_host", "server_port"))
    waits: dict[int, list[tuple[str, Latency]]] = {}
    for group, (key, host, port) in enumerate(zip(*ranked.keys, strict=True)):
        latency = ranked.profile.service.latency(group)
        if key in COMPARED and latency is not None and latency.count >= ENOUGH and host is not None:
            waits.setdefault(key, []).append((f"{host}:{port}", latency))
    rows = []
    for key, brokers in sorted(waits.items()):
        for name, latency in brokers:
            peers = [other.p50_ns for peer, other in brokers if peer != name]
            usual = median(peers) if peers else latency.p50_ns
            if latency.p50_ns >= TIMES_SLOWER * usual and latency.p50_ns - usual >= SLOWER_NS:
                detail = (
                    f"{api_name(key)} p50 {duration(latency.p50_ns)}, p99 {duration(latency.p99_ns)}; "
                    f"its peers' p50 {duration(round(usual))}"
                )
                rows.append(_row(name, detail, latency.count))
    return (
        Judgement(f"{plural(len({row.subject for row in rows}), 'broker')} slower than the others", rows)
        if rows
        else None
    )


def clock_steps(scene: Scene) -> Judgement | None:
    """Times that jump back, answers before their requests."""
    rows = []
    if scene.capture.clock_steps:
        rows.append(_row("packets", "time jumps back from one packet to the next", scene.capture.clock_steps))
    if scene.totals.untimed:
        rows.append(_row("answers", "before their request, or days later", scene.totals.untimed))
    return Judgement("The capture's clock stepped: latencies around it are wrong", rows) if rows else None


def capture_loss(scene: Scene) -> Judgement | None:
    """Bytes the capture lost, and connections of which it has one direction only."""
    seen = scene.connections
    whole = seen.lost_bytes + seen.bytes_to_server + seen.bytes_to_client
    rows = []
    if seen.lost_bytes and seen.lost_bytes >= SERIOUS_LOSS * whole:
        detail = f"{size(seen.lost_bytes)} ({share(seen.lost_bytes / whole)}) were not captured"
        rows.append(_row("bytes", detail, seen.lossy))
    one_way = scene.facts.one_way & scene.facts.columns.equals("protocol", "kafka")
    if one_way.any():
        rows.append(_row("connections", "captured in one direction only", int(one_way.sum())))
    return (
        Judgement("The capture is incomplete: what looks unanswered may have been answered", rows)
        if rows
        else None
    )


def _row(subject: str, detail: str, count: int) -> Evidence:
    return Evidence(
        subject=subject, detail=detail, count=count, first_time_ns=None, last_time_ns=None, place=None
    )
