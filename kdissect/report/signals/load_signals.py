"""Signals about what clients do too much of, or unevenly.

metadata_storm_began    a client asks for metadata many times a second
commits_storm           a consumer commits offsets many times a second
connections_storm       a client opens connections again and again
client_restarts         a producer ends soon after each start, and is started again
retries_storm           a client repeats refused requests many times a second
batches_tiny            a producer sends many batches of one or two small records
partition_hot           one partition takes nearly all bytes of a topic
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import is_retriable
from kdissect.report.aggregate.grouping import TableColumns, map_distinct
from kdissect.report.findings.evidence import count_requests, observed
from kdissect.report.findings.observations import Observation
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.client_names import ClientFacts, stem_of
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.named_rows import NamedRows, name_rows
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.signal_tables import LOAD, PACE
from kdissect.report.wording import client_text, counted
from kdissect.text import format_clock, format_count, format_duration, format_share, format_size

Row = dict[str, Any]
SECOND = 10**9
LOAD_KINDS = (
    SignalKind("metadata_storm_began", "a client asks for metadata all the time", SignalCounts.NOTHING),
    SignalKind("commits_storm", "a consumer commits offsets all the time", SignalCounts.NOTHING),
    SignalKind("connections_storm", "a client opens connections all the time", SignalCounts.ATTEMPTS),
    SignalKind("client_restarts", "a producer starts again and again", SignalCounts.ATTEMPTS),
    SignalKind("retries_storm", "a client repeats refused requests at once", SignalCounts.ERRORS),
    SignalKind("batches_tiny", "a producer sends tiny batches", SignalCounts.NOTHING),
    SignalKind("partition_hot", "one partition takes nearly all bytes", SignalCounts.NOTHING),
)
WINDOW_NS = 5 * SECOND
METADATA_RATE, CONNECTION_RATE, RETRY_RATE, BATCH_RATE, COMMIT_RATE = 8, 4, 15, 150, 40
"""Times a second over `WINDOW_NS`, from which on it is a signal."""

TINY_RECORDS, TINY_BYTES = 1.6, 512
HOT_SHARE, HOT_BYTES, HOT_BATCHES, HOT_PARTITIONS = 0.8, 256 << 10, 100, 3
"""Producers stay at a partition for 16 KiB (KIP-794), so much less may lie in one of three by chance."""


STEMS = 1 << 12  # that are remembered: clients open many connections under one id

START_NS, KEPT_SHARE = 10 * SECOND, 0.7
"""Processes that start together have opened their connections within this, and keep most."""

SHORT_NS = 5 * SECOND
"""A connection that ends sooner was opened for one thing."""


RESTARTS, LIFE_NS, AWAY_NS = 5, (SECOND // 3, 30 * SECOND), 15 * SECOND
"""So many lives of a process, each so long, with less than this between them: it does not stay alive."""


LOAD_COLUMNS = (
    *("api_key", "client", "name", "partition", "exchanges", "batches", "records", "record_bytes"),
    *("first_ns", "last_ns"),
)


def load_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about load."""
    yield from _metadata(context)
    yield from _connections(context)
    yield from _restarts(context)
    yield from _retries(context)
    load = context.rows(LOAD, *LOAD_COLUMNS)
    yield from _commits(context, load)
    yield from _tiny(context, load)
    yield from _hot(context, load)


def _until(context: SignalContext, last_ns: int) -> int | None:
    return None if context.end_ns - last_ns < WINDOW_NS else last_ns


def _a_second(count: int, begin_ns: int, end_ns: int) -> str:
    return f"{format_count(round(count * SECOND / max(end_ns - begin_ns, SECOND)))} a second"


def dense_span(times: Int64s, counts: Int64s, rate: int) -> tuple[int, int, int] | None:
    """Return begin, end and count of the longest run of windows with at least `rate` a second; None without.

    `times` ascend. A window is `WINDOW_NS` long and begins at a time.
    """
    stops = np.searchsorted(times, times + WINDOW_NS)
    sums = np.concatenate([[0], np.cumsum(counts)])
    is_dense = sums[stops] - sums[:-1] >= rate * WINDOW_NS // SECOND
    is_dense &= stops - np.arange(len(times)) >= WINDOW_NS // SECOND
    is_dense &= times[stops - 1] - times >= WINDOW_NS // 2
    begins = np.flatnonzero(is_dense)
    if not len(begins):
        return None
    ends = stops[begins]
    breaks = begins[1:] > ends[:-1]  # windows that overlap or touch are one run
    firsts, lasts = begins[np.r_[True, breaks]], ends[np.r_[breaks, True]]
    best = int(np.argmax(sums[lasts] - sums[firsts]))
    begin, total = firsts[best], sums[lasts[best]]
    end = ends[np.searchsorted(sums[ends], total)]  # before windows that add nothing
    return int(times[begin]), int(times[end - 1]), int(total - sums[begin])


def _dense_pairs(pairs: Sequence[tuple[int, int]], rate: int) -> tuple[int, int, int] | None:
    """Return the dense span of pairs of time and count, ascending."""
    times, counts = np.array(pairs, np.int64).reshape(-1, 2).T
    return dense_span(times, counts, rate)


class Storm(NamedTuple):
    """The requests for metadata of a client that asks without end."""

    begin_ns: int
    end_ns: int
    requests: int
    rows: list[Observation]


def metadata_storms(context: SignalContext) -> Iterator[tuple[str, Storm]]:
    """Yield the clients that ask for metadata METADATA_RATE times a second or more, by name."""
    by_client: dict[str, list[Observation]] = defaultdict(list)
    for row in context.rules.of_kind("metadata"):
        by_client[row.client].append(row)
    for client, rows in sorted(by_client.items()):
        rows.sort(key=lambda row: row.first_ns)
        span = _dense_pairs([(row.first_ns, row.exchanges) for row in rows], METADATA_RATE)
        if span is not None:
            yield client, Storm(*span, rows)


def _metadata(context: SignalContext) -> Iterator[Signal]:
    for client, (begin, end, count, rows) in metadata_storms(context):
        yield make_signal(
            "metadata_storm_began",
            (SubjectKind.CLIENT, client),
            (begin, _until(context, end)),
            f"{client} asked for metadata {counted(count, 'time')}, {_a_second(count, begin, end)}, from "
            f"{format_clock(begin)} for {format_duration(end - begin)}",
            measures={"count": count, "lasted_ns": end - begin},
            clients=[client],
            evidence=[observed(client, "Metadata requests", rows)],
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
            (begin, _until(context, end)),
            f"{client} committed offsets{of_group} {counted(count, 'time')}, {_a_second(count, begin, end)}, "
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


def _connections(context: SignalContext) -> Iterator[Signal]:
    facts, columns = context.connections, context.facts.columns
    opened = columns.equals("opened", "handshake")
    talks = opened & facts.talks
    short = talks & facts.ends & (facts.closed_ns - facts.first_ns < SHORT_NS)
    empty = (columns.ints("bytes_to_server") == 0) & columns.present("server_rtt_ns")
    clients = NamedRows(facts.client, tuple(context.client_names))
    found = list(_opened_by(context, clients, talks, SubjectKind.CLIENT, ""))
    if not found:
        stems = name_rows(columns, ("client_id", "client_host"), _stem_text)
        found += _opened_by(context, stems, short, SubjectKind.CLIENT, " for a moment")
    attempts = opened & ~facts.talks & empty
    hosts = name_rows(columns, ("client_host", "client_host"), lambda host, _: host or "?")
    found += _opened_by(context, hosts, attempts, SubjectKind.HOST, " without a request")
    yield from found


def _stem_text(client_id: str | None, host: str | None) -> str:
    return f"{stem_of(client_id or '')}-… at {host}"


def _opened_by(
    context: SignalContext, subjects: NamedRows, chosen: Bools, kind: SubjectKind, how: str
) -> Iterator[Signal]:
    """Yield those among subjects of chosen connections that open many of them over a while."""
    counts = np.bincount(subjects.of[chosen], minlength=len(subjects.names))
    for number in np.flatnonzero(counts >= CONNECTION_RATE * WINDOW_NS // SECOND).tolist():
        subject, rows = subjects.names[number], np.flatnonzero(chosen & (subjects.of == number))
        times = np.sort(context.connections.first_ns[rows])
        span = dense_span(times, np.ones(len(times), np.int64), CONNECTION_RATE)
        if span is None:
            continue
        begin, end, count = span
        if _is_start(context, rows, begin, end):
            continue
        who = f"Host {subject}" if kind is SubjectKind.HOST else subject
        yield make_signal(
            "connections_storm",
            (kind, subject),
            (begin, _until(context, end)),
            f"{who} opened {counted(count, 'connection')}{how}, {_a_second(count, begin, end)}, from "
            f"{format_clock(begin)} for {format_duration(end - begin)}",
            measures={"count": count, "lasted_ns": end - begin},
            clients=context.clients_of(rows) if kind is SubjectKind.CLIENT else (),
            requests=count,
        )


def _is_start(context: SignalContext, rows: Int64s, begin: int, end: int) -> bool:
    """Return whether processes of one name started together: each opens connections once, and keeps them."""
    first_ns, ends = context.connections.first_ns[rows], context.connections.ends[rows]
    own = (first_ns >= begin) & (first_ns <= end)
    kept = ~ends[own] | (context.connections.closed_ns[rows][own] > end + WINDOW_NS)
    later = np.count_nonzero(first_ns > end)
    settled = context.end_ns - end >= WINDOW_NS and 2 * later <= len(kept)
    return bool(end - begin < START_NS and settled and kept.mean() >= KEPT_SHARE)


def _restarts(context: SignalContext) -> Iterator[Signal]:
    """Yield producers whose connections all end together, and are all opened anew, again and again.

    Members of groups have a signal of their own (`member_restarts`).
    """
    facts, about = context.connections, context.shared(ClientFacts)
    whole = facts.ends & ~facts.by_server & context.facts.columns.equals("opened", "handshake")
    rows = np.flatnonzero(facts.talks)
    rows = rows[np.lexsort((facts.first_ns[rows], facts.client[rows]))]
    for own in np.split(rows, np.flatnonzero(np.diff(facts.client[rows])) + 1):
        client = context.client_names[int(facts.client[own[0]])] if len(own) >= RESTARTS else ""
        if not client or client in about.groups or not about.produced(client):
            continue
        lives = _lives(context, own, whole)
        if len(lives) < RESTARTS:
            continue
        begin, last = lives[0][0], lives[-1][1]
        typical = sorted(end - first for first, end in lives)[len(lives) // 2]
        yield make_signal(
            "client_restarts",
            (SubjectKind.CLIENT, client),
            (begin, _until(context, last)),
            f"{client} started {counted(len(lives), 'time')} from {format_clock(begin)} for "
            f"{format_duration(last - begin)}, and ended about {format_duration(typical)} after each start",
            measures={"count": len(lives), "lasted_ns": last - begin, "life_ns": typical},
            clients=[client],
            requests=len(lives),
        )


def _lives(context: SignalContext, rows: Int64s, whole: Bools) -> list[tuple[int, int]]:
    """Return the longest run of lives of a process: spans in which connections of a client overlap.

    `rows` are in the order of their beginnings. A life that was begun before the capture, is not over, or
    that a server ended, is not `whole` and breaks a run.
    """
    runs: list[list[tuple[int, int]]] = [[]]
    for begin, end, is_whole in _spans(context, rows, whole):
        is_life = is_whole and LIFE_NS[0] <= end - begin <= LIFE_NS[1]
        if not is_life or (runs[-1] and begin - runs[-1][-1][1] > AWAY_NS):
            runs.append([])
        if is_life:
            runs[-1].append((begin, end))
    return max(runs, key=len)


def _spans(context: SignalContext, rows: Int64s, whole: Bools) -> Iterator[tuple[int, int, bool]]:
    """Yield the begin and end of spans in which connections overlap, and whether all of them are whole.

    A client closes its first connection when it knows the brokers, and then opens others. So a short span is
    the beginning of the one that follows at once.
    """
    facts = context.connections
    starts = np.maximum.accumulate(facts.closed_ns[rows])[:-1] < facts.first_ns[rows][1:]
    before: tuple[int, int, bool] | None = None
    for part in np.split(rows, np.flatnonzero(starts) + 1):
        begin, end = int(facts.first_ns[part].min()), int(facts.closed_ns[part].max())
        is_whole = bool(whole[part].all())
        if before is not None:
            if before[1] - before[0] < LIFE_NS[0] and begin - before[1] < LIFE_NS[0]:
                begin, is_whole = before[0], is_whole and before[2]
            else:
                yield before
        before = begin, end, is_whole
    if before is not None:
        yield before


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
                (begin, _until(context, end)),
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
        span = _dense_pairs([(row["first_ns"], row["batches"]) for row in tiny], BATCH_RATE)
        if span is None:
            continue
        begin, end, count = span
        inside = [row for row in tiny if begin <= row["first_ns"] <= end]
        records, size = (sum(row[name] for row in inside) for name in ("records", "record_bytes"))
        yield make_signal(
            "batches_tiny",
            (SubjectKind.CLIENT, client),
            (begin, _until(context, end)),
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
            (begin, _until(context, end)),
            f"Partition {topic}-{number} took {format_share(sums[number] / total)} of the bytes written to "
            f"topic {topic} since {format_clock(begin)} ({format_size(sums[number])} of "
            f"{format_size(total)}, {known} partitions), {format_share(writers[writer] / sums[number])} of "
            f"it from {writer}",
            measures={"bytes": sums[number], "total_bytes": total, "partitions": known},
            clients=[writer],
            topics=[topic],
        )
