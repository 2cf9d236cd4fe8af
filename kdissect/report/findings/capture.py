"""Rules about brokers compared with each other, and about the capture itself."""

from collections.abc import Iterator
from statistics import median

from kdissect.array_types import Bools
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
from kdissect.report.findings.finding_context import FindingContext, Judgement
from kdissect.report.model.call_figures import Latency
from kdissect.report.model.findings import Evidence, Location
from kdissect.report.wording import counted
from kdissect.text import format_address, format_duration, format_share, format_size

ENOUGH, TIMES_SLOWER, SLOWER_NS = 100, 3, 5_000_000
STEADY_SHARE = 0.75
"""The part of the capture in which a slow broker is slower: a busy host slows each of them for a while."""

COMPARED = (ApiKey.PRODUCE, ApiKey.FETCH)
"""APIs that every broker serves for its partitions; others go to one coordinator or controller."""

STEP_NS = 10_000_000
"""Packets of several processors are out of step by less than this; a clock that is set is by more.

A processor that is kept from its work for some ticks of 4 ms writes its packets behind later ones of another.
"""

SERIOUS_LOSS = 0.01


def slow_broker(context: FindingContext) -> Judgement | None:
    """Brokers with a median latency of Produce or Fetch of 3 times, and 5 ms above, that of the others.

    Only brokers with 100 calls or more are compared, and only those that are slower most of the time.
    """
    rows = [
        row for key, brokers in sorted(_latencies(context).items()) for row in _slower(context, key, brokers)
    ]
    brokers = counted(len({row.subject for row in rows}), "broker")
    return Judgement(f"{brokers} slower than the others", rows) if rows else None


def _latencies(context: FindingContext) -> dict[int, dict[tuple[str, int], Latency]]:
    """Return the latencies of compared APIs by API key and broker."""
    ranked = context.calls.group_by(("api_key",), ("server_host", "server_port"))
    latencies: dict[int, dict[tuple[str, int], Latency]] = {}
    for group, (key, host, port) in enumerate(zip(*ranked.keys, strict=True)):
        latency = ranked.figures.service.of(group)
        if key in COMPARED and latency is not None and latency.count >= ENOUGH and host is not None:
            latencies.setdefault(key, {})[host, port] = latency
    return latencies


def _slower(context: FindingContext, key: int, brokers: dict[tuple[str, int], Latency]) -> Iterator[Evidence]:
    for (host, port), latency in brokers.items():
        others = [other.p50_ns for broker, other in brokers.items() if broker != (host, port)]
        usual = median(others) if others else latency.p50_ns
        slower = latency.p50_ns >= TIMES_SLOWER * usual and latency.p50_ns - usual >= SLOWER_NS
        if slower and _is_steady(context, key, (host, port)):
            detail = (
                f"{api_name(key)} p50 {format_duration(latency.p50_ns)}, p99 "
                f"{format_duration(latency.p99_ns)}; p50 of the others {format_duration(round(usual))}"
            )
            connections = _connections_to(context, host, port)
            yield connection_evidence(format_address(host, port), detail, connections, latency.count)


def _is_steady(context: FindingContext, key: int, address: tuple[str, int]) -> bool:
    """Return whether a broker is slower for most of the capture, as far as calls were counted by time."""
    if context.pace is None:
        return True
    share = context.pace.slower_share(key, address, TIMES_SLOWER)
    return share is not None and share >= STEADY_SHARE


def _connections_to(context: FindingContext, host: str, port: int) -> list[Row]:
    columns = context.facts.columns
    return select_connections(
        context, columns.equals("server_host", host) & (columns.ints("server_port") == port)
    )


def clock_steps(context: FindingContext) -> Judgement | None:
    """Times that jump back by 10 ms or more between packets, and responses earlier than their request."""
    rows, capture = [], context.capture
    if capture.clock_steps and capture.largest_clock_step_ns >= STEP_NS:
        location = capture.largest_clock_step
        at = "" if location is None else f" at packet #{location.request_packet}"
        largest = format_duration(capture.largest_clock_step_ns)
        detail = f"time jumps back between packets, by up to {largest}{at}"
        rows.append(_row("packets", detail, capture.clock_steps, location))
    if context.totals.untimed:
        rows.append(_row("responses", "earlier than their request, or days later", context.totals.untimed))
    return Judgement("The capture's clock stepped: latencies around it are wrong", rows) if rows else None


def capture_loss(context: FindingContext) -> Judgement | None:
    """Captures that lost 1 % of the bytes or packets, or have one direction only of Kafka connections."""
    totals = context.connections
    rows: list[Evidence] = []
    missing, untold = "", "requests without a response may have had one"
    # Bytes cut off by the snap length are counted as lost, too.
    whole = totals.lost_bytes + totals.bytes_to_server + totals.bytes_to_client - totals.cut_bytes
    on_the_way = context.facts.holes
    lost = totals.lost_bytes - int(context.facts.columns.ints("lost_bytes")[on_the_way].sum())
    if lost > 0 and lost >= SERIOUS_LOSS * whole:
        how = ""
        if 2 * totals.cut_bytes >= lost:
            how, untold = " since packets are cut", "names and errors behind the cut cannot be told"
        missing = f", {format_size(lost)} ({format_share(lost / whole)}) missing{how}"
        captured = (context.facts.columns.ints("lost_bytes") > 0) & ~on_the_way
        lossy = select_connections(context, captured, "lost_bytes")
        lossy.sort(key=lambda row: -row["lost_bytes"])
        for row in lossy:
            detail = f"{format_size(row['lost_bytes'])} missing of a connection to {server_label(row)}"
            rows.append(connection_evidence(client_label(row), detail, [row]))
    dropped = context.capture.dropped_packets
    if dropped and dropped >= SERIOUS_LOSS * context.capture.packets:
        rows.append(
            _row("packets", "dropped during the capture, or skipped by a watch that was behind", dropped)
        )
    one_way = context.facts.one_way & context.facts.columns.equals("protocol", "kafka")
    for client, connections in group_connections(select_connections(context, one_way), client_label):
        detail = f"captured in one direction only, to {server_label(connections[0])}"
        rows.append(connection_evidence(client, detail, connections))
    if _most(context, one_way):
        sender = "clients" if context.facts.columns.ints("bytes_to_server")[one_way].any() else "servers"
        missing += f", with only what {sender} sent on {counted(int(one_way.sum()), 'connection')}"
        untold = "latencies, and what the other side said, cannot be told"
    return Judgement(f"The capture is incomplete{missing}: {untold}", rows) if rows else None


def _most(context: FindingContext, one_way: Bools) -> bool:
    """Return whether most Kafka connections have the same direction only."""
    columns = context.facts.columns
    to_server, to_client = (
        int((columns.ints(f"bytes_to_{end}")[one_way] > 0).sum()) for end in ("server", "client")
    )
    of_kafka = int(columns.equals("protocol", "kafka").sum())
    return min(to_server, to_client) == 0 and 2 * max(to_server, to_client) > of_kafka


def _row(subject: str, detail: str, count: int, location: Location | None = None) -> Evidence:
    time_ns = None if location is None else location.time_ns
    return Evidence(
        subject=subject,
        detail=detail,
        count=count,
        first_time_ns=time_ns,
        last_time_ns=time_ns,
        place=location,
    )
