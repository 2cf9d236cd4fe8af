"""Which Produce requests of a log have to be looked at, since they may be retries or tell an order.

In: the facts of all requests (`ProducedFacts`), which are read twice. Out: the requests whose producer wrote
the same sequence number twice, and those before and after which a producer changed the connection.

The first reading finds candidates by hashes: numbers that come twice, and producers with several connections
to a partition. Only these are kept by the second one, and compared.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdissect.array_types import Int64s
from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.load.logged_shapes import LoggedShapes
from kdissect.replay.load.request_table import ROWS_AT_ONCE, RequestTable
from kdissect.replay.load.shaped_messages import MIX, NONE, PRODUCED, ProducedFacts
from kdissect.tables.column_values import run_starts

SHIFT = np.uint64(29)  # brings high bits of a hash to the low ones
EMPTY = np.zeros(0, np.int64)


class ProducedRows(NamedTuple):
    """Facts of partitions in Produce requests, as columns."""

    partition: Int64s
    producer: Int64s
    epoch: Int64s
    sequence: Int64s
    host: Int64s  # a number for the host of a client without an id; NONE with one
    connection: Int64s
    request: Int64s

    def some(self, rows: Int64s | NDArray[np.bool_]) -> "ProducedRows":
        """Return some of the rows."""
        return ProducedRows(*(column[rows] for column in self))

    def written(self) -> Int64s:
        """Return a hash of what tells a batch: its partition, producer, epoch and sequence number."""
        return _hash(self.partition, self.producer, self.epoch, self.sequence)

    def writer(self) -> Int64s:
        """Return a hash of partition and producer."""
        return _hash(self.partition, self.producer, self.host)

    def is_numbered(self) -> NDArray[np.bool_]:
        """Return which rows have a producer with an id."""
        numbered: NDArray[np.bool_] = self.producer >= 0
        return numbered


def telling_produces(table: RequestTable, logged: LoggedShapes, hosts: Mapping[int, str]) -> Iterator[Int64s]:
    """Yield the requests that have to be looked at: all Produce requests if one of them has no facts.

    `hosts` are those of clients, by connection.
    """
    written, connections = bytearray(), _WriterConnections()
    for rows in _rows(table, logged, hosts):
        if rows is None:
            yield from _produces(table)
            return
        written += rows.written()[rows.is_numbered()].tobytes()
        connections.add(rows.writer(), rows.connection)
    numbers = np.frombuffer(written, np.int64)
    numbers.sort()
    twice, moved = np.unique(numbers[1:][numbers[1:] == numbers[:-1]]), connections.several()
    if not len(twice) and not len(moved):
        return
    again, changes = list[ProducedRows](), list[ProducedRows]()
    for rows in _rows(table, logged, hosts):
        assert rows is not None
        again.append(rows.some(rows.is_numbered() & np.isin(rows.written(), twice)))
        changes.append(_ends_of_runs(rows.some(np.isin(rows.writer(), moved))))
    yield _repeated(ProducedRows(*map(np.concatenate, zip(*again, strict=True))))
    yield _moved(ProducedRows(*map(np.concatenate, zip(*changes, strict=True))))


class _WriterConnections:
    """The least and the largest connection of each writer of a partition, by its hash."""

    def __init__(self) -> None:
        self._known = EMPTY, EMPTY, EMPTY  # writers in their order, least and largest connections
        self._new: list[tuple[Int64s, Int64s]] = []
        self._rows = 0  # of what is new

    def add(self, writers: Int64s, connections: Int64s) -> None:
        self._new.append((writers, connections))
        self._rows += len(writers)
        if self._rows > max(ROWS_AT_ONCE, len(self._known[0])):
            self._merge()

    def several(self) -> Int64s:
        """Return the writers with several connections."""
        self._merge()
        writers, least, largest = self._known
        found: Int64s = writers[least != largest]
        return found

    def _merge(self) -> None:
        known, least, largest = self._known
        writers = np.concatenate([known, *(each for each, _ in self._new)])
        connections = [each for _, each in self._new]
        order = np.argsort(writers)
        writers = writers[order]
        starts = run_starts(writers)
        if len(starts):
            self._known = (
                writers[starts],
                np.minimum.reduceat(np.concatenate([least, *connections])[order], starts),
                np.maximum.reduceat(np.concatenate([largest, *connections])[order], starts),
            )
        self._new, self._rows = [], 0


def _rows(
    table: RequestTable, logged: LoggedShapes, hosts: Mapping[int, str]
) -> Iterator[ProducedRows | None]:
    """Yield the facts of all Produce requests, of many at a time; None if one of them has none."""
    numbers = {name: number for number, name in enumerate(sorted(set(hosts.values())))}
    for facts, produces in zip(logged.facts(), _produces(table), strict=True):
        chosen = produces[table.column("version", *_range(produces))[produces - _range(produces)[0]] >= 0]
        if (facts.counts(chosen) == 0).any():
            yield None
        rows, requests = facts.rows(chosen, PRODUCED)
        columns = ProducedFacts(*rows.T)
        first, stop = _range(requests)
        connections = table.column("connection", first, stop)[requests - first]
        each, place = np.unique(connections, return_inverse=True)
        host = np.array([numbers.get(hosts.get(one, ""), NONE) for one in each.tolist()], np.int64)[place]
        host[columns.producer >= 0] = NONE
        yield ProducedRows(
            columns.partition,
            columns.producer,
            columns.epoch,
            columns.sequence,
            host,
            connections,
            requests,
        )


def _produces(table: RequestTable) -> Iterator[Int64s]:
    """Yield the whole Produce requests, of as many requests at a time as `LoggedShapes.facts`."""
    for begin in range(0, len(table), ROWS_AT_ONCE):
        keys, complete = (table.column(name, begin, begin + ROWS_AT_ONCE) for name in ("key", "complete"))
        yield begin + np.flatnonzero((keys == ApiKey.PRODUCE) & complete)


def _range(requests: Int64s) -> tuple[int, int]:
    """Return the first of some requests in order, and what follows the last."""
    return (int(requests[0]), int(requests[-1]) + 1) if len(requests) else (0, 0)


def _hash(*columns: Int64s) -> Int64s:
    """Return a hash of each row."""
    hashes = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        hashes = ((hashes ^ (hashes >> SHIFT)) + column.astype(np.uint64)) * MIX
    return hashes.view(np.int64)


def _repeated(rows: ProducedRows) -> Int64s:
    """Return the requests of equal batches."""
    keys = rows.sequence, rows.partition, rows.epoch, rows.producer
    order = np.lexsort(keys)
    equal = np.flatnonzero(_equal_neighbours(keys, order))
    repeated: Int64s = rows.request[np.concatenate([order[equal], order[equal + 1]])]
    return repeated


def _moved(rows: ProducedRows) -> Int64s:
    """Return the requests before and after which a producer changed the connection."""
    order, same = _by_writer(rows)
    connections = rows.connection[order]
    changes = np.flatnonzero(same & (connections[1:] != connections[:-1]))
    moved: Int64s = rows.request[np.concatenate([order[changes], order[changes + 1]])]
    return moved


def _ends_of_runs(rows: ProducedRows) -> ProducedRows:
    """Return of the rows of one writer that follow each other on one connection the first and the last."""
    order, same = _by_writer(rows)
    connections = rows.connection[order]
    same &= connections[1:] == connections[:-1]
    inside = np.append(False, same)[: len(order)] & np.append(same, False)[: len(order)]
    return rows.some(order[~inside])


def _by_writer(rows: ProducedRows) -> tuple[Int64s, NDArray[np.bool_]]:
    """Return rows in the order of writers and requests, and which but the first has the writer before it."""
    keys = rows.partition, rows.host, rows.producer
    order = np.lexsort([rows.request, *keys])
    return order, _equal_neighbours(keys, order)


def _equal_neighbours(columns: tuple[Int64s, ...], order: Int64s) -> NDArray[np.bool_]:
    """Return for each row but the first, in some order, whether it equals the one before in all columns."""
    same = np.ones(max(len(order) - 1, 0), bool)
    for column in columns:
        sorted_column = column[order]
        same &= sorted_column[1:] == sorted_column[:-1]
    return same
