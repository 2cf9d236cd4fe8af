"""The rankings of a report as tables: API versions, idle waits, clients, brokers, topics."""

from kdissect.protocol.api_keys import ApiKey
from kdissect.report.model.summary import ApiRow, Summary, TopicRow, TopicUse
from kdissect.report.render.cells import (
    FIGURE_COLUMNS,
    LATENCY_COLUMNS,
    address_text,
    api_text,
    client_text,
    count_cell,
    duration_cell,
    error_cell,
    figure_cells,
    histogram_cell,
    histogram_column,
    latency_cells,
    name_cell,
    share_cell,
    size_cell,
    software_cell,
    unanswered_cell,
)
from kdissect.report.render.table import (
    TableCell,
    TableColumn,
    heading,
    omitted_lines,
    table_lines,
)
from kdissect.report.render.terminal import CYAN, DIM, RED, Terminal
from kdissect.text import format_count, format_duration, format_share

APIS_SHOWN, IDLE_SHOWN, CLIENTS_SHOWN, BROKERS_SHOWN, TOPICS_SHOWN = 12, 6, 8, 8, 8

CLIENT_COLUMNS = (
    TableColumn("client", right=False, shortest=14),
    TableColumn("software", right=False, drop=4, shortest=10),
    TableColumn("host", right=False, drop=3, shortest=11),
    TableColumn("conns", drop=8),
    *FIGURE_COLUMNS,
)
BROKER_COLUMNS = (
    TableColumn("broker", right=False, shortest=14),
    TableColumn("node", drop=3),
    TableColumn("conns", drop=8),
    *FIGURE_COLUMNS,
)
TOPIC_COLUMNS = (
    TableColumn("topic", right=False, shortest=14),
    TableColumn("parts", drop=8),
    TableColumn("written"),
    TableColumn("bytes", drop=4),
    TableColumn("p50", drop=9),
    TableColumn("p99", drop=5),
    TableColumn("codec", right=False, drop=6),
    TableColumn("writers", right=False, drop=7, shortest=10),
    TableColumn("read"),
    TableColumn("bytes", drop=4),
    TableColumn("p50", drop=9),
    TableColumn("p99", drop=5),
    TableColumn("readers", right=False, drop=7, shortest=10),
    TableColumn("errors"),
)


def _api_cell(row: ApiRow, terminal: Terminal) -> TableCell:
    return name_cell(api_text(row.api_name, row.api_version, row.api_key, terminal), row.figures.doubtful)


def api_versions(summary: Summary, terminal: Terminal) -> list[str]:
    """Return the lines of APIs and their versions by service time; none without exchanges."""
    if not summary.totals.exchanges:
        return []
    columns = (
        TableColumn("API", right=False, shortest=14),
        TableColumn("calls"),
        TableColumn("time"),
        *LATENCY_COLUMNS,
        TableColumn("errors"),
        TableColumn("no resp.", drop=7),
        TableColumn("requests", drop=8),
        TableColumn("responses", drop=8),
        histogram_column(terminal),
    )
    rows = [
        [
            _api_cell(row, terminal),
            TableCell(format_count(row.figures.exchanges)),
            share_cell(row.figures.time_share),
            *latency_cells(row.figures.service, terminal),
            error_cell(row.figures),
            unanswered_cell(row.figures),
            size_cell(row.figures.request_bytes),
            size_cell(row.figures.response_bytes),
            histogram_cell(row.figures.service, terminal),
        ]
        for row in summary.apis[: terminal.row_limit(APIS_SHOWN)]
    ]
    return [
        heading("API versions", "by service time", terminal),
        *table_lines(columns, rows, terminal),
        *omitted_lines(len(summary.apis), APIS_SHOWN, "API version", terminal),
    ]


def idle_waits(summary: Summary, terminal: Terminal) -> list[str]:
    """Return the lines of long polls and waits for group members, which are not service time."""
    waits = [(row, row.figures.idle) for row in summary.apis if row.figures.idle]
    if not waits:
        return []
    waits.sort(key=lambda wait: -wait[1].sum_ns)
    columns = (
        TableColumn("API", right=False, shortest=14),
        TableColumn("waits"),
        TableColumn("in all"),
        *LATENCY_COLUMNS,
        histogram_column(terminal),
    )
    rows = [
        [
            _api_cell(row, terminal),
            TableCell(format_count(idle.count)),
            TableCell(terminal.show(format_duration(idle.sum_ns))),
            *(cell if cell.style == DIM else TableCell(cell.text) for cell in latency_cells(idle, terminal)),
            histogram_cell(idle, terminal),
        ]
        for row, idle in waits[: terminal.row_limit(IDLE_SHOWN)]
    ]
    return [
        heading("Idle waits", "long polls without data, joins and syncs: not service time", terminal),
        *table_lines(columns, rows, terminal),
        *omitted_lines(len(waits), IDLE_SHOWN, "API version", terminal),
    ]


def clients(summary: Summary, terminal: Terminal) -> list[str]:
    """Return the lines of clients by service time; none without clients."""
    if not summary.clients:
        return []
    rows = [
        [
            name_cell(client_text(row.name, terminal), row.figures.doubtful),
            software_cell(row.name, terminal),
            TableCell(terminal.escape(row.name.client_host)),
            TableCell(format_count(row.connections)),
            *figure_cells(row.figures, terminal),
        ]
        for row in summary.clients[: terminal.row_limit(CLIENTS_SHOWN)]
    ]
    return [
        heading("Clients", "by service time", terminal),
        *table_lines(CLIENT_COLUMNS, rows, terminal),
        *omitted_lines(len(summary.clients) + summary.omitted.clients, CLIENTS_SHOWN, "client", terminal),
    ]


def brokers(summary: Summary, terminal: Terminal) -> list[str]:
    """Return the lines of brokers by service time; none without brokers."""
    if not summary.brokers:
        return []
    rows = [
        [
            name_cell(address_text(row.server_host, row.server_port, terminal), row.figures.doubtful),
            TableCell("-", DIM) if row.node_id is None else TableCell(str(row.node_id)),
            TableCell(format_count(row.connections)),
            *figure_cells(row.figures, terminal),
        ]
        for row in summary.brokers[: terminal.row_limit(BROKERS_SHOWN)]
    ]
    return [
        heading("Brokers", "by service time", terminal),
        *table_lines(BROKER_COLUMNS, rows, terminal),
        *omitted_lines(len(summary.brokers) + summary.omitted.brokers, BROKERS_SHOWN, "broker", terminal),
    ]


def topics(summary: Summary, terminal: Terminal) -> list[str]:
    """Return the lines of topics by record bytes: records, latencies and clients of Produce and of Fetch."""
    if not summary.topics:
        return []
    rows = [_topic_row(topic, terminal) for topic in summary.topics[: terminal.row_limit(TOPICS_SHOWN)]]
    return [
        heading("Topics", "by record bytes, with latencies of Produce and Fetch", terminal),
        *table_lines(TOPIC_COLUMNS, rows, terminal),
        *omitted_lines(len(summary.topics) + summary.omitted.topics, TOPICS_SHOWN, "topic", terminal),
    ]


def _topic_row(topic: TopicRow, terminal: Terminal) -> list[TableCell]:
    uses = {use.api_key: use for use in topic.uses}
    produce, fetch = uses.get(ApiKey.PRODUCE), uses.get(ApiKey.FETCH)
    codecs = produce.codecs if produce and produce.codecs else fetch.codecs if fetch else {}
    return [
        TableCell(terminal.escape(topic.topic) + ("" if topic.resolved else " (id)"), CYAN),
        TableCell(format_count(topic.partitions)),
        *_volume_cells(produce, terminal),
        TableCell(_codecs(codecs, terminal)),
        _clients_cell(produce, terminal),
        *_volume_cells(fetch, terminal),
        _clients_cell(fetch, terminal),
        count_cell(sum(use.errors for use in topic.uses), RED),
    ]


def _volume_cells(use: TopicUse | None, terminal: Terminal) -> list[TableCell]:
    if use is None:
        return [TableCell("-", DIM)] * 4
    return [
        count_cell(use.records),
        size_cell(use.record_bytes),
        duration_cell(use.service.p50_ns if use.service else None, terminal),
        duration_cell(use.service.p99_ns if use.service else None, terminal),
    ]


def _codecs(codecs: dict[str, int], terminal: Terminal) -> str:
    """Return the codec with the most bytes, and its share if there are others."""
    ranked = sorted(codecs.items(), key=lambda row: (-row[1], row[0]))
    if not ranked:
        return "-"
    first = terminal.escape(ranked[0][0])
    return (
        first if len(ranked) == 1 else f"{first} {format_share(ranked[0][1] / max(sum(codecs.values()), 1))}"
    )


def _clients_cell(use: TopicUse | None, terminal: Terminal) -> TableCell:
    """Return the first client, and how many others there are."""
    if use is None or not use.clients:
        return TableCell("-", DIM)
    names = list(dict.fromkeys(client_text(client.name, terminal) for client in use.clients))
    return TableCell(names[0] + (f" +{len(names) - 1}" if len(names) > 1 else ""))
