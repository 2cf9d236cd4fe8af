"""Rules about clients: connections, metadata requests, fetches, batches, compression, acks, versions."""

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode
from kdissect.report.aggregate.grouping import encode, encode_numbers, group_rows, name_distinct
from kdissect.report.findings.connection_evidence import (
    Row,
    chosen_evidence,
    connection_evidence,
    group_connections,
    host_labels,
    select_connections,
    server_label,
)
from kdissect.report.findings.evidence import (
    address_texts,
    count_exchanges,
    group_by,
    observed,
    observed_times,
    span_ns,
)
from kdissect.report.findings.finding_context import MAX_EVIDENCE, FindingContext, Judgement
from kdissect.report.findings.observations import Observation
from kdissect.report.model.findings import Evidence, Severity
from kdissect.report.model.summary import TopicUse
from kdissect.report.wording import client_id_text, client_text, counted
from kdissect.tables.coded_text import CodedText
from kdissect.text import LOOPBACK_HOSTS, format_duration, format_share, format_size

WINDOW_S, NS_PER_S = 10, 10**9
MANY_METADATA = 50
MANY_CONNECTIONS = 30
EMPTY_FETCHES, EMPTY_PER_SECOND = 100, 5
BATCHES, FEW_RECORDS, SMALL_BATCH = 500, 2.0, 1024
SAVED_BYTES, SAVED_PART = 64 << 10, 0.25

MESSAGE_SETS_UNTIL: Mapping[int | None, int] = {ApiKey.PRODUCE: 2, ApiKey.FETCH: 3}
"""Up to these versions records travel as message sets of format 0 or 1 (KIP-98)."""


def _client(observation: Observation) -> tuple[str]:
    return (observation.client,)


def metadata_storm(context: FindingContext) -> Judgement | None:
    """Clients with 50 or more Metadata requests in 10 s."""
    rows = []
    for times in context.observations.client_times("metadata", MANY_METADATA):
        _, window = np.unique(times.second // WINDOW_S, return_inverse=True)
        most = int(np.bincount(window, times.exchanges).max())
        if most >= MANY_METADATA:
            rows.append(observed_times(f"up to {most:,} Metadata requests in {WINDOW_S} s", times))
    rows.sort(key=lambda row: -row.count)
    return Judgement(f"{counted(len(rows), 'client')} requested metadata repeatedly", rows) if rows else None


def _opened(context: FindingContext, *, refused: bool, protocols: tuple[str, ...] = ("kafka",)) -> Bools:
    """Return which connections were opened during the capture: refused by a host, or those that worked."""
    columns = context.facts.columns
    silent = (columns.ints("bytes_to_server") == 0) & (columns.ints("bytes_to_client") == 0)
    was_refused = silent & columns.equals("closed", "rst") & ~columns.present("server_rtt_ns")
    spoken = np.logical_or.reduce([columns.equals("protocol", protocol) for protocol in protocols])
    wanted: Bools = was_refused if refused else ~silent & spoken
    opened = columns.equals("opened", "handshake") & columns.present("first_time_ns")
    wanted &= opened
    return wanted


def refused_connections(context: FindingContext) -> Judgement | None:
    """Servers that answer a SYN with a reset, since no process listens there.

    One address of localhost (`::1`, say) that refuses is none if the port is served at the other.
    """
    refused = select_connections(context, _opened(context, refused=True))
    if not refused:
        return None
    worked = select_connections(context, _opened(context, refused=False, protocols=("kafka", "tls")))
    here = {row["server_port"] for row in worked if row["server_host"] in LOOPBACK_HOSTS}
    last_open = {
        server: opened[-1]["first_time_ns"] for server, opened in group_connections(worked, server_label)
    }
    rows = []
    for server, opened in group_connections(refused, server_label):
        host, port = opened[0]["server_host"], opened[0]["server_port"]
        if server not in last_open and host in LOOPBACK_HOSTS and port in here:
            continue
        spell = _spell(opened, last_open.get(server, 0))
        rows.append(connection_evidence(server, f"refused{spell}, tried from {host_labels(opened)}", opened))
    connections = counted(sum(row.count for row in rows), "connection")
    title = f"{connections} refused by {counted(len(rows), 'server')}"
    return Judgement(title, rows) if rows else None


def _spell(refused: list[Row], last_open_ns: int) -> str:
    """Return how long a server refused: until it accepted again, or to the end of the capture."""
    lasted_ns = refused[-1]["first_time_ns"] - refused[0]["first_time_ns"]
    lasted = f" for {format_duration(lasted_ns)}" if lasted_ns else ""
    if last_open_ns > refused[-1]["first_time_ns"]:
        return lasted
    return f"{lasted} until the last attempt, and not open again in the capture"


def connection_churn(context: FindingContext) -> Judgement | None:
    """Clients with 30 or more new connections in 10 s."""
    opened = np.flatnonzero(_opened(context, refused=False))
    clients = _clients(context, opened)
    windows = context.facts.columns.ints("first_time_ns")[opened] // (WINDOW_S * NS_PER_S)
    together = group_rows(encode(clients), encode_numbers(windows, np.ones(len(windows), bool)))
    most = np.zeros(len(clients.texts), np.int64)
    np.maximum.at(most, clients.numbers[together.first], np.bincount(together.of))
    found = [
        (clients.texts[client].as_py(), opened[clients.numbers == client], int(most[client]))
        for client in np.flatnonzero(most >= MANY_CONNECTIONS).tolist()
    ]
    found.sort(key=lambda each: (-len(each[1]), each[0]))
    rows = [
        chosen_evidence(context, client, f"up to {count:,} new connections in {WINDOW_S} s", connections)
        for client, connections, count in found
    ]
    return Judgement(f"{counted(len(rows), 'client')} opened connections repeatedly", rows) if rows else None


def _clients(context: FindingContext, rows: Int64s) -> CodedText:
    """Return the texts of clients of connections. Two clients that share one count as one, as for readers."""
    columns = context.facts.columns
    ends = (columns.text(name).take(rows) for name in ("client_id", "client_host"))
    return name_distinct(client_text, *ends)


def empty_fetches(context: FindingContext) -> Judgement | None:
    """Clients with 100 or more empty fetches that were answered at once, 5 or more a second."""
    rows = []
    for (client,), fetches in group_by(context.of_kind("empty_fetch"), _client):
        count, seconds = count_exchanges(fetches), max(span_ns(fetches) / NS_PER_S, 1.0)
        if count >= EMPTY_FETCHES and count / seconds >= EMPTY_PER_SECOND:
            connections = counted(len({fetch.location.connection for fetch in fetches}), "connection")
            detail = f"{count / seconds:.0f} empty fetches a second on {connections}, each answered at once"
            rows.append(observed(client, detail, fetches))
    title = f"Fetches in a tight loop that return nothing, by {counted(len(rows), 'client')}"
    return Judgement(title, rows) if rows else None


def _produced(context: FindingContext) -> Iterator[tuple[str, TopicUse]]:
    """Yield each topic that Produce requests name, with what they did."""
    for topic in context.topics:
        for use in topic.uses:
            if use.api_key == ApiKey.PRODUCE:
                yield topic.topic, use


def _topic_evidence(topic: str, use: TopicUse, detail: str) -> Evidence:
    producers = list(dict.fromkeys(client_id_text(client.name.client_id) for client in use.clients))
    more = f" and {len(producers) - 1} more" if len(producers) > 1 else ""
    return Evidence(
        subject=f"{topic} written by {producers[0]}{more}" if producers else topic,
        detail=detail,
        count=use.batches,
        first_time_ns=min((one.first_time_ns for one in use.clients if one.first_time_ns), default=None),
        last_time_ns=max((one.last_time_ns for one in use.clients if one.last_time_ns), default=None),
        place=None,
    )


def tiny_batches(context: FindingContext) -> Judgement | None:
    """Topics with 500 or more batches, of fewer than 2 records and less than 1 KiB on average."""
    rows = [
        _topic_evidence(
            topic,
            use,
            f"{use.records / use.batches:.1f} records and {format_size(use.record_bytes // use.batches)} a "
            "batch",
        )
        for topic, use in _produced(context)
        if use.batches >= BATCHES
        and use.records < FEW_RECORDS * use.batches
        and use.record_bytes < SMALL_BATCH * use.batches
    ]
    return Judgement(f"{counted(len(rows), 'topic')} written in tiny batches", rows) if rows else None


def not_compressed(context: FindingContext) -> Judgement | None:
    """Topics of which LZ4 would save 25 % or more, and 64 KiB or more."""
    rows = []
    for topic, use in _produced(context):
        plain = use.codecs.get("none", 0)
        saved = 1 - use.sampled_lz4_bytes / use.sampled_bytes if use.sampled_bytes else 0.0
        if saved >= SAVED_PART and saved * plain >= SAVED_BYTES:
            detail = (
                f"{format_size(plain)} ({format_share(plain / use.record_bytes)}) not compressed; "
                f"LZ4 saved {format_share(saved)} of a sample of {format_size(use.sampled_bytes)}"
            )
            rows.append(_topic_evidence(topic, use, detail))
    topics = counted(len(rows), "topic")
    title = f"{topics} written without compression that would save much space"
    return Judgement(title, rows) if rows else None


def _acks(context: FindingContext, kind: str, detail: str, title: str) -> Judgement | None:
    clients = context.observations.by_client(kind, MAX_EVIDENCE)
    rows = [
        Evidence(
            subject=client.client,
            detail=f"{detail}, to {address_texts(client.servers)}",
            count=client.exchanges,
            first_time_ns=client.first.first_ns,
            last_time_ns=client.last_ns,
            place=client.first.location,
        )
        for client in clients.first
    ]
    producers = counted(len(rows) + clients.rest.rows, "producer")
    return Judgement(f"{producers} {title}", rows, rest=clients.rest) if rows else None


def acks_none(context: FindingContext) -> Judgement | None:
    """Producers that request no response (acks=0)."""
    detail = "Produce requests that expect no response"
    return _acks(context, "acks_none", detail, "with acks=0: lost records go unnoticed")


def acks_leader(context: FindingContext) -> Judgement | None:
    """Producers that wait for the leader only (acks=1)."""
    title = "with acks=1: records can be lost when a leader fails"
    return _acks(context, "acks_leader", "Produce requests", title)


def refused_by_kafka_4(context: FindingContext) -> Judgement | None:
    """Clients that use API versions which Kafka 4.0 refuses (KIP-896); a note if brokers answer them all."""
    rows = [
        observed(client, f"{_versions(requests)}{_software(requests)}", requests)
        for (client,), requests in group_by(context.of_kind("refused_version"), _client)
    ]
    title = f"{counted(len(rows), 'client')} used API versions that Kafka 4.0 refuses"
    return Judgement(title, rows, None if _is_refused(context) else Severity.NOTE) if rows else None


def _is_refused(context: FindingContext) -> bool:
    """Return whether a connection has no response to such requests at all, or the error that says so."""
    sent, unanswered = (_by_connection(context, kind) for kind in ("refused_version", "unanswered"))
    errors = context.errors((ErrorCode.UNSUPPORTED_VERSION,))
    return any(unanswered[key] >= count for key, count in sent.items()) or any(
        (one.location.connection, one.api_key) in sent for one in errors
    )


def _by_connection(context: FindingContext, kind: str) -> Counter[tuple[int | None, int | None]]:
    """Return the number of requests of a kind of observation by connection and API."""
    count: Counter[tuple[int | None, int | None]] = Counter()
    for one in context.of_kind(kind):
        count[one.location.connection, one.api_key] += one.exchanges
    return count


def old_message_format(context: FindingContext) -> Judgement | None:
    """Clients that write or read records in message format 0 or 1."""
    requests = [
        request
        for request in context.of_kind("refused_version")
        if (request.api_version or 0) <= MESSAGE_SETS_UNTIL.get(request.api_key, -1)
    ]
    rows = [observed(client, _versions(group), group) for (client,), group in group_by(requests, _client)]
    clients = counted(len(rows), "client")
    return Judgement(f"Message format 0 or 1 written or read by {clients}", rows) if rows else None


def _versions(requests: list[Observation]) -> str:
    return ", ".join(sorted({f"{request.api} v{request.api_version}" for request in requests}))


def _software(requests: list[Observation]) -> str:
    names = sorted({request.software for request in requests if request.software})
    return f" (client software: {', '.join(names)})" if names else ""
