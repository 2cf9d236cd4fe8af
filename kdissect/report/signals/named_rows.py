"""Rows of a table by the names of their clients, servers or topics.

A capture has few names, and its tables have rows by the hundred thousand. A name is made once for each
distinct pair of columns that it comes from, and rows are compared by its number.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kdissect.array_types import Bools, Int64s
from kdissect.report.aggregate.grouping import TableColumns, map_distinct, name_distinct
from kdissect.report.query.topic_names import TopicNames
from kdissect.report.signals.server_names import ServerNames
from kdissect.report.wording import client_text


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
    texts, of = map_distinct(name, *map(columns.column, pair))
    names = tuple(sorted(set(texts)))
    number = {text: at for at, text in enumerate(names)}
    return NamedRows(np.array([number[text] for text in texts], np.int64)[of], names)


def named_dicts(columns: TableColumns, topics: TopicNames) -> list[dict[str, Any]]:
    """Return rows as Python has them, with the text of the `client` and the `name` of the topic of each."""
    names = columns.table.schema.names
    values = {name: columns.values(name) for name in names}
    made: tuple[tuple[str, tuple[str, str], Callable[..., str | None]], ...] = (
        ("client", ("client_id", "client_host"), client_text),
        ("name", ("topic", "topic_id"), topics.name),
    )
    for name, pair, make in made:
        if values.keys() >= set(pair):
            values[name] = name_distinct(make, *map(columns.column, pair)).tolist()
    return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]


def client_rows(columns: TableColumns) -> NamedRows:
    """Return the rows of a table with `client_id` and `client_host` by client."""
    return name_rows(columns, ("client_id", "client_host"), client_text)


def server_rows(columns: TableColumns, servers: ServerNames) -> NamedRows:
    """Return the rows of a table with `server_host` and `server_port` by server."""
    return name_rows(columns, ("server_host", "server_port"), servers.name)


def topic_rows(columns: TableColumns, topics: TopicNames) -> NamedRows:
    """Return the rows of a table with `topic` and `topic_id` by topic; `?` is one without a name."""
    return name_rows(columns, ("topic", "topic_id"), lambda *topic: topics.name(*topic) or "?")
