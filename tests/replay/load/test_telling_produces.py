"""`replay.load.telling_produces`: retries and changes of connections, found block by block."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.load import logged_shapes, telling_produces
from kdissect.replay.load.logged_shapes import LoggedShapes
from kdissect.replay.load.request_table import COLUMNS, RequestTable
from kdissect.replay.load.shaped_messages import NONE, ProducedFacts

HOSTS = {0: "one", 1: "one", 2: "two"}  # of clients, by connection


def table_of(connections: list[int], keys: list[int]) -> RequestTable:
    columns: dict[str, Any] = {name: np.zeros(len(keys), np.int64) for name, _ in COLUMNS}
    columns |= {"connection": np.array(connections), "key": np.array(keys)}
    columns["complete"] = np.ones(len(keys), bool)
    table = RequestTable()
    table.extend(columns, ["server"], ["answered"])
    return table


def logged_of(rows: list[list[ProducedFacts]], folder: Path) -> LoggedShapes:
    lists = [[value for each in facts for value in each] for facts in rows]
    pq.write_table(pa.table({"facts": pa.array(lists, pa.list_(pa.int64()))}), folder / "rows")
    return LoggedShapes(np.zeros(len(rows), np.int32), pq.ParquetFile(folder / "rows"))


def found(table: RequestTable, logged: LoggedShapes) -> set[int]:
    parts = telling_produces.telling_produces(table, logged, HOSTS)
    return {request for requests in parts for request in requests.tolist()}


def expected(connections: list[int], rows: list[list[ProducedFacts]]) -> set[int]:
    """Return the same, row by row."""
    telling, batches, last = set[int](), dict[Any, int](), dict[Any, int]()
    for request, facts in enumerate(rows):
        for each in facts:
            host = None if each.producer >= 0 else HOSTS[connections[request]]
            batch = each.partition, each.producer, each.epoch, each.sequence
            if each.producer >= 0:
                if batch in batches:
                    telling |= {batches[batch], request}
                batches[batch] = request
            writer = each.partition, each.producer, host
            before = last.get(writer)
            if before is not None and connections[before] != connections[request]:
                telling |= {before, request}
            last[writer] = request
    return telling


@pytest.mark.parametrize("seed", range(30))
def test_telling_requests_are_found_wherever_they_lie(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = Random(seed)
    for module in (logged_shapes, telling_produces):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", 8)
    connections, keys, rows, sequence = list[int](), list[int](), list[list[ProducedFacts]](), 0
    for _ in range(60):
        connection = chance.choice([0, 0, 1, 2])
        produces = chance.random() < 0.7
        facts = []
        for _ in range(chance.randrange(1, 3) if produces else 0):
            producer = chance.choice([connection, connection, connection, 7, NONE - 1, NONE - 2])
            sequence = sequence - chance.randrange(3) if chance.random() < 0.1 else sequence + 1
            facts.append(ProducedFacts(chance.randrange(2), producer, 0, sequence, 1, 9, NONE))
        connections.append(connection)
        keys.append(ApiKey.PRODUCE if produces else ApiKey.METADATA)
        rows.append(facts)
    table, logged = table_of(connections, keys), logged_of(rows, tmp_path)
    assert found(table, logged) == expected(connections, rows) != set()


def test_every_produce_is_looked_at_if_one_tells_nothing(tmp_path: Path) -> None:
    fact = ProducedFacts(1, 5, 0, 0, 1, 9, NONE)
    table = table_of([0, 0, 0], [ApiKey.PRODUCE, ApiKey.METADATA, ApiKey.PRODUCE])
    assert found(table, logged_of([[fact], [], []], tmp_path)) == {0, 2}


def test_a_producer_that_stays_tells_nothing(tmp_path: Path) -> None:
    rows = [[ProducedFacts(1, 5, 0, number, 1, 9, NONE)] for number in range(3)]
    assert found(table_of([0] * 3, [ApiKey.PRODUCE] * 3), logged_of(rows, tmp_path)) == set()
