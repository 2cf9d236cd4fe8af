"""The first lines of a report: capture, connections, traffic, errors, quality; or why there is nothing."""

from collections import Counter

from kdissect.protocol.error_codes import error_name
from kdissect.protocol.usual_errors import is_usual
from kdissect.report.model.summary import QualityCounter, Summary
from kdissect.report.render import protection
from kdissect.report.render.table import TableCell, phrase_lines
from kdissect.report.render.terminal import BOLD, GREEN, RED, YELLOW, Terminal
from kdissect.report.wording import counted, software_text
from kdissect.text import (
    format_clock,
    format_count,
    format_duration,
    format_share,
    format_size,
)

PROTOCOLS = {
    "kafka": "Kafka",
    "kafka-0.7": "Kafka 0.7",
    "tls": "TLS",
    "unknown": "not recognised",
    "none": "without data",
}
FILES_NAMED = 3
SOFTWARE_NAMED = 8
ERRORS_NAMED = 8


def header(summary: Summary, terminal: Terminal) -> list[str]:
    """Return the lines of the header."""
    sections = [("Capture", _capture(summary, terminal))]
    if summary.connections.count:
        sections.append(("Connections", _connections(summary, terminal)))
        sections.append(("TLS", protection.tls(summary.connections, terminal)))
        sections.append(("SASL", protection.sasl(summary.connections, terminal)))
    sections.append(("Filters", _filters(summary, terminal)))
    nothing = _why_nothing(summary)
    if not nothing:
        sections.append(("Traffic", _traffic(summary, terminal)))
        sections.append(("Errors", _errors(summary, terminal)))
        sections.append(("Software", _software(summary, terminal)))
        sections.append(("Quality", _quality(summary, terminal)))
    lines = [terminal.paint(f"kdissect {summary.kdissect_version}", BOLD)]
    for label, phrases in sections:
        if phrases or label == "Capture":
            lines += phrase_lines(label, phrases, terminal)
    return [*lines, "", " " + terminal.paint(nothing, YELLOW)] if nothing else lines


def _capture(summary: Summary, terminal: Terminal) -> list[TableCell]:
    capture = summary.capture
    files = [terminal.escape(name) for name in capture.files[:FILES_NAMED]]
    if len(capture.files) > FILES_NAMED:
        files.append(terminal.show(f"… and {counted(len(capture.files) - FILES_NAMED, 'more file')}"))
    phrases = [", ".join(files)] if files else []
    if capture.first_time_ns is not None and capture.last_time_ns is not None:
        first, last = format_clock(capture.first_time_ns, date=True), terminal.clock(capture.last_time_ns)
        phrases.append(terminal.show(f"{first} → {last} UTC"))
        phrases.append(terminal.show(format_duration(max(capture.last_time_ns - capture.first_time_ns, 0))))
    phrases += [counted(capture.packets, "packet"), format_size(capture.bytes)]
    phrases += [terminal.escape(", ".join(capture.link_types))] if capture.link_types else []
    return [TableCell(phrase) for phrase in phrases]


def _connections(summary: Summary, terminal: Terminal) -> list[TableCell]:
    connections = summary.connections
    phrases = []
    for row in connections.protocols:
        protocol = PROTOCOLS.get(row.protocol, terminal.escape(row.protocol))
        phrases.append(TableCell(f"{format_count(row.connections)} {protocol} ({format_size(row.bytes)})"))
    if connections.server_rtt:
        median, longest = (
            format_duration(ns) for ns in (connections.server_rtt.p50_ns, connections.server_rtt.max_ns)
        )
        phrases.append(TableCell(terminal.show(f"server round trip p50 {median}, max {longest}")))
    if connections.closed_by_rst:
        phrases.append(TableCell(f"{format_count(connections.closed_by_rst)} reset", YELLOW))
    return phrases


def _filters(summary: Summary, terminal: Terminal) -> list[TableCell]:
    return [
        TableCell(f"{row.option} {' or '.join(terminal.escape(value) for value in row.values)}", YELLOW)
        for row in summary.filters
    ]


def _why_nothing(summary: Summary) -> str:
    """Return why there is nothing to report, an empty text if there is something."""
    if not summary.capture.packets and not summary.connections.count:
        return "No packets in this capture."
    if not summary.connections.count:
        return "No TCP connection with payload in this capture."
    if summary.totals.exchanges:
        return ""
    protocols = {row.protocol for row in summary.connections.protocols}
    if "tls" in protocols and protocols.isdisjoint({"kafka", "kafka-0.7"}):
        return "No readable Kafka traffic: all connections are encrypted (TLS) or not Kafka."
    return "No Kafka requests or responses in this capture."


def _traffic(summary: Summary, terminal: Terminal) -> list[TableCell]:
    totals = summary.totals
    phrases = [TableCell(counted(totals.exchanges, "exchange"))]
    if totals.first_time_ns is not None and totals.last_time_ns is not None:
        seconds = (totals.last_time_ns - totals.first_time_ns) / 10**9
        if seconds > 0:
            a_second = round(totals.exchanges / seconds)
            phrases.append(TableCell(f"{format_count(a_second)}/s" if a_second else "<1/s"))
    phrases += [
        TableCell(_brokers(summary)),
        TableCell(
            counted(len(summary.clients) + summary.omitted.clients, "client")
            + _at_one_host(summary, terminal)
        ),
        TableCell(f"requests {format_size(totals.request_bytes)}"),
        TableCell(f"responses {format_size(totals.response_bytes)}"),
    ]
    failed = _failed(summary)
    phrases.append(TableCell(f"{format_count(failed)} with errors", RED if failed else ""))
    unanswered = totals.unanswered - totals.unanswered_open
    phrases.append(TableCell(f"{format_count(unanswered)} unanswered", RED if unanswered else ""))
    if totals.unanswered_open:
        phrases.append(TableCell(f"{format_count(totals.unanswered_open)} in flight at the end"))
    return phrases if totals.answered else [*phrases, TableCell("no responses: no latencies", YELLOW)]


def _brokers(summary: Summary) -> str:
    """Return how many brokers there are, or addresses of brokers if one has several listeners.

    Brokers of two clusters may have the same node id, so node ids do not tell how many there are.
    """
    count = len(summary.brokers) + summary.omitted.brokers
    nodes = [row.node_id for row in summary.brokers if row.node_id is not None]
    if len(set(nodes)) == len(nodes):
        return counted(count, "broker")
    return f"{format_count(count)} addresses of brokers"


def _failed(summary: Summary) -> int:
    """Return how many responses have an error that clients do not expect.

    Errors are counted by code, and a response may have several. Only if such a response has an expected one
    as well may others like it be missing here; those with the most frequent code never are.
    """
    responses, usual, unusual = Counter[int | None](), Counter[int | None](), Counter[int | None]()
    for api in summary.apis:
        responses[api.api_key] += api.figures.error_responses
    for row in summary.errors:
        if is_usual(row.api_key, row.error_code):
            usual[row.api_key] += row.exchanges
        else:
            unusual[row.api_key] = max(unusual[row.api_key], row.exchanges)
    return sum(max(count - usual[key], unusual[key]) for key, count in responses.items())


def _at_one_host(summary: Summary, terminal: Terminal) -> str:
    """Return that all clients are at one host without a broker: what others saw is not in the capture."""
    hosts = {row.name.client_host for row in summary.clients}
    brokers = {row.server_host for row in summary.brokers}
    host = hosts.pop() if len(hosts) == 1 and len(summary.clients) > 1 else None
    return (
        ""
        if host is None or host in brokers or summary.omitted.clients
        else f", all at {terminal.escape(host)}"
    )


def _errors(summary: Summary, terminal: Terminal) -> list[TableCell]:
    """Return the errors by name, the most frequent first, without those that clients expect."""
    found: Counter[str] = Counter()
    for row in summary.errors:
        if not is_usual(row.api_key, row.error_code):
            found[row.error_name or error_name(row.error_code)] += row.exchanges
    ranked = found.most_common()
    named = ranked[:ERRORS_NAMED]
    phrases = [TableCell(f"{format_count(count)} {terminal.escape(name)}", RED) for name, count in named]
    if len(ranked) > ERRORS_NAMED:
        left = counted(len(ranked) - ERRORS_NAMED, "more kind")
        phrases.append(TableCell(terminal.show(f"… and {left}: --full")))
    return phrases


def _software(summary: Summary, terminal: Terminal) -> list[TableCell]:
    ranked = summary.connections.software
    phrases = []
    for row in ranked[:SOFTWARE_NAMED]:
        name = terminal.escape(software_text(row.software_name, row.software_version))
        phrases.append(TableCell(f"{name} ({counted(row.connections, 'connection')})"))
    if len(ranked) > SOFTWARE_NAMED:
        left = format_count(len(ranked) - SOFTWARE_NAMED)
        phrases.append(TableCell(terminal.show(f"… and {left} more")))
    return phrases


def _quality(summary: Summary, terminal: Terminal) -> list[TableCell]:
    if not summary.doubts:
        return [TableCell(terminal.show("✓ nothing lost, everything matched and decoded"), GREEN)]
    return [TableCell(_counter(counter), YELLOW) for counter in summary.doubts]


def _counter(counter: QualityCounter) -> str:
    share = f" ({format_share(counter.count / counter.of)})" if counter.of else ""
    words = counter.name.replace("_", " ")
    if words.endswith(" bytes"):
        return f"{format_size(counter.count)} {words.removesuffix(' bytes')}{share}"
    if words.endswith("s"):
        return counted(counter.count, words.removesuffix("s")) + share
    return f"{format_count(counter.count)} {words}{share}"
