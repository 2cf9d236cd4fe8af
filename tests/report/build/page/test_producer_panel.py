"""Transactions of recorded producers, and gaps in sequence numbers."""

from itertools import pairwise

import pyarrow as pa

from kdissect.report.build.build_report import build_report
from kdissect.report.build.page.page_data import make_page_data
from kdissect.report.partials import (
    summarise,
)
from kdissect.report.timeline.grid import Grid
from kdissect.tables.schemas import ENDS
from tests.helpers import paper_capture, recorded


def test_transactions_as_the_clients_ended_them():
    data = recorded.data("transactions.pcapng")
    rows = {row["id"]: row for row in data["transactions"]["rows"]}
    assert rows["bank-java"]["outcomes"] == {"commit": 12, "abort": 6, "open": 0}
    for row in rows.values():
        ended = [one for one in row["transactions"] if one["to"] is not None]
        assert all(one["from"] is not None and one["from"] < one["to"] for one in ended)
        assert all(one["to"] <= after["from"] for one, after in pairwise(ended))
    producers = {row["label"]: row for row in data["producers"]["rows"]}
    assert producers["audit-python"]["records"] == 60
    assert all(row["gaps"] == [] for row in producers.values())
    assert producers["bank-java"]["errors"] == 16  # CONCURRENT_TRANSACTIONS, as the brokers' logs say


def test_a_gap_is_told():
    sequences = [(0, 10), (10, 5), (20, 5), (15, 3)]  # 18 and 19 never came
    tables = paper_capture.tables()
    rows = [
        paper_capture.exchange(1, at, paper_capture.PRODUCE, at, 1000, acks=-1, client_id="p")
        for at in range(len(sequences))
    ]
    partitions = [
        {
            "connection": 1,
            "ordinal": at,
            "api_key": 0,
            "topic": "t",
            "partition": 3,
            "error_code": 0,
            "records": records,
            "batches": 1,
            "record_bytes": 100,
            "offset": start,
            "producer_id": 9,
            "producer_epoch": 2,
            "base_sequence": start,
        }
        for at, (start, records) in enumerate(sequences)
    ]
    tables |= {
        "exchanges": pa.Table.from_pylist(rows, tables["exchanges"].schema),
        "partitions": pa.Table.from_pylist(partitions, tables["partitions"].schema),
        "ends": tables["connections"].select(ENDS.names),
    }
    partial = summarise(tables, Grid(paper_capture.T, 10**6, 100))
    data = make_page_data(
        build_report(partial, paper_capture.CAPTURE), partial, Grid(paper_capture.T, 10**6, 100)
    )
    (producer,) = data["producers"]["rows"]
    (gap,) = producer["gaps"]
    assert (gap["topic"], gap["partition"], gap["after"], gap["before"], gap["missing"]) == (
        "t",
        3,
        17,
        20,
        2,
    )
    assert gap["ref"] == rows[2]["request_packet"]
    assert producer["repeated"] == 0
