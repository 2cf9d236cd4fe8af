"""Who writes and reads: against the tables row by row."""

from collections import defaultdict

import numpy as np
import pytest

from kdissect.report.build.build_report import build_report
from kdissect.report.build.find_topic_clients import find_topic_clients
from kdissect.report.model.summary import CaptureFacts
from kdissect.report.partials import summarise
from tests.helpers import paper_capture
from tests.helpers import synthetic_tables as synthetic


def test_on_paper():
    summary = build_report(summarise(paper_capture.tables()), paper_capture.CAPTURE)
    (orders,) = find_topic_clients(summary, "ord*")
    (writer,), (reader,) = orders.writers, orders.readers
    assert (writer.client.name.client_id, writer.client.records) == ("orders-app", 161)
    assert (writer.client.first_time_ns, writer.client.last_time_ns) == (
        paper_capture.T,
        paper_capture.T + 400 * paper_capture.MS,
    )
    assert (reader.client.name.client_software_version, reader.client.records) == ("3.9.0", 150)
    seconds = (summary.totals.last_time_ns - summary.totals.first_time_ns) / 1e9
    assert writer.records_per_s == pytest.approx(161 / seconds)
    assert find_topic_clients(summary, "nothing") == ()


def test_against_the_rows():
    tables = synthetic.tables(np.random.default_rng(8), 1500)
    names = {row["topic_id"]: row["topic"] for row in tables["names"].to_pylist()}
    exchanges = {
        (row["connection"], row["ordinal"]): row
        for row in tables["exchanges"].to_pylist()
        if row["ordinal"] is not None
    }
    records, times = defaultdict(int), defaultdict(list)
    for row in tables["partitions"].to_pylist():
        topic = row["topic"] or names.get(row["topic_id"], row["topic_id"])
        exchange = exchanges.get((row["connection"], row["ordinal"]))
        if row["api_key"] in (0, 1) and exchange is not None and topic is not None:
            key = (topic, row["api_key"], exchange["client_id"])
            records[key] += max(row["records"] or 0, 0)
            times[key].append(exchange["request_first_ns"])
    found, spans = defaultdict(int), {}
    for ends in find_topic_clients(build_report(summarise(tables), CaptureFacts()), "*"):
        for key, side in ((0, ends.writers), (1, ends.readers)):
            for end in side:
                client = end.client
                where = (ends.topic, key, client.name.client_id)
                found[where] += client.records
                low, high = spans.get(where, (client.first_time_ns, client.last_time_ns))
                spans[where] = (min(low, client.first_time_ns), max(high, client.last_time_ns))
    assert {key: count for key, count in found.items() if key in records} == dict(records)
    assert {key: spans[key] for key in times} == {key: (min(all_), max(all_)) for key, all_ in times.items()}
