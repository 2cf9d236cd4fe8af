"""Signals about what clients do too much of, or unevenly.

metadata_storm_began    a client asks for metadata many times a second
commits_storm           a consumer commits offsets many times a second
retries_storm           a client repeats refused requests many times a second
batches_tiny            a producer sends many batches of one or two small records
partition_hot           one partition takes nearly all bytes of a topic
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from kdissect.array_types import Int64s
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import is_retriable
from kdissect.report.aggregate.grouping import TableColumns, map_distinct
from kdissect.report.findings.evidence import count_requests, observed, observed_times
from kdissect.report.findings.observations import ClientTimes
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.client_names import ClientFacts
from kdissect.report.signals.dense_spans import SECOND, WINDOW_NS, a_second, dense_pairs, dense_span, until
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.signal_tables import LOAD, PACE
from kdissect.report.wording import client_text, counted
from kdissect.text import format_clock, format_count, format_duration, format_share, format_size

Row = dict[str, Any]
LOAD_KINDS = (
    SignalKind("metadata_storm_began", "a client asks for metadata all the time", SignalCounts.NOTHING),
    SignalKind("commits_storm", "a consumer commits offsets all the time", SignalCounts.NOTHING),
    SignalKind("retries_storm", "a client repeats refused requests at once", SignalCounts.ERRORS),
    SignalKind("batches_tiny", "a producer sends tiny batches", SignalCounts.NOTHING),
    SignalKind("partition_hot", "one partition takes nearly all bytes", SignalCounts.NOTHING),
)
METADATA_RATE, RETRY_RATE, BATCH_RATE, COMMIT_RATE = 8, 15, 150, 40
"""Times a second over `WINDOW_NS`, from which on it is a signal."""

REQUESTS_OF_STORM = METADATA_RATE * WINDOW_NS // SECOND
"""A client with fewer requests for metadata never asks for it often enough."""

TINY_RECORDS, TINY_BYTES = 1.6, 512
HOT_SHARE, HOT_BYTES, HOT_BATCHES, HOT_PARTITIONS = 0.8, 256 << 10, 100, 3
"""Producers stay at a partition for 16 KiB (KIP-794), so much less may lie in one of three by chance."""


LOAD_COLUMNS = (
    *("api_key", "client", "name", "partition", "exchanges", "batches", "records", "record_bytes"),
    *("first_ns", "last_ns"),
)


def load_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about load."""
    yield from _metadata(context)
    yield from _retries(context)
    load = context.rows(LOAD, *LOAD_COLUMNS)
    yield from _commits(context, load)
    yield from _tiny(context, load)
    yield from _hot(context, load)


class Storm(NamedTuple):
    """The requests for metadata of a client that asks without end."""

    begin_ns: int
    end_ns: int
    requests: int
    times: ClientTimes


def metadata_storms(context: SignalContext) -> Iterator[tuple[str, Storm]]:
    """Yield the clients that ask for metadata METADATA_RATE times a second or more, by name."""
    for times in context.rules.observations.client_times("metadata", REQUESTS_OF_STORM):
        span = dense_span(times.first_ns, times.exchanges, METADATA_RATE)
        if span is not None:
            yield times.client, Storm(*span, times)


def _metadata(context: SignalContext) -> Iterator[Signal]:
    for client, (begin, end, count, times) in metadata_storms(context):
        yield make_signal(
            "metadata_storm_began",
            (SubjectKind.CLIENT, client),
            (begin, until(context, end)),
            f"{client} asked for metadata {counted(count, 'time')}, {a_second(count, begin, end)}, from "
            f"{format_clock(begin)} for {format_duration(end - begin)}",
            measures={"count": count, "lasted_ns": end - begin},
            clients=[client],
            evidence=[observed_times("Metadata requests", times)],
            requests=count,
        )


def _commits(context: SignalContext, load: Sequence[Row]) -> Iterator[Signal]:
    """Yield consumers that commit many times a second, as after each record."""
    fetched: dict[str, list[Row]] = defaultdict(list)
    for row in load:
        if row["api_key"] == ApiKey.FETCH:
            fetched[row["client"]].append(row)
    pace = context.table(PACE)
    commits = pace.filter(pace.ints("api_key") == ApiKey.OFFSET_COMMIT)
    clients, of = map_distinct(lambda *client: client, *map(commits.column, ("client_id", "client_host")))
    begins, exchanges = commits.ints("first_ns"), commits.ints("exchanges")
    for number, (client_id, host) in sorted(enumerate(clients), key=lambda item: repr(item[1])):
        rows = np.flatnonzero(of == number)
        rows = rows[np.argsort(begins[rows], kind="stable")]
        span = dense_span(begins[rows], exchanges[rows], COMMIT_RATE)
        if span is None:
            continue
        begin, end, count = span
        client = client_text(client_id, host)
        inside = rows[(begins[rows] >= begin) & (begins[rows] <= end)]
        groups = sorted(context.shared(ClientFacts).groups.get(client, ()))
        of_group = f" of group {', '.join(groups)}" if groups else ""
        yield make_signal(
            "commits_storm",
            (SubjectKind.CLIENT, client),
            (begin, until(context, end)),
            f"{client} committed offsets{of_group} {counted(count, 'time')}, {a_second(count, begin, end)}, "
            f"from {format_clock(begin)} for {format_duration(end - begin)}",
            measures={
                "count": count,
                "lasted_ns": end - begin,
                "batches": _batches(context, fetched[client], (client_id, host), (begin, end)),
            },
            clients=[client],
            groups=groups,
            servers=sorted(_servers(context, commits, inside)),
            requests=count,
        )


def _batches(
    context: SignalContext,
    fetched: Sequence[Row],
    client: tuple[str | None, str | None],
    span: tuple[int, int],
) -> int:
    """Return how many fetches of a client in a span brought records, or may have where all were cut."""
    if fetched:
        return sum(row["exchanges"] for row in fetched if span[0] <= row["first_ns"] <= span[1])
    pace = context.table(PACE)
    rows = (pace.ints("api_key") == ApiKey.FETCH) & (pace.ints("first_ns") >= span[0])
    own = pace.filter(rows & (pace.ints("first_ns") <= span[1]))
    names = zip(*(own.values(name) for name in ("client_id", "client_host")), strict=True)
    return sum(
        count for name, count in zip(names, own.ints("exchanges").tolist(), strict=True) if name == client
    )


def _servers(context: SignalContext, pace: TableColumns, rows: Int64s) -> set[str]:
    hosts, ports = (pace.take(rows).values(name) for name in ("server_host", "server_port"))
    return {context.servers.name(host, port) for host, port in set(zip(hosts, ports, strict=True))}


def _retries(context: SignalContext) -> Iterator[Signal]:
    groups: dict[tuple[str, int, int], list[Any]] = defaultdict(list)
    for row in context.rules.of_kind("error"):
        if row.replica_id is None and is_retriable(row.code or 0):
            groups[row.client, row.api_key or 0, row.code or 0].append(row)
    for (client, _, _), rows in sorted(groups.items()):
        count = count_requests(rows)
        begin, end = min(row.first_ns for row in rows), max(row.last_ns for row in rows)
        if count >= RETRY_RATE * WINDOW_NS // SECOND and count * SECOND >= RETRY_RATE * (end - begin):
            topics = sorted({row.location.topic for row in rows if row.location.topic is not None})
            yield make_signal(
                "retries_storm",
                (SubjectKind.CLIENT, client),
                (begin, until(context, end)),
                f"{client} repeated {rows[0].api} {counted(count, 'time')} from {format_clock(begin)} for "
                f"{format_duration(end - begin)}, each refused with {rows[0].error}",
                measures={"count": count, "lasted_ns": end - begin, "code": rows[0].code or 0},
                clients=[client],
                topics=topics,
                requests=count,
                evidence=[observed(client, rows[0].error, rows)],
            )


def _tiny(context: SignalContext, load: Sequence[Row]) -> Iterator[Signal]:
    by_client: dict[str, list[Row]] = defaultdict(list)
    for row in load:
        if row["api_key"] == ApiKey.PRODUCE:
            by_client[row["client"]].append(row)
    for client, rows in sorted(by_client.items()):
        rows.sort(key=lambda row: row["first_ns"])
        tiny = [
            row
            for row in rows
            if row["records"] <= TINY_RECORDS * row["batches"]
            and row["record_bytes"] <= TINY_BYTES * row["batches"]
        ]
        span = dense_pairs([(row["first_ns"], row["batches"]) for row in tiny], BATCH_RATE)
        if span is None:
            continue
        begin, end, count = span
        inside = [row for row in tiny if begin <= row["first_ns"] <= end]
        records, size = (sum(row[name] for row in inside) for name in ("records", "record_bytes"))
        yield make_signal(
            "batches_tiny",
            (SubjectKind.CLIENT, client),
            (begin, until(context, end)),
            f"{client} sent {format_count(count)} batches of {records / count:.1f} records and "
            f"{format_size(size // count)} each from {format_clock(begin)}, "
            f"{count * SECOND // max(end - begin, SECOND)} a second",
            measures={"count": count, "lasted_ns": end - begin, "bytes": size, "records": records},
            clients=[client],
            topics=sorted({row["name"] for row in inside if row["name"] is not None}),
        )


def _hot(context: SignalContext, load: Sequence[Row]) -> Iterator[Signal]:
    partitions = {topic.topic: topic.partitions for topic in context.rules.topics}
    topics: dict[str, list[Row]] = defaultdict(list)
    for row in load:
        if row["api_key"] == ApiKey.PRODUCE and row["name"] is not None and row["partition"] is not None:
            topics[row["name"]].append(row)
    for topic, rows in sorted(topics.items()):
        sums: dict[int, int] = defaultdict(int)
        for row in rows:
            sums[row["partition"]] += row["record_bytes"]
        total = sum(sums.values())
        number = max(sums, key=lambda partition: sums[partition])
        own = [row for row in rows if row["partition"] == number]
        known = max(partitions.get(topic, 0), len(sums))
        is_hot = known >= HOT_PARTITIONS and sums[number] >= max(HOT_BYTES, HOT_SHARE * total)
        if not is_hot or sum(row["batches"] for row in own) < HOT_BATCHES:
            continue
        writers: dict[str, int] = defaultdict(int)
        for row in own:
            writers[row["client"]] += row["record_bytes"]
        writer = max(writers, key=lambda client: writers[client])
        begin, end = min(row["first_ns"] for row in own), max(row["last_ns"] for row in own)
        yield make_signal(
            "partition_hot",
            (SubjectKind.PARTITION, f"{topic}-{number}"),
            (begin, until(context, end)),
            f"Partition {topic}-{number} took {format_share(sums[number] / total)} of the bytes written to "
            f"topic {topic} since {format_clock(begin)} ({format_size(sums[number])} of "
            f"{format_size(total)}, {known} partitions), {format_share(writers[writer] / sums[number])} of "
            f"it from {writer}",
            measures={"bytes": sums[number], "total_bytes": total, "partitions": known},
            clients=[writer],
            topics=[topic],
        )
