"""Calls of a whole capture, and their figures by any columns of the calls and of their connections."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from kdissect.array_types import Int64s
from kdissect.report.aggregate.grouping import Codes, RowGroups, TableColumns, encode, group_rows
from kdissect.report.aggregate.partial_tables import CALLS, LATENCIES
from kdissect.report.model.call_figures import Figures
from kdissect.report.partials import CONNECTION, Partial
from kdissect.report.query.alike_connections import add_up_alike
from kdissect.report.query.connection_facts import SHARED, ConnectionFacts
from kdissect.report.query.figures import GroupFigures, group_figures
from kdissect.tables.array_batch import join_columns
from kdissect.tables.coded_text import CodedText, code_text


class RankedGroups:
    """Figures by group, the order of the groups, and by group its keys (a list for each column)."""

    def __init__(
        self, figures: GroupFigures, keys: list[list[Any]], group: Int64s, connection: Codes
    ) -> None:
        self.figures, self.keys, self.order = figures, keys, figures.order()
        self._group, self._connection = group, connection  # of each call

    @cached_property
    def connections(self) -> Int64s:
        """Return the number of connections of each group."""
        pairs = group_rows(Codes(self._group, self.figures.groups), self._connection)
        return np.bincount(self._group[pairs.first], minlength=self.figures.groups)


class CallTable:
    """The calls of a capture and the latencies of the same calls, ready to be grouped."""

    def __init__(self, partial: Partial, facts: ConnectionFacts) -> None:
        self._partial, self._facts = partial, facts

    @property
    def each(self) -> TableColumns:
        """Return the calls of each connection, in any order."""
        return self._partial.columns(CALLS)

    @property
    def added(self) -> TableColumns:
        """Return the calls, of connections that are alike added up if they are many."""
        return self._alike.calls

    @cached_property
    def _alike(self) -> "_Calls":
        calls = add_up_alike(CALLS, self._partial, self._facts)
        if calls is None:
            return self._single
        latencies = add_up_alike(LATENCIES, self._partial, self._facts)
        return _Calls(
            self._facts,
            calls.columns,
            self._partial.columns(LATENCIES) if latencies is None else latencies.columns,
            calls.of,
            encode(self.each.column(CONNECTION)),
        )

    @cached_property
    def _single(self) -> "_Calls":
        calls = self._partial.ordered(CALLS)
        of = np.arange(calls.rows)
        return _Calls(
            self._facts, calls, self._partial.columns(LATENCIES), of, encode(calls.column(CONNECTION))
        )

    def group_by(
        self, call_columns: Sequence[str] = (), connection_columns: Sequence[str] = ()
    ) -> RankedGroups:
        """Return figures by columns of the calls and of their connections; no columns: one group of all."""
        are_shared = CONNECTION not in call_columns and set(SHARED).issuperset(connection_columns)
        return (self._alike if are_shared else self._single).group_by(call_columns, connection_columns)

    @property
    def service_ns(self) -> int:
        """Return the service time of all calls."""
        return int(self.added.ints("latency_ns")[~self.added.bools("idle_wait")].sum())

    def totals(self) -> Figures:
        """Return the figures of all calls."""
        return self.group_by().figures.of(0)


class _Calls:
    """Rows of calls and of the latencies of the same calls.

    Rows are in a fixed order, so that ties rank the same in every run. `of` is the row that each call of a
    connection went to, and `connection` is that connection.
    """

    def __init__(
        self,
        facts: ConnectionFacts,
        calls: TableColumns,
        latencies: TableColumns,
        of: Int64s,
        connection: Codes,
    ) -> None:
        self._facts, self.calls, self._latencies = facts, calls, latencies
        self._of, self._connection = of, connection
        self._rows, self._latency_rows = facts.rows(calls), facts.rows(latencies)
        self._known: dict[tuple[str, bool], CodedText] = {}

    def _coded(self, name: str, of_connections: bool) -> CodedText:
        """Return a column of the calls and, behind them, of the latencies, or of the connections of both.

        It is made once, since several rankings are by the same columns.
        """
        key = name, of_connections
        if key not in self._known:
            make = self._connection_column if of_connections else self._own_column
            column = make(name)
            # Numbers in the order of rows, which is fixed: groups that tie rank by them.
            self._known[key] = column.by_appearance() if isinstance(column, CodedText) else code_text(column)
        return self._known[key]

    def _own_column(self, name: str) -> CodedText | pa.Array:
        tables = (self.calls, self._latencies)
        if name == "client_id":
            own = join_columns([table.text(name) for table in tables])
            return self._facts.clients(own, np.concatenate([self._rows, self._latency_rows]))
        if name == "api_name":
            return pa.concat_arrays(self._api_names())
        return pa.concat_arrays([table.arrow(name) for table in tables])

    def _connection_column(self, name: str) -> CodedText | pa.Array:
        column = self._facts.columns.column(name).take(np.concatenate([self._rows, self._latency_rows]))
        return column if isinstance(column, CodedText) else column.arrow()

    def _api_names(self) -> list[pa.Array]:
        """Return the API name of each row of calls, and of each row of latencies.

        A key alone does not identify an API: before Kafka 0.8, keys had other meanings, and no versions.
        """
        tables = (self.calls, self._latencies)
        groups = group_rows(
            *(
                encode(pa.concat_arrays([table.arrow(name) for table in tables]))
                for name in ("api_key", "api_version")
            )
        )
        called = groups.of[: self.calls.rows]
        row_of_group = np.full(groups.count, -1)
        row_of_group[called] = np.arange(len(called))
        names = self.calls.arrow("api_name").take(pa.array(row_of_group, mask=row_of_group < 0))
        return [names.take(pa.array(of)) for of in np.split(groups.of, [len(called)])]

    def group_by(self, call_columns: Sequence[str], connection_columns: Sequence[str]) -> RankedGroups:
        """Return what `CallTable.group_by` does."""
        columns = [
            *(self._coded(name, of_connections=False) for name in call_columns),
            *(self._coded(name, of_connections=True) for name in connection_columns),
        ]
        rows = len(self._rows) + len(self._latency_rows)
        both = group_rows(*map(encode, columns)) if columns else _one_group(rows)
        calls = RowGroups(both.of[: self.calls.rows], both.count, both.first)
        figures = group_figures(
            self.calls, self._latencies, self._facts.flags(self._rows), calls, both.of[self.calls.rows :]
        )
        keys = [column.take(both.first).tolist() for column in columns]
        return RankedGroups(figures, keys, calls.of[self._of], self._connection)


def _one_group(rows: int) -> RowGroups:
    return RowGroups(np.zeros(rows, np.int64), 1, np.zeros(1, np.int64))
