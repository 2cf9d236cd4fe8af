"""Rules about how clients behave: connections, metadata, empty fetches, batches, compression, acks, versions."""

from collections import Counter, defaultdict
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kdissect.report.findings.scene import (
    Judgement,
    Note,
    Scene,
    evidence,
    exchanges,
    gathered,
    plural,
    span_ns,
)
from kdissect.report.summary import Evidence, Place, TopicUse
from kdissect.report.units import duration, share, size

WINDOW_S = 10
MANY_METADATA = 50
MANY_CONNECTIONS = 30
EMPTY_FETCHES, EMPTY_PER_SECOND = 100, 20
BATCHES, FEW_RECORDS, SMALL_BATCH = 500, 2.0, 1024
UNCOMPRESSED_BYTES = 1 << 20
PRODUCE, FETCH = 0, 1
READABLE = ("PLAIN", "OAUTHBEARER")
"""SASL mechanisms that send the secret itself (RFC 4616, RFC 7628); SCRAM and GSSAPI prove that they know it."""

SETS_UNTIL = {PRODUCE: 2, FETCH: 3}
"""Up to these versions records travel as message sets of format 0 or 1 (KIP-98)."""


def metadata_storm(scene: Scene) -> Judgement | None:
    """Clients that ask for metadata again and again."""
    rows = []
    for (client,), found in gathered(scene.of("metadata"), lambda note: (note.client,)):
        windows: Counter[int] = Counter()
        for note in found:
            windows[(note.second or 0) // WINDOW_S] += note.exchanges
        most = max(windows.values())
        if most >= MANY_METADATA:
            rows.append(evidence(client, f"up to {most:,} Metadata requests in {WINDOW_S} s", found))
    return (
        Judgement(f"{plural(len(rows), 'client')} asked for metadata over and over", rows) if rows else None
    )


class _Opened(NamedTuple):
    client: str
    first_ns: int
    place: Place


def _opened(scene: Scene, *, refused: bool) -> list[_Opened]:
    """Give connections opened in the capture: those that a host refused, or those that worked."""
    columns = scene.facts.columns
    silent = (columns.ints("bytes_to_server") == 0) & (columns.ints("bytes_to_client") == 0)
    turned_down = silent & columns.equals("closed", "rst") & ~columns.known("server_rtt_ns")
    mask = columns.equals("opened", "handshake") & (
        turned_down if refused else ~silent & columns.equals("protocol", "kafka")
    )
    ends = ("connection", "client_host", "client_port", "server_host", "server_port", "client_id")
    rows = columns.table.select([*ends, "first_time_ns"]).take(np.flatnonzero(mask)).to_pylist()
    return [
        _Opened(
            f"{row['client_id'] or '(no client id)'} at {row['client_host'] or '?'}",
            row["first_time_ns"],
            Place(
                time_ns=row["first_time_ns"], capture_file=None, request_packet=None, response_packet=None, topic=None,
                partition=None, detail=None, **{name: row[name] for name in ends},
            ),
        )
        for row in rows
        if row["first_time_ns"] is not None
    ]  # fmt: skip


def _connections(subject: str, detail: str, opened: list[_Opened]) -> Evidence:
    first = min(opened, key=lambda row: row.first_ns)
    last_ns = max(row.first_ns for row in opened)
    return Evidence(
        subject=subject, detail=detail, count=len(opened), first_time_ns=first.first_ns, last_time_ns=last_ns, place=first.place
    )  # fmt: skip


def refused_connections(scene: Scene) -> Judgement | None:
    """Servers that answer a SYN with a reset: nothing listens there."""
    by_server: dict[str, list[_Opened]] = defaultdict(list)
    for row in _opened(scene, refused=True):
        by_server[f"{row.place.server_host}:{row.place.server_port}"].append(row)
    rows = []
    for server, opened in sorted(by_server.items(), key=lambda item: (-len(item[1]), item[0])):
        lasted = max(row.first_ns for row in opened) - min(row.first_ns for row in opened)
        hosts = {row.place.client_host for row in opened}
        rows.append(
            _connections(
                server,
                f"refused{f' for {duration(lasted)}' if lasted else ''}, tried from {plural(len(hosts), 'host')}",
                opened,
            )
        )
    total = sum(row.count for row in rows)
    return (
        Judgement(f"{plural(total, 'connection')} refused by {plural(len(rows), 'server')}", rows)
        if rows
        else None
    )


def connection_churn(scene: Scene) -> Judgement | None:
    """Clients that open connection after connection."""
    by_client: dict[str, list[_Opened]] = defaultdict(list)
    for row in _opened(scene, refused=False):
        by_client[row.client].append(row)
    rows = []
    for client, opened in sorted(by_client.items(), key=lambda item: (-len(item[1]), item[0])):
        most = max(Counter(row.first_ns // (WINDOW_S * 10**9) for row in opened).values())
        if most >= MANY_CONNECTIONS:
            rows.append(_connections(client, f"up to {most:,} new connections in {WINDOW_S} s", opened))
    return (
        Judgement(f"{plural(len(rows), 'client')} opened connection after connection", rows) if rows else None
    )


def empty_fetches(scene: Scene) -> Judgement | None:
    """Fetches that come back at once with nothing, over and over."""
    rows = []
    for (client, _), found in gathered(
        scene.of("empty_fetch"), lambda note: (note.client, str(note.place.connection))
    ):
        count, seconds = exchanges(found), max(span_ns(found) / 10**9, 1.0)
        if count >= EMPTY_FETCHES and count / seconds >= EMPTY_PER_SECOND:
            rows.append(
                evidence(
                    client, f"{count / seconds:.0f} empty fetches a second, each answered at once", found
                )
            )
    return (
        Judgement(f"{plural(len(rows), 'connection')} fetch nothing in a tight loop", rows) if rows else None
    )


def readable_login(scene: Scene) -> Judgement | None:
    """Logins whose password or token anyone on the way can read."""
    columns = scene.facts.columns
    rows = columns.table.select(
        ["sasl_mechanism", "tls_version", "client_id", "client_host", "server_host", "first_time_ns"]
    )
    found: dict[tuple[str, str], list[int]] = {}
    readable = pc.is_in(rows["sasl_mechanism"], pa.array(READABLE))
    for row in rows.filter(pc.and_(readable, pc.is_null(rows["tls_version"]))).to_pylist():
        client = f"{row['client_id'] or '(no client id)'} at {row['client_host'] or '?'}"
        found.setdefault((client, row["sasl_mechanism"]), []).append(row["first_time_ns"])
    evidence_rows = [
        Evidence(
            subject=client, detail=f"SASL {mechanism} without TLS", count=len(times), first_time_ns=min(times),
            last_time_ns=max(times), place=None,
        )
        for (client, mechanism), times in sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    ]  # fmt: skip
    return (
        Judgement(
            f"{plural(len(evidence_rows), 'client')} sent credentials that anyone on the way can read",
            evidence_rows,
        )
        if evidence_rows
        else None
    )


def _written(scene: Scene) -> list[tuple[str, TopicUse]]:
    return [(topic.topic, use) for topic in scene.topics for use in topic.uses if use.api_key == PRODUCE]


def _topic_row(topic: str, use: TopicUse, detail: str, count: int) -> Evidence:
    writers = list(dict.fromkeys(client.name.client_id or "(no client id)" for client in use.clients))
    more = f" and {len(writers) - 1} more" if len(writers) > 1 else ""
    subject = f"{topic} written by {writers[0]}{more}" if writers else topic
    return Evidence(
        subject=subject, detail=detail, count=count, first_time_ns=None, last_time_ns=None, place=None
    )


def tiny_batches(scene: Scene) -> Judgement | None:
    """Topics written in batches of one or two small records."""
    rows = [
        _topic_row(
            topic,
            use,
            f"{use.records / use.batches:.1f} records and {size(use.record_bytes // use.batches)} to a batch",
            use.batches,
        )
        for topic, use in _written(scene)
        if use.batches >= BATCHES
        and use.records < FEW_RECORDS * use.batches
        and use.record_bytes < SMALL_BATCH * use.batches
    ]
    return Judgement(f"{plural(len(rows), 'topic')} written in tiny batches", rows) if rows else None


def not_compressed(scene: Scene) -> Judgement | None:
    """Topics with much written that is not compressed."""
    rows = []
    for topic, use in _written(scene):
        plain = use.codecs.get("none", 0)
        if plain >= UNCOMPRESSED_BYTES and 2 * plain > use.record_bytes:
            rows.append(
                _topic_row(
                    topic,
                    use,
                    f"{size(plain)} ({share(plain / use.record_bytes)}) not compressed",
                    use.batches,
                )
            )
    return Judgement(f"{plural(len(rows), 'topic')} written without compression", rows) if rows else None


def _acks(scene: Scene, kind: str, title: str) -> Judgement | None:
    notes = scene.of(kind)
    rows = [
        evidence(client, "Produce requests", found)
        for (client,), found in gathered(notes, lambda note: (note.client,))
    ]
    return Judgement(f"{plural(len(rows), 'producer')} {title}", rows) if rows else None


def acks_none(scene: Scene) -> Judgement | None:
    """Producers that ask for no answer."""
    return _acks(scene, "acks_none", "with acks=0: nobody would notice a lost record")


def acks_leader(scene: Scene) -> Judgement | None:
    """Producers content with the leader's word."""
    return _acks(scene, "acks_leader", "with acks=1: records can be lost when a leader fails")


def refused_by_kafka_4(scene: Scene) -> Judgement | None:
    """Clients that speak versions which Kafka 4 does not serve (KIP-896)."""
    rows = [
        evidence(client, f"{_versions(found)}{_software(found)}", found)
        for (client,), found in gathered(scene.of("refused_version"), lambda note: (note.client,))
    ]
    return (
        Judgement(f"{plural(len(rows), 'client')} used API versions that Kafka 4.0 refuses", rows)
        if rows
        else None
    )


def old_message_format(scene: Scene) -> Judgement | None:
    """Clients that write or read message sets of format 0 or 1."""
    notes = [
        note
        for note in scene.of("refused_version")
        if note.api_key in SETS_UNTIL and (note.api_version or 0) <= SETS_UNTIL[note.api_key]
    ]
    rows = [
        evidence(client, _versions(found), found)
        for (client,), found in gathered(notes, lambda note: (note.client,))
    ]
    return (
        Judgement(f"{plural(len(rows), 'client')} write or read message format 0 or 1", rows)
        if rows
        else None
    )


def _versions(notes: list[Note]) -> str:
    return ", ".join(sorted({f"{note.api} v{note.api_version}" for note in notes}))


def _software(notes: list[Note]) -> str:
    names = sorted({note.software for note in notes if note.software})
    return f" (calls itself {', '.join(names)})" if names else ""
