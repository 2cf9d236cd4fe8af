"""Rows of a table by the names of their clients, servers or topics.

A capture has few names, and its tables have rows by the hundred thousand. A name is made once for each
distinct pair of columns that it comes from, and rows are compared by its number.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.array_types import Bools, Int64s
from kdissect.report.aggregate.grouping import TableColumns, map_distinct, name_distinct
from kdissect.report.query.topic_names import TopicNames
from kdissect.report.signals.server_names import ServerNames
from kdissect.report.wording import client_text
from kdissect.tables.coded_text import CodedText, NumberColumn


class NamedRows(NamedTuple):
    """The number of the name of each row, and the names in their order, each once."""

    of: Int64s
    names: tuple[str, ...]

    def only(self, rows: Bools | Int64s) -> "NamedRows":
        """Return chosen rows. They keep their numbers."""
        return NamedRows(self.of[rows], self.names)

    def equal(self, name: str) -> Bools:
        """Return the mask of the rows that have a name."""
        mask: Bools = self.of == (self.names.index(name) if name in self.names else -1)
        return mask

    def present(self) -> list[str]:
        """Return the names that rows have, in their order."""
        return [self.names[number] for number in np.flatnonzero(self._count())]

    def busiest(self, count: Int64s, most: int) -> list[str]:
        """Return the names whose rows have the highest sums of `count`, `most` of them, in their order."""
        sums = np.where(self._count() > 0, np.bincount(self.of, count, len(self.names)), -1)
        order = np.argsort(-sums, kind="stable")[:most]
        return [self.names[number] for number in np.sort(order[sums[order] >= 0])]

    def _count(self) -> Int64s:
        return np.bincount(self.of, minlength=len(self.names))


def name_rows(columns: TableColumns, pair: tuple[str, str], name: Callable[[Any, Any], str]) -> NamedRows:
    """Return the rows of a table by the name that `name` makes of a pair of columns."""
    return rows_by_name(name, *map(columns.column, pair))


def rows_by_name(name: Callable[[Any, Any], str], *pair: pa.Array | CodedText | NumberColumn) -> NamedRows:
    """Return rows by the name that `name` makes of two columns."""
    texts, of = map_distinct(name, *pair)
    names = tuple(sorted(set(texts)))
    number = {text: at for at, text in enumerate(names)}
    return NamedRows(np.array([number[text] for text in texts], np.int64)[of], names)


class NamedColumns:
    """Columns of a table as Python has them, with the texts of each row's client and topic.

    The columns `client` and `name` (of the topic) are made of those that a table has.
    """

    def __init__(self, columns: TableColumns, topics: TopicNames) -> None:
        self._columns, self._values = columns, dict[str, list[Any]]()
        pairs: dict[str, tuple[tuple[str, str], Callable[..., str | None]]] = {
            "client": (("client_id", "client_host"), client_text),
            "name": (("topic", "topic_id"), topics.name),
        }
        own = columns.table.schema.names
        self._made = {name: made for name, made in pairs.items() if set(own).issuperset(made[0])}
        self.names = (*own, *self._made)

    def values(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """Return what each row has in some columns."""
        return zip(*map(self._column, names), strict=True)

    def dicts(self, *names: str) -> list[dict[str, Any]]:
        """Return rows with some columns or all: one of 20 takes four times as long as one of ten."""
        names = names or self.names
        return [dict(zip(names, row, strict=True)) for row in self.values(*names)]

    def _column(self, name: str) -> list[Any]:
        if name not in self._values:
            self._values[name] = (
                self._made_column(*self._made[name]) if name in self._made else (self._columns.values(name))
            )
        return self._values[name]

    def _made_column(self, pair: tuple[str, str], make: Callable[..., str | None]) -> list[Any]:
        return name_distinct(make, *map(self._columns.column, pair)).tolist()


def client_rows(columns: TableColumns) -> NamedRows:
    """Return the rows of a table with `client_id` and `client_host` by client."""
    return name_rows(columns, ("client_id", "client_host"), client_text)


def server_rows(columns: TableColumns, servers: ServerNames) -> NamedRows:
    """Return the rows of a table with `server_host` and `server_port` by server."""
    return name_rows(columns, ("server_host", "server_port"), servers.name)


def topic_rows(columns: TableColumns, topics: TopicNames) -> NamedRows:
    """Return the rows of a table with `topic` and `topic_id` by topic; `?` is one without a name."""
    return name_rows(columns, ("topic", "topic_id"), lambda *topic: topics.name(*topic) or "?")
