"""Rankings of connections that are alike, added up, are those of each connection."""

import pytest

from kdissect.report.aggregate.partial_tables import CALLS, LATENCIES, TOPIC_FLOWS
from kdissect.report.build.build_report import build_report
from kdissect.report.model.summary import CaptureFacts, ProfileBy
from kdissect.report.partials import from_arrow, summarise, to_arrow
from kdissect.report.query import alike_connections as module
from kdissect.report.query.alike_connections import add_up_alike
from kdissect.report.query.call_table import CallTable
from kdissect.report.query.connection_facts import SHARED, read_connection_facts
from tests.helpers.paper_capture import MS, partition
from tests.helpers.report_rows import FETCH, HEARTBEAT, METADATA, PRODUCE, connection, exchange_of, tables

CONNECTIONS = 24
RANKINGS = [
    ((), ()),
    (("api_key", "api_name", "api_version"), ()),
    (("client_id",), ("client_software_name", "client_host")),
    ((), ("server_host", "server_port")),
    (("group_id", "api_key"), ("client_host",)),
    (("connection",), ("client_port",)),
]


def partial_of(connections=CONNECTIONS):
    """Return figures of connections of three clients, some of which differ in port, host, end and losses."""
    ends, exchanges, parts = [], [], []
    for number in range(1, connections + 1):
        client = {"client_id": f"client-{number % 3}"}
        ends.append(
            connection(
                number,
                **client,
                client_host=f"10.1.0.{number % 2}",
                server_port=9092 + (number % 5 == 0),
                closed="open" if number % 7 == 0 else "fin",
                lost_bytes=9 * (number % 11 == 0),
                client_software_name="java" if number % 2 else None,
            )
        )
        apis = (PRODUCE, HEARTBEAT, FETCH, METADATA)[number % 2 :]
        for ordinal, api in enumerate(apis):
            more = {"status": "unanswered"} if (number + ordinal) % 6 == 0 else {}
            latency = None if more else (1 + number % 4) * MS
            group = "g" if api is HEARTBEAT else None
            exchanges.append(
                exchange_of(number, ordinal, api, ordinal, latency, **client, **more, group_id=group)
            )
        part = partition(number, 0, apis[0][0], 0, None, topic="orders")
        parts.append(part | {"records": number, "record_bytes": 80})
    exchanges.append(exchange_of(99, 0, PRODUCE, 3, 2 * MS, client_id="unknown"))
    return summarise(tables(exchanges, parts, ends))


@pytest.mark.parametrize("ranking", RANKINGS, ids=str)
def test_rankings_are_those_of_each_connection(monkeypatch, ranking):
    found = []
    for many in (False, True):
        monkeypatch.setattr(module, "are_many", lambda _rows, many=many: many)
        monkeypatch.setattr(module, "FEWER", 1)
        partial = partial_of()
        table = CallTable(partial, read_connection_facts(partial))
        ranked = table.group_by(*ranking)
        figures = [ranked.figures.of(group) for group in range(ranked.figures.groups)]
        found.append((ranked.order, ranked.keys, figures, ranked.connections.tolist(), table.service_ns))
        assert (table.added.rows < table.each.rows) == many
    assert found[0] == found[1]


@pytest.mark.parametrize("by", [*ProfileBy])
def test_reports_are_those_of_each_connection(monkeypatch, by):
    reports = []
    monkeypatch.setattr(module, "FEWER", 1)
    for many in (False, True):
        monkeypatch.setattr(module, "are_many", lambda _rows, many=many: many)
        reports.append(build_report(partial_of(), CaptureFacts(), by=by))
    assert reports[0] == reports[1]
    (topic,) = reports[0].topics
    assert sum(use.records for use in topic.uses) == sum(range(1, CONNECTIONS + 1))


@pytest.mark.parametrize("part", [CALLS, LATENCIES, TOPIC_FLOWS], ids=lambda part: part.name)
def test_each_row_goes_to_one_of_its_kind(monkeypatch, part):
    monkeypatch.setattr(module, "are_many", lambda _rows: True)
    monkeypatch.setattr(module, "FEWER", 1)
    partial = partial_of()
    facts, rows = read_connection_facts(partial), partial.columns(part)
    added = add_up_alike(part, partial, facts)
    assert added is not None
    assert added.columns.ints(part.sums[0]).sum() == rows.ints(part.sums[0]).sum()
    numbers, values = rows.ints("connection").tolist(), rows.dicts()
    lowest = {
        of: min(number for number, at in zip(numbers, added.of, strict=True) if at == of) for of in added.of
    }
    assert added.columns.ints("connection").tolist() == [lowest[at] for at in range(added.columns.rows)]
    for of, row in zip(added.of.tolist(), values, strict=True):
        for name, _ in part.keys:
            assert name == "connection" or row[name] == added.columns.values(name)[of]


def test_columns_of_rows_that_are_added_up_stay_packed(monkeypatch):
    monkeypatch.setattr(module, "are_many", lambda _rows: True)
    monkeypatch.setattr(module, "FEWER", 1)
    partial = from_arrow([to_arrow(partial_of(), packed=True)])
    assert add_up_alike(CALLS, partial, read_connection_facts(partial)) is not None
    assert list(partial.columns(CALLS).table.parts) == ["connection"]


def test_connections_that_all_differ_are_not_added_up(monkeypatch):
    monkeypatch.setattr(module, "are_many", lambda _rows: True)
    partial = partial_of(3)
    assert add_up_alike(CALLS, partial, read_connection_facts(partial)) is None


def test_connections_are_alike_if_shared_columns_and_flags_are_equal():
    ends = [connection(at, client_host="h", client_id="c") for at in (1, 2, 3)]
    ends += [connection(4, client_host="h", client_id="c", closed="open")]
    ends += [connection(5, client_host="h", client_id="c", server_port=1)]
    facts = read_connection_facts(summarise(tables([], [], ends)))
    assert facts.kinds.numbers.tolist() == [0, 0, 0, 1, 2]
    assert "client_port" not in SHARED
