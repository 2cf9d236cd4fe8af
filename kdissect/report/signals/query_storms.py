"""The signal `queries_storm`: a client asks the same of brokers many times a second, as tools in a loop do.

Records, commits, heartbeats and transactions come as often as there is work, and requests of a login or of a
first look-up come with connections. The rest is asked by tools and by start-ups: now and then, or in short
bursts. Metadata has a signal of its own (`metadata_storm_began`).
"""

from collections.abc import Iterator

import numpy as np

from kdissect.protocol.api_keys import ADMIN, READ, SECURITY, ApiKey
from kdissect.protocol.schema.registry import api_name
from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.client_names import BROKERS_OWN
from kdissect.report.signals.dense_spans import dense_span
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.named_rows import client_rows, server_rows
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.signal_tables import PACE
from kdissect.report.wording import counted
from kdissect.text import format_clock, format_count, format_duration

SECOND = 10**9
QUERY_KINDS = (
    SignalKind("queries_storm", "a client asks the same of brokers all the time", SignalCounts.NOTHING),
)
QUERY_RATE = 20
"""Requests a second of all queries of a client, over the window of `dense_span`, that are too many."""

ENDED_NS = 5 * SECOND
"""A storm that was seen this shortly before the end of the capture lasts to its end."""

QUERIES = sorted(
    (READ | ADMIN | SECURITY) - {ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.OFFSET_FOR_LEADER_EPOCH}
)
"""Without look-ups that clients repeat until a leader or a coordinator is known: their errors tell more."""

NAMED = 2


def query_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the clients that send queries QUERY_RATE times a second or more."""
    pace = context.table(PACE)
    pace = pace.filter(pace.present("api_key") & np.isin(pace.ints("api_key"), QUERIES))
    clients, servers = client_rows(pace), server_rows(pace, context.servers)
    ids = pace.text("client_id")
    own = np.array([bool(BROKERS_OWN.fullmatch(text)) for text in ids.texts.to_pylist()] + [False], bool)
    is_client = ~own[ids.numbers]
    begins, exchanges, api = pace.ints("first_ns"), pace.ints("exchanges"), pace.ints("api_key")
    for client in clients.present():
        rows = np.flatnonzero(clients.equal(client) & is_client)
        rows = rows[np.argsort(begins[rows], kind="stable")]
        span = dense_span(begins[rows], exchanges[rows], QUERY_RATE)
        if span is None:
            continue
        begin, end, count = span
        rows = rows[(begins[rows] >= begin) & (begins[rows] <= end)]
        sums = np.bincount(api[rows], exchanges[rows])
        asked = [key for key in np.argsort(-sums, kind="stable").tolist() if sums[key]]
        what = " and ".join(f"{api_name(key)} {counted(int(sums[key]), 'time')}" for key in asked[:NAMED])
        a_second = format_count(round(count * SECOND / max(end - begin, SECOND)))
        yield make_signal(
            "queries_storm",
            (SubjectKind.CLIENT, client),
            (begin, None if context.end_ns - end < ENDED_NS else end),
            f"{client} sent {what} from {format_clock(begin)} for {format_duration(end - begin)}: {a_second} "
            "queries a second",
            measures={"count": count, "lasted_ns": end - begin},
            clients=[client],
            servers=servers.only(rows).present(),
            requests=count,
        )
