"""Ends of connections as rows, as columns, and as the bytes that name them."""

import random

import numpy as np
import pyarrow as pa

from kdissect.capture.segment_index import PIECES
from kdissect.streams.endpoints import KEY, LEAST_ROWS, Endpoints, EndpointTable, connection_identity, keys_of


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


def test_keys_of_pieces_are_those_of_their_endpoints() -> None:
    ends = some_ends(20)
    columns = {name: pa.array(values, PIECES.field(name).type) for name, values in _by_name(ends).items()}
    pieces = pa.record_batch(columns)
    assert keys_of(pieces).tolist() == ends == [one.key[0].item() for one in ends]
    assert keys_of(pieces.slice(3, 5)).tolist() == ends[3:8]


def _by_name(ends: list[Endpoints]) -> dict[str, list[object]]:
    return dict(zip(Endpoints._fields, map(list, zip(*ends, strict=True)), strict=True))
