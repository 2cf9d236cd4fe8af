"""Calls of a whole capture, and their figures by any columns of the calls and of their connections."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.array_types import Int64s
from kdissect.report.aggregate.grouping import (
    RowGroups,
    encode,
    group_codes,
    group_rows,
)
from kdissect.report.aggregate.partial_rows import sort_rows
from kdissect.report.aggregate.partial_tables import CALLS, LATENCIES
from kdissect.report.model.call_figures import Figures
from kdissect.report.partials import Partial
from kdissect.report.query.connection_facts import ConnectionFacts
from kdissect.report.query.figures import GroupFigures, group_figures
from kdissect.tables.array_batch import join_columns
from kdissect.tables.coded_text import CodedText, code_text


class RankedGroups(NamedTuple):
    """Figures by group, the order of the groups, and by group its keys (a list each) and its connections."""

    figures: GroupFigures
    order: list[int]
    keys: list[list[Any]]
    connections: Int64s


class CallTable:
    """The calls of a capture and the latencies of the same calls, ready to be grouped."""

    def __init__(self, partial: Partial, facts: ConnectionFacts) -> None:
        self.facts = facts
        # Rows are in a fixed order, so that ties rank the same in every run.
        self.calls = sort_rows(CALLS, partial.columns(CALLS))
        self.latencies = partial.columns(LATENCIES)
        self.rows, self.latency_rows = facts.rows(self.calls), facts.rows(self.latencies)
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
        tables = (self.calls, self.latencies)
        if name == "client_id":
            own = join_columns([table.text(name) for table in tables])
            return self.facts.clients(own, np.concatenate([self.rows, self.latency_rows]))
        if name == "api_name":
            return pa.concat_arrays(self._api_names())
        return pa.concat_arrays([table.arrow(name) for table in tables])

    def _connection_column(self, name: str) -> CodedText | pa.Array:
        column = self.facts.columns.column(name).take(np.concatenate([self.rows, self.latency_rows]))
        return column if isinstance(column, CodedText) else column.arrow()

    def _api_names(self) -> list[pa.Array]:
        """Return the API name of each row of calls, and of each row of latencies.

        A key alone does not identify an API: before Kafka 0.8, keys had other meanings, and no versions.
        """
        tables = (self.calls, self.latencies)
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

    def group_by(
        self, call_columns: Sequence[str] = (), connection_columns: Sequence[str] = ()
    ) -> RankedGroups:
        """Return figures by columns of the calls and of their connections; no columns: one group of all."""
        columns = [
            *(self._coded(name, of_connections=False) for name in call_columns),
            *(self._coded(name, of_connections=True) for name in connection_columns),
        ]
        rows = len(self.rows) + len(self.latency_rows)
        both = group_rows(*map(encode, columns)) if columns else _one_group(rows)
        calls = RowGroups(both.of[: self.calls.rows], both.count, both.first)
        figures = group_figures(
            self.calls, self.latencies, self.facts.flags(self.rows), calls, both.of[self.calls.rows :]
        )
        pairs = group_rows(group_codes(calls), encode(self.calls.column("connection")))
        keys = [column.take(both.first).tolist() for column in columns]
        connections = np.bincount(calls.of[pairs.first], minlength=both.count)
        return RankedGroups(figures, figures.order(), keys, connections)

    @property
    def service_ns(self) -> int:
        """Return the service time of all calls."""
        return int(self.calls.ints("latency_ns")[~self.calls.bools("idle_wait")].sum())

    def totals(self) -> Figures:
        """Return the figures of all calls."""
        return self.group_by().figures.of(0)


def _one_group(rows: int) -> RowGroups:
    return RowGroups(np.zeros(rows, np.int64), 1, np.zeros(1, np.int64))
