"""Signals about consumers that are stuck, and about software that changed.

offset_repeated     a consumer fetches the same offset again and again
software_changed    a client's software has another version from a moment on
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from kdissect.report.model.incidents import Signal, SubjectKind
from kdissect.report.signals.client_names import ClientFacts
from kdissect.report.signals.kinds import SignalCounts, SignalKind
from kdissect.report.signals.make_signal import make_signal
from kdissect.report.signals.signal_context import SignalContext
from kdissect.report.timeline.signal_tables import READS
from kdissect.report.wording import client_text, counted, software_text
from kdissect.text import format_clock, format_count, format_duration

Row = dict[str, Any]
SECOND = 10**9
POSITION_KINDS = (
    SignalKind("offset_repeated", "a consumer fetches one offset again and again", SignalCounts.ERRORS),
    SignalKind("software_changed", "a client's software changed", SignalCounts.NOTHING),
)
REPEATED, REPEATED_NS = 4, 2 * SECOND

CHANGED_NS = 3 * SECOND
"""Software that is new in the first seconds of a capture may have been there before."""

ENDED_NS = 5 * SECOND
"""What was seen this shortly before the end of the capture lasts to its end."""


def position_signals(context: SignalContext) -> Iterator[Signal]:
    """Yield the signals about positions and software."""
    facts = ClientFacts(context)
    yield from _repeated(context, facts)
    yield from _software(context)


def _until(context: SignalContext, last_ns: int) -> int | None:
    return None if context.end_ns - last_ns < ENDED_NS else last_ns


def _repeated(context: SignalContext, facts: ClientFacts) -> Iterator[Signal]:
    best: dict[tuple[str, str], Row] = {}
    for row in context.partial.table(READS).to_pylist():
        topic = context.topics.name(row["topic"], row["topic_id"])
        enough = row["exchanges"] >= REPEATED and row["last_ns"] - row["first_ns"] >= REPEATED_NS
        if row["offset"] is None or topic is None or not enough:
            continue
        key = client_text(row["client_id"], row["client_host"]), topic
        if key not in best or row["exchanges"] > best[key]["exchanges"]:
            best[key] = row
    for (client, topic), row in sorted(best.items()):
        count, end = row["exchanges"], row["last_ns"]
        begin, groups = facts.began(client, row["first_ns"]), sorted(facts.groups.get(client, ()))
        of_group = f" (group {', '.join(groups)})" if groups else ""
        yield make_signal(
            "offset_repeated",
            (SubjectKind.CLIENT, client),
            (begin, _until(context, end)),
            f"{client}{of_group} does not get past offset {format_count(row['offset'])} of "
            f"{topic}-{row['partition']}: it fetched it {counted(count, 'time')} from {format_clock(begin)} "
            f"for {format_duration(end - begin)}",
            measures={"count": count, "offset": row["offset"], "partition": row["partition"]},
            clients=[client],
            groups=groups,
            topics=[topic],
            requests=count,
        )


STEM = re.compile(r"[-_.]?\d+$")
IN_ID = re.compile(r"(?P<name>.*?[a-z])[-_.@/ ]?v?(?P<version>\d+\.\d+(?:\.\d+)?)(?![\d.])", re.IGNORECASE)
"""A name and a version as client ids have them: shop-1.4.0; four numbers are an address."""


def _software(context: SignalContext) -> Iterator[Signal]:
    columns = context.facts.columns
    names = ("client_id", "client_host", "client_software_name", "client_software_version", "first_time_ns")
    services: dict[tuple[str, str], dict[str, list[tuple[int, str]]]] = defaultdict(lambda: defaultdict(list))
    rows = zip(*(columns.arrow(name).to_pylist() for name in names), strict=True)
    for client_id, host, software, version, first in rows:
        if not client_id or first is None:
            continue
        named = IN_ID.match(client_id)
        if named:
            services[named["name"], named["name"]][named["version"]].append(
                (first, client_text(client_id, host))
            )
        elif software and version:
            stem = STEM.sub("", client_id) or client_id
            services[stem, software][version].append((first, client_text(client_id, host)))
    for (stem, software), versions in sorted(services.items()):
        ordered = sorted(versions.items(), key=lambda item: min(item[1]))
        for (old, before), (new, after) in pairwise(ordered):
            begin = min(after)[0]
            if begin - context.begin_ns < CHANGED_NS or max(before)[0] > max(after)[0]:
                continue
            clients = sorted({client for _, client in after})
            yield make_signal(
                "software_changed",
                (SubjectKind.CLIENT, stem),
                (begin, None),
                f"{stem} went from {software_text(software, old)} to {new} at {format_clock(begin)} "
                f"({counted(len(clients), 'client')})",
                measures={"clients": len(clients)},
                clients=clients,
            )
