"""The events of a watch as plain values and as lines of text: intervals, notices, changes of incidents.

In comes the report of a batch that counts. Out come the events that `--format jsonl` prints, that hooks get,
and the lines for people.
"""

from dataclasses import asdict
from typing import Any

from kdissect.report.incidents.incident_log import IncidentChange
from kdissect.spark.watch.batch_job import BatchReport
from kdissect.spark.watch.late_files import Skipped
from kdissect.text import escape, format_clock, format_count, format_duration

NS_PER_S = 1_000_000_000
PER_MILLE = (500, 990)
NOT_SHOWN = ("last_ns", "closed", "told_ns", "grown")  # fields of KnownIncident


def text_lines(report: BatchReport) -> list[str]:
    """Return the lines about a batch: what there was, and what is missing."""
    figures = interval_event(report)
    rate = f" ({format_count(figures['per_second'])}/s)" if figures["per_second"] else ""
    parts = [
        format_clock(report.commit.now_ns) if report.commit.now_ns else "--:--:--",
        f"{report.files} file{'s' * (report.files != 1)}",
        f"{format_count(figures['exchanges'])} exchanges{rate}",
        f"p50 {format_duration(figures['p50_ns'])}",
        f"p99 {format_duration(figures['p99_ns'])}",
        f"{format_count(figures['errors'])} errors",
        f"{format_count(figures['unanswered'])} unanswered",
        f"{format_count(figures['open_connections'])} connections open",
        *loss_texts(report),
    ]
    return [
        *(f"missing: {escape(notice)}" for notice in report.notices),
        "  ".join(parts),
        *(incident_line(change) for change in report.incidents),
    ]


def incident_line(change: IncidentChange) -> str:
    """Return what became of an incident, as a line."""
    known = change.incident
    return f"incident {known.number} {change.change.value}: {known.severity}: {escape(known.headline)}"


def loss_texts(report: BatchReport) -> list[str]:
    """Return what an own capture has lost so far; nothing if it has lost nothing."""
    counted = ((report.dropped_packets, "dropped by the kernel"), (report.skipped_packets, "skipped"))
    return [f"{format_count(count)} packets {what}" for count, what in counted if count]


def events(report: BatchReport) -> list[dict[str, Any]]:
    """Return all events of a batch, in the order in which they are printed."""
    notices = [{"event": "notice", "batch": report.commit.batch, "text": text} for text in report.notices]
    return [*notices, interval_event(report), *incident_events(report)]


def incident_events(report: BatchReport) -> list[dict[str, Any]]:
    """Return an event for each change of an incident."""
    return [
        {
            "event": "incident",
            "change": one.change.value,
            "batch": report.commit.batch,
            **{name: value for name, value in asdict(one.incident).items() if name not in NOT_SHOWN},
        }
        for one in report.incidents
    ]


def interval_event(report: BatchReport) -> dict[str, Any]:
    """Return the figures of a batch by name; times in ns, None where there is nothing to count."""
    figures, commit = report.figures, report.commit
    exchanges = figures.rows.get("exchanges", 0)
    p50, p99 = figures.percentiles(PER_MILLE)
    return {
        "event": "interval",
        "batch": commit.batch,
        "time_ns": commit.now_ns or None,
        "files": report.files,
        "exchanges": exchanges,
        "per_second": round(exchanges * NS_PER_S / report.span_ns) if report.span_ns > 0 else None,
        "p50_ns": p50,
        "p99_ns": p99,
        "errors": figures.errors,
        "unanswered": figures.unanswered,
        "open_connections": figures.open,
        "aged_connections": figures.aged,
        "state_bytes": figures.state_bytes,
        "seconds": round(report.seconds, 3),
        "lost_files": commit.lost,
        "dropped_packets": report.dropped_packets,
        "skipped_packets": report.skipped_packets,
        "skipped_bytes": Skipped(*commit.skipped).bytes,
        "skipped_files": Skipped(*commit.skipped).files,
    }
