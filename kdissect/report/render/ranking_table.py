"""The rankings of the terminal report: APIs, idle waits, clients, brokers, topics."""

from collections.abc import Sequence

from kdissect.protocol.api_keys import ApiKey
from kdissect.report.model.summary import (
    ApiRow,
    ClientName,
    Figures,
    Summary,
    TopicRow,
    TopicUse,
)
from kdissect.report.render.table import (
    CYAN,
    DIM,
    RED,
    TableCell,
    TableColumn,
    Terminal,
    heading,
    table_lines,
)
from kdissect.report.render.table_cells import (
    LATENCY_COLUMNS,
    count_cell,
    doubtful,
    duration_cell,
    error_cell,
    histogram_cell,
    histogram_column,
    latency_cells,
    share_cell,
    size_cell,
    unanswered_cell,
)
from kdissect.text import (
    format_count,
    format_duration,
    format_share,
)

APIS_SHOWN, IDLE_SHOWN, CLIENTS_SHOWN, BROKERS_SHOWN, TOPICS_SHOWN = 12, 6, 8, 8, 8


def api_label(name: str | None, version: int | None, key: int | None = None) -> str:
    """Give Produce v9; an API without a name by its key, an answer without request as such."""
    if name is None and key is None:
        return "(answers only)"
    return f"{name or f'API {key}'}" + ("" if version is None else f" v{version}")


def more(total: int, shown: int, what: str, terminal: Terminal) -> list[str]:
    """Give the line that says how many rows a table leaves out."""
    left = 0 if terminal.whole else total - shown
    return (
        [" " + terminal.paint(terminal.own(f"… and {format_count(left)} more {what}"), DIM)]
        if left > 0
        else []
    )


def _api_cell(row: ApiRow, terminal: Terminal) -> TableCell:
    return TableCell(
        doubtful(terminal.captured(api_label(row.api_name, row.api_version, row.api_key)), row.figures), CYAN
    )


def api_versions(summary: Summary, terminal: Terminal) -> list[str]:
    """Give APIs and their versions by total service time."""
    if not summary.totals.exchanges:
        return []
    columns = (
        TableColumn("API", right=False, shortest=14), TableColumn("calls"), TableColumn("time"), *LATENCY_COLUMNS, TableColumn("errors"),
        TableColumn("no answer", drop=7), TableColumn("requests", drop=8), TableColumn("responses", drop=8),
        histogram_column(terminal),
    )  # fmt: skip
    rows = [
        [
            _api_cell(row, terminal), TableCell(format_count(row.figures.exchanges)), share_cell(row.figures.time_share),
            *latency_cells(row.figures.service, terminal), error_cell(row.figures), unanswered_cell(row.figures),
            size_cell(row.figures.request_bytes), size_cell(row.figures.response_bytes),
            histogram_cell(row.figures.service, terminal),
        ]
        for row in summary.apis[: terminal.shown(APIS_SHOWN)]
    ]  # fmt: skip
    lines = [
        heading("API versions", "by service time", terminal),
        *table_lines(columns, rows, terminal),
    ]
    return lines + more(len(summary.apis), APIS_SHOWN, "API versions", terminal)


def idle_waits(summary: Summary, terminal: Terminal) -> list[str]:
    """Give long polls and waits for group members, which are no service time."""
    waiting = [row for row in summary.apis if row.figures.idle]
    if not waiting:
        return []
    waiting.sort(key=lambda row: -(row.figures.idle.sum_ns if row.figures.idle else 0))
    columns = (
        TableColumn("API", right=False, shortest=14),
        TableColumn("waits"),
        TableColumn("in all"),
        *LATENCY_COLUMNS,
        histogram_column(terminal),
    )
    rows = [
        [
            _api_cell(row, terminal), TableCell(format_count(row.figures.idle.count if row.figures.idle else 0)),
            TableCell(terminal.own(format_duration(row.figures.idle.sum_ns if row.figures.idle else 0))),
            *(TableCell(cell.text, DIM if cell.style == DIM else "") for cell in latency_cells(row.figures.idle, terminal)),
            histogram_cell(row.figures.idle, terminal),
        ]
        for row in waiting[: terminal.shown(IDLE_SHOWN)]
    ]  # fmt: skip
    lines = [heading("Idle waits", "long polls without data, joins and syncs: not service time", terminal)]
    return (
        lines
        + table_lines(columns, rows, terminal)
        + more(len(waiting), IDLE_SHOWN, "API versions", terminal)
    )


def client_label(name: ClientName, terminal: Terminal) -> str:
    """Give a client by its id."""
    return terminal.captured(name.client_id) if name.client_id is not None else "(no client id)"


def software_label(name: ClientName, terminal: Terminal) -> str:
    """Give software and version, a dash for unknown."""
    if name.client_software_name is None:
        return "-"
    return terminal.captured(f"{name.client_software_name} {name.client_software_version or ''}".strip())


def clients(summary: Summary, terminal: Terminal) -> list[str]:
    """Give clients by service time."""
    if not summary.clients:
        return []
    columns = (
        TableColumn("client", right=False, shortest=14), TableColumn("software", right=False, drop=4, shortest=10),
        TableColumn("host", right=False, drop=3, shortest=11), TableColumn("conns", drop=8), *FIGURE_COLUMNS,
    )  # fmt: skip
    rows = [
        [
            TableCell(doubtful(client_label(row.name, terminal), row.figures), CYAN), TableCell(software_label(row.name, terminal)),
            TableCell(terminal.captured(row.name.client_host)), TableCell(format_count(row.connections)),
            *figure_cells(row.figures, terminal),
        ]
        for row in summary.clients[: terminal.shown(CLIENTS_SHOWN)]
    ]  # fmt: skip
    total = len(summary.clients) + summary.omitted.clients
    lines = [heading("Clients", "by service time", terminal), *table_lines(columns, rows, terminal)]
    return lines + more(total, CLIENTS_SHOWN, "clients", terminal)


def brokers(summary: Summary, terminal: Terminal) -> list[str]:
    """Give brokers by service time."""
    if not summary.brokers:
        return []
    columns = (
        TableColumn("broker", right=False, shortest=14), TableColumn("node", drop=3), TableColumn("conns", drop=8), *FIGURE_COLUMNS
    )  # fmt: skip
    rows = []
    for row in summary.brokers[: terminal.shown(BROKERS_SHOWN)]:
        address = host_port(row.server_host, row.server_port, terminal)
        node = TableCell("-", DIM) if row.node_id is None else TableCell(str(row.node_id))
        rows.append(
            [
                TableCell(doubtful(address, row.figures), CYAN),
                node,
                TableCell(format_count(row.connections)),
                *figure_cells(row.figures, terminal),
            ]
        )
    total = len(summary.brokers) + summary.omitted.brokers
    lines = [heading("Brokers", "by service time", terminal), *table_lines(columns, rows, terminal)]
    return lines + more(total, BROKERS_SHOWN, "brokers", terminal)


def host_port(host: str | None, port: int | None, terminal: Terminal) -> str:
    """Give 10.0.0.1:9092 or [::1]:9092."""
    shown = terminal.captured(host)
    return f"[{shown}]:{port}" if ":" in shown else f"{shown}:{port}" if port is not None else shown


FIGURE_COLUMNS = (
    TableColumn("calls"), TableColumn("time"), LATENCY_COLUMNS[0]._replace(drop=9), LATENCY_COLUMNS[1],
    LATENCY_COLUMNS[2]._replace(drop=5), LATENCY_COLUMNS[3], LATENCY_COLUMNS[4]._replace(drop=5), LATENCY_COLUMNS[5],
    TableColumn("errors"), TableColumn("no answer", drop=6), TableColumn("throttled", drop=7), TableColumn("requests", drop=10),
    TableColumn("responses", drop=10),
)  # fmt: skip


def figure_cells(figures: Figures, terminal: Terminal) -> list[TableCell]:
    """Give the cells of `FIGURE_COLUMNS`."""
    return [
        TableCell(format_count(figures.exchanges)), share_cell(figures.time_share), *latency_cells(figures.service, terminal),
        error_cell(figures), unanswered_cell(figures), count_cell(figures.throttled, RED),
        size_cell(figures.request_bytes), size_cell(figures.response_bytes),
    ]  # fmt: skip


TOPIC_COLUMNS = (
    TableColumn("topic", right=False, shortest=14), TableColumn("parts", drop=8),
    TableColumn("written"), TableColumn("bytes", drop=4), TableColumn("p50", drop=9), TableColumn("p99", drop=5), TableColumn("codec", right=False, drop=6),
    TableColumn("writers", right=False, drop=7, shortest=10),
    TableColumn("read"), TableColumn("bytes", drop=4), TableColumn("p50", drop=9), TableColumn("p99", drop=5),
    TableColumn("readers", right=False, drop=7, shortest=10), TableColumn("errors"),
)  # fmt: skip


def topics(summary: Summary, terminal: Terminal) -> list[str]:
    """Give topics by record bytes: written and read records, latencies of Produce and Fetch that name them, clients."""
    if not summary.topics:
        return []
    rows = [_topic_row(topic, terminal) for topic in summary.topics[: terminal.shown(TOPICS_SHOWN)]]
    total = len(summary.topics) + summary.omitted.topics
    note = "by bytes of records, with latencies of Produce and of Fetch"
    lines = [heading("Topics", note, terminal), *table_lines(TOPIC_COLUMNS, rows, terminal)]
    return lines + more(total, TOPICS_SHOWN, "topics", terminal)


def _topic_row(topic: TopicRow, terminal: Terminal) -> list[TableCell]:
    uses = {use.api_key: use for use in topic.uses}
    write, read = uses.get(ApiKey.PRODUCE), uses.get(ApiKey.FETCH)
    codecs = write.codecs if write and write.codecs else read.codecs if read else {}
    label = terminal.captured(topic.topic) + ("" if topic.resolved else " (id)")
    return [
        TableCell(label, CYAN), TableCell(format_count(topic.partitions)),
        *_volume(write, terminal), TableCell(_codecs(codecs, terminal)), _users(write, terminal),
        *_volume(read, terminal), _users(read, terminal), count_cell(sum(use.errors for use in topic.uses), RED),
    ]  # fmt: skip


def _volume(use: TopicUse | None, terminal: Terminal) -> list[TableCell]:
    if use is None:
        return [TableCell("-", DIM)] * 4
    waits = use.service
    return [
        count_cell(use.records), size_cell(use.record_bytes),
        duration_cell(waits.p50_ns if waits else None, terminal), duration_cell(waits.p99_ns if waits else None, terminal),
    ]  # fmt: skip


def _codecs(codecs: dict[str, int], terminal: Terminal) -> str:
    ranked = sorted(codecs.items(), key=lambda row: (-row[1], row[0]))
    total = sum(codecs.values())
    if not ranked:
        return "-"
    first = terminal.captured(ranked[0][0])
    return first if len(ranked) == 1 else f"{first} {format_share(ranked[0][1] / max(total, 1))}"


def _users(use: TopicUse | None, terminal: Terminal) -> TableCell:
    if use is None or not use.clients:
        return TableCell("-", DIM)
    names: Sequence[str] = list(dict.fromkeys(client_label(client.name, terminal) for client in use.clients))
    return TableCell(names[0] + (f" +{len(names) - 1}" if len(names) > 1 else ""))
