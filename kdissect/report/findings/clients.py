"""Rules about how clients behave: connections, metadata, empty fetches, batches, compression, acks, versions."""

from collections import Counter

from kdissect.protocol.api_keys import ApiKey
from kdissect.report.findings.connection_evidence import (
    Row,
    client_label,
    connection_evidence,
    group_connections,
    host_labels,
    select_connections,
    server_label,
)
from kdissect.report.findings.context import (
    FindingContext,
    Judgement,
    Observation,
    count_exchanges,
    evidence,
    group_by,
    plural,
    server_names,
    span_ns,
)
from kdissect.report.model.summary import Evidence, TopicUse
from kdissect.text import (
    format_duration,
    format_share,
    format_size,
)

WINDOW_S = 10
MANY_METADATA = 50
MANY_CONNECTIONS = 30
EMPTY_FETCHES, EMPTY_PER_SECOND = 100, 20
BATCHES, FEW_RECORDS, SMALL_BATCH = 500, 2.0, 1024
SAVED_BYTES, SAVED_PART = 64 << 10, 0.25

SETS_UNTIL: dict[int, int] = {ApiKey.PRODUCE: 2, ApiKey.FETCH: 3}
"""Up to these versions records travel as message sets of format 0 or 1 (KIP-98)."""


def metadata_storm(scene: FindingContext) -> Judgement | None:
    """Clients that ask for metadata again and again."""
    rows = []
    for (name,), found in group_by(scene.of("metadata"), lambda note: (note.client,)):
        windows: Counter[int] = Counter()
        for note in found:
            windows[(note.second or 0) // WINDOW_S] += note.exchanges
        most = max(windows.values())
        if most >= MANY_METADATA:
            rows.append(evidence(name, f"up to {most:,} Metadata requests in {WINDOW_S} s", found))
    return (
        Judgement(f"{plural(len(rows), 'client')} asked for metadata over and over", rows) if rows else None
    )


def _opened(scene: FindingContext, *, refused: bool) -> list[Row]:
    """Give connections opened in the capture: those that a host refused, or those that worked."""
    columns = scene.facts.columns
    silent = (columns.ints("bytes_to_server") == 0) & (columns.ints("bytes_to_client") == 0)
    turned_down = silent & columns.equals("closed", "rst") & ~columns.known("server_rtt_ns")
    wanted = turned_down if refused else ~silent & columns.equals("protocol", "kafka")
    return select_connections(
        scene, wanted & columns.equals("opened", "handshake") & columns.known("first_time_ns")
    )


def refused_connections(scene: FindingContext) -> Judgement | None:
    """Servers that answer a SYN with a reset: nothing listens there."""
    rows = []
    for address, opened in group_connections(_opened(scene, refused=True), server_label):
        lasted = opened[-1]["first_time_ns"] - opened[0]["first_time_ns"]
        spell = f" for {format_duration(lasted)}" if lasted else ""
        rows.append(connection_evidence(address, f"refused{spell}, tried from {host_labels(opened)}", opened))
    total = sum(row.count for row in rows)
    title = f"{plural(total, 'connection')} refused by {plural(len(rows), 'server')}"
    return Judgement(title, rows) if rows else None


def connection_churn(scene: FindingContext) -> Judgement | None:
    """Clients that open connection after connection."""
    rows = []
    for name, opened in group_connections(_opened(scene, refused=False), client_label):
        most = max(Counter(row["first_time_ns"] // (WINDOW_S * 10**9) for row in opened).values())
        if most >= MANY_CONNECTIONS:
            rows.append(connection_evidence(name, f"up to {most:,} new connections in {WINDOW_S} s", opened))
    return (
        Judgement(f"{plural(len(rows), 'client')} opened connection after connection", rows) if rows else None
    )


def empty_fetches(scene: FindingContext) -> Judgement | None:
    """Fetches that come back at once with nothing, over and over."""
    rows = []
    for (name, _), found in group_by(
        scene.of("empty_fetch"), lambda note: (note.client, str(note.place.connection))
    ):
        count, seconds = count_exchanges(found), max(span_ns(found) / 10**9, 1.0)
        if count >= EMPTY_FETCHES and count / seconds >= EMPTY_PER_SECOND:
            rows.append(
                evidence(name, f"{count / seconds:.0f} empty fetches a second, each answered at once", found)
            )
    return (
        Judgement(f"Fetches that return nothing, in a tight loop, on {plural(len(rows), 'connection')}", rows)
        if rows
        else None
    )


def _written(scene: FindingContext) -> list[tuple[str, TopicUse]]:
    return [
        (topic.topic, use) for topic in scene.topics for use in topic.uses if use.api_key == ApiKey.PRODUCE
    ]


def _topic_row(topic: str, use: TopicUse, detail: str, count: int) -> Evidence:
    writers = list(dict.fromkeys(one.name.client_id or "(no client id)" for one in use.clients))
    more = f" and {len(writers) - 1} more" if len(writers) > 1 else ""
    return Evidence(
        subject=f"{topic} written by {writers[0]}{more}" if writers else topic,
        detail=detail,
        count=count,
        first_time_ns=min((one.first_time_ns for one in use.clients if one.first_time_ns), default=None),
        last_time_ns=max((one.last_time_ns for one in use.clients if one.last_time_ns), default=None),
        place=None,
    )


def tiny_batches(scene: FindingContext) -> Judgement | None:
    """Topics written in batches of one or two small records."""
    rows = [
        _topic_row(
            topic,
            use,
            f"{use.records / use.batches:.1f} records and {format_size(use.record_bytes // use.batches)} to a batch",
            use.batches,
        )
        for topic, use in _written(scene)
        if use.batches >= BATCHES
        and use.records < FEW_RECORDS * use.batches
        and use.record_bytes < SMALL_BATCH * use.batches
    ]
    return Judgement(f"{plural(len(rows), 'topic')} written in tiny batches", rows) if rows else None


def not_compressed(scene: FindingContext) -> Judgement | None:
    """Topics written without compression whose records would shrink, as samples of them did."""
    rows = []
    for topic, use in _written(scene):
        plain = use.codecs.get("none", 0)
        part = 1 - use.sampled_lz4_bytes / use.sampled_bytes if use.sampled_bytes else 0.0
        if part >= SAVED_PART and part * plain >= SAVED_BYTES:
            detail = (
                f"{format_size(plain)} ({format_share(plain / use.record_bytes)}) not compressed; "
                f"LZ4 saved {format_share(part)} of a sample of {format_size(use.sampled_bytes)}"
            )
            rows.append(_topic_row(topic, use, detail, use.batches))
    return (
        Judgement(f"{plural(len(rows), 'topic')} written without compression that would save much", rows)
        if rows
        else None
    )


def _acks(scene: FindingContext, kind: str, detail: str, title: str) -> Judgement | None:
    notes = scene.of(kind)
    rows = [
        evidence(name, f"{detail}, to {server_names(found)}", found)
        for (name,), found in group_by(notes, lambda note: (note.client,))
    ]
    return Judgement(f"{plural(len(rows), 'producer')} {title}", rows) if rows else None


def acks_none(scene: FindingContext) -> Judgement | None:
    """Producers that ask for no answer."""
    return _acks(
        scene,
        "acks_none",
        "Produce requests that expect no answer",
        "with acks=0: nobody would notice a lost record",
    )


def acks_leader(scene: FindingContext) -> Judgement | None:
    """Producers content with the leader's word."""
    return _acks(
        scene, "acks_leader", "Produce requests", "with acks=1: records can be lost when a leader fails"
    )


def refused_by_kafka_4(scene: FindingContext) -> Judgement | None:
    """Clients that speak versions which Kafka 4 does not serve (KIP-896)."""
    rows = [
        evidence(name, f"{_versions(found)}{_software(found)}", found)
        for (name,), found in group_by(scene.of("refused_version"), lambda note: (note.client,))
    ]
    return (
        Judgement(f"{plural(len(rows), 'client')} used API versions that Kafka 4.0 refuses", rows)
        if rows
        else None
    )


def old_message_format(scene: FindingContext) -> Judgement | None:
    """Clients that write or read message sets of format 0 or 1."""
    notes = [
        note
        for note in scene.of("refused_version")
        if note.api_key in SETS_UNTIL and (note.api_version or 0) <= SETS_UNTIL[note.api_key]
    ]
    rows = [
        evidence(name, _versions(found), found)
        for (name,), found in group_by(notes, lambda note: (note.client,))
    ]
    return (
        Judgement(f"Message format 0 or 1 written or read by {plural(len(rows), 'client')}", rows)
        if rows
        else None
    )


def _versions(notes: list[Observation]) -> str:
    return ", ".join(sorted({f"{note.api} v{note.api_version}" for note in notes}))


def _software(notes: list[Observation]) -> str:
    names = sorted({note.software for note in notes if note.software})
    return f" (calls itself {', '.join(names)})" if names else ""
