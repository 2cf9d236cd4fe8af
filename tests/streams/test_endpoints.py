"""Ends of connections as rows, as columns, and as the bytes that name them."""

import random

import numpy as np
import pyarrow as pa
import pytest

from kdissect.capture.segment_index import PIECES
from kdissect.streams import endpoints
from kdissect.streams.endpoints import (
    KEY,
    LEAST_ROWS,
    Endpoints,
    EndpointTable,
    HostTexts,
    connection_identity,
    keys_of,
)
from kdissect.text import format_ip


def some_ends(count: int) -> list[Endpoints]:
    rng = random.Random(4)
    return [
        Endpoints(rng.randbytes(16), rng.randrange(1 << 16), rng.randbytes(16), rng.randrange(1 << 16))
        for _ in range(count)
    ]


def test_a_table_returns_what_was_put() -> None:
    table, ends = EndpointTable(), some_ends(3 * LEAST_ROWS)
    identities = [connection_identity(one, row) for row, one in enumerate(ends)]
    for row in (0, 1, 2):
        table.put(np.array([row]), ends[row].key, np.array(identities[row : row + 1]))
    table.put(np.arange(3, len(ends)), np.array(ends[3:], KEY), np.array(identities[3:]))
    table.put(np.array([5]), ends[7].key, np.array([identities[7]]))  # the row of a forgotten connection
    ends[5], identities[5] = ends[7], identities[7]
    assert len(table) == len(ends)
    assert list(table) == ends == [table[row] for row in range(len(ends))]
    assert table.identities.tolist() == identities == [table.identity(row) for row in range(len(ends))]
    rows = np.array([5, 0, 100])
    assert table.column("b_port", rows).tolist() == [ends[row].b_port for row in rows]
    assert table.keys(rows).tolist() == [ends[row] for row in rows]
    assert table.column("a_host", rows).tolist() == [ends[row].a_host for row in rows]


def test_hosts_have_numbers_and_each_number_its_text() -> None:
    hosts = HostTexts()
    known = [bytes(10) + b"\xff\xff" + bytes([10, 1, 0, last]) for last in (1, 2, 1)] + [bytes(15) + b"\x01"]
    assert hosts.numbers(np.array(known[:3], "V16")).tolist() == [0, 1, 0]
    assert hosts.texts.to_pylist() == ["10.1.0.1", "10.1.0.2"]
    assert hosts.numbers(np.array(known[1:], "V16")).tolist() == [1, 0, 2]
    assert hosts.texts.to_pylist() == ["10.1.0.1", "10.1.0.2", "::1"]


def test_a_row_has_the_numbers_of_its_hosts() -> None:
    table, ends = EndpointTable(), some_ends(3)
    table.put(np.arange(3), np.array(ends, KEY), np.arange(3))
    table.put(np.array([1]), ends[2].key, np.array([7]))
    ends[1] = ends[2]
    rows, texts = np.arange(3), table.hosts.texts.to_pylist()
    for side in ("a", "b"):
        numbers = table.column(f"{side}_number", rows).tolist()
        assert [texts[number] for number in numbers] == [
            format_ip(getattr(one, f"{side}_host")) for one in ends
        ]


def test_hosts_of_forgotten_connections_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "SPARE_HOSTS", 10)
    table, ends = EndpointTable(), some_ends(100)
    table.put(np.arange(2), np.array(ends[:2], KEY), np.arange(2))
    for one in ends[2:]:
        table.put(np.array([1]), one.key, np.array([1]))
        assert len(table.hosts) <= 10 + 2 * len(table)
    texts, kept = table.hosts.texts.to_pylist(), [ends[0], ends[-1]]
    numbers = table.column("a_number", np.arange(2)).tolist()
    assert [texts[number] for number in numbers] == [format_ip(one.a_host) for one in kept]


def test_keys_of_pieces_are_those_of_their_endpoints() -> None:
    ends = some_ends(20)
    columns = {name: pa.array(values, PIECES.field(name).type) for name, values in _by_name(ends).items()}
    pieces = pa.record_batch(columns)
    assert keys_of(pieces).tolist() == ends == [one.key[0].item() for one in ends]
    assert keys_of(pieces.slice(3, 5)).tolist() == ends[3:8]


def _by_name(ends: list[Endpoints]) -> dict[str, list[object]]:
    return dict(zip(Endpoints._fields, map(list, zip(*ends, strict=True)), strict=True))
