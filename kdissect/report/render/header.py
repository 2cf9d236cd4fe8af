"""The first lines: span, packets, connections, brokers, clients, exchanges; and plain words when there is nothing to show."""

from kdissect.report.model.summary import QualityCounter, Summary
from kdissect.report.render import protection
from kdissect.report.render.table import (
    BOLD,
    GREEN,
    RED,
    YELLOW,
    TableCell,
    Terminal,
    phrase_lines,
)
from kdissect.text import (
    format_clock,
    format_count,
    format_duration,
    format_share,
    format_size,
)

PROTOCOLS = {"kafka": "Kafka", "kafka-0.7": "Kafka 0.7", "tls": "TLS", "unknown": "not recognised"}
FILES_NAMED = 3
SOFTWARE_NAMED = 8


def header(summary: Summary, terminal: Terminal) -> list[str]:
    """Give the header of the report."""
    lines = [terminal.paint(f"kdissect {summary.kdissect_version}", BOLD)]
    lines += phrase_lines("Capture", _capture(summary, terminal), terminal)
    if summary.connections.count:
        lines += phrase_lines("Connections", _connections(summary, terminal), terminal)
        for label, cells in (("TLS", protection.tls), ("SASL", protection.sasl)):
            if said := cells(summary.connections, terminal):
                lines += phrase_lines(label, said, terminal)
    if summary.filters:
        lines += phrase_lines("Only", _filters(summary, terminal), terminal)
    nothing = _nothing(summary)
    if nothing:
        return [*lines, "", " " + terminal.paint(nothing, YELLOW)]
    lines += phrase_lines("Traffic", _traffic(summary), terminal)
    software = _software(summary, terminal)
    if software:
        lines += phrase_lines("Software", software, terminal)
    return lines + phrase_lines("Quality", _quality(summary, terminal), terminal)


def _capture(summary: Summary, terminal: Terminal) -> list[TableCell]:
    capture = summary.capture
    files = [terminal.captured(name) for name in capture.files[:FILES_NAMED]]
    if len(capture.files) > FILES_NAMED:
        files.append(terminal.own(f"… and {format_count(len(capture.files) - FILES_NAMED)} more files"))
    phrases = [", ".join(files)] if files else []
    if capture.first_time_ns is not None and capture.last_time_ns is not None:
        phrases.append(
            terminal.own(
                f"{format_clock(capture.first_time_ns, date=True)} → {terminal.clock(capture.last_time_ns)} UTC"
            )
        )
        phrases.append(terminal.own(format_duration(max(capture.last_time_ns - capture.first_time_ns, 0))))
    phrases += [counted(capture.packets, "packets"), format_size(capture.bytes)]
    phrases += [terminal.captured(", ".join(capture.link_types))] if capture.link_types else []
    return [TableCell(phrase) for phrase in phrases]


def _connections(summary: Summary, terminal: Terminal) -> list[TableCell]:
    seen = summary.connections
    phrases = [
        TableCell(
            f"{format_count(row.connections)} {PROTOCOLS.get(row.protocol, terminal.captured(row.protocol))} ({format_size(row.bytes)})"
        )
        for row in seen.protocols
    ]
    if seen.server_rtt:
        median, longest = format_duration(seen.server_rtt.p50_ns), format_duration(seen.server_rtt.max_ns)
        phrases.append(TableCell(terminal.own(f"server round trip p50 {median}, max {longest}")))
    return phrases + [TableCell(f"{format_count(seen.closed_by_rst)} reset", YELLOW)] * bool(
        seen.closed_by_rst
    )


def _filters(summary: Summary, terminal: Terminal) -> list[TableCell]:
    return [
        TableCell(f"{row.option} {' or '.join(terminal.captured(value) for value in row.values)}", YELLOW)
        for row in summary.filters
    ]


def _nothing(summary: Summary) -> str:
    if not summary.connections.count:
        return (
            "No TCP connection with payload in this capture."
            if summary.capture.packets
            else "No packets in this capture."
        )
    if summary.totals.exchanges:
        return ""
    kinds = {row.protocol for row in summary.connections.protocols}
    if "tls" in kinds and kinds.isdisjoint({"kafka", "kafka-0.7"}):
        return "No Kafka to read: what is there is encrypted (TLS) or not Kafka."
    return "No Kafka requests or responses in this capture."


def _traffic(summary: Summary) -> list[TableCell]:
    totals = summary.totals
    phrases = [TableCell(counted(totals.exchanges, "exchanges"))]
    if totals.first_time_ns is not None and totals.last_time_ns is not None:
        seconds = (totals.last_time_ns - totals.first_time_ns) / 10**9
        phrases += [TableCell(f"{format_count(round(totals.exchanges / seconds))}/s")] if seconds > 0 else []
    phrases += [
        TableCell(counted(len(summary.brokers) + summary.omitted.brokers, "brokers")),
        TableCell(counted(len(summary.clients) + summary.omitted.clients, "clients")),
        TableCell(f"requests {format_size(totals.request_bytes)}"),
        TableCell(f"responses {format_size(totals.response_bytes)}"),
        TableCell(
            f"{format_count(totals.error_responses)} with errors", RED if totals.error_responses else ""
        ),
        TableCell(f"{format_count(totals.unanswered)} unanswered", RED if totals.unanswered else ""),
    ]
    return phrases if totals.answered else [*phrases, TableCell("nothing was answered: no latencies", YELLOW)]


def _software(summary: Summary, terminal: Terminal) -> list[TableCell]:
    ranked = summary.connections.software
    names = [f"{row.software_name} {row.software_version or ''}".strip() for row in ranked[:SOFTWARE_NAMED]]
    named = [
        TableCell(f"{terminal.captured(name)} ({counted(row.connections, 'connections')})")
        for name, row in zip(names, ranked, strict=False)
    ]
    left = len(ranked) - SOFTWARE_NAMED
    return [*named, TableCell(terminal.own(f"… and {format_count(left)} more"))] if left > 0 else named


def _quality(summary: Summary, terminal: Terminal) -> list[TableCell]:
    if not summary.doubts:
        return [TableCell(terminal.own("✓ nothing lost, everything matched and decoded"), GREEN)]
    return [TableCell(_doubt(doubt), YELLOW) for doubt in summary.doubts]


def _doubt(doubt: QualityCounter) -> str:
    part = f" ({format_share(doubt.count / doubt.of)})" if doubt.of else ""
    words = doubt.name.replace("_", " ")
    if words.endswith(" bytes"):
        return f"{format_size(doubt.count)} {words.removesuffix(' bytes')}{part}"
    return counted(doubt.count, words) + part


def counted(count: int, plural: str) -> str:
    """Give 1 broker, 2 brokers."""
    return f"{format_count(count)} {plural.removesuffix('s') if count == 1 else plural}"
