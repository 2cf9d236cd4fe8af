"""Calls of a whole capture, and their figures by any columns of the calls and of their connections."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from kdissect.array_types import Int64s
from kdissect.report.aggregate.grouping import (
    RowGroups,
    TableColumns,
    encode,
    group_codes,
    group_rows,
)
from kdissect.report.aggregate.partial_tables import CALLS, LATENCIES
from kdissect.report.model.call_figures import Figures
from kdissect.report.partials import Partial
from kdissect.report.query.connection_facts import ConnectionFacts
from kdissect.report.query.figures import GroupFigures, group_figures
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
        order = [(name, "ascending") for name, _ in CALLS.keys]
        self.calls = TableColumns(partial.table(CALLS).sort_by(order))
        self.latencies = TableColumns(partial.table(LATENCIES))
        self.rows, self.latency_rows = facts.rows(self.calls), facts.rows(self.latencies)
        self._own: dict[str, CodedText] = {}
        self._of_connection: dict[str, CodedText] = {}

    def _calls_and_latencies(self, name: str) -> CodedText:
        """Return a column of the calls and, behind it, of the latencies. Several rankings are by the same."""
        if name not in self._own:
            make = {"client_id": self._client_ids, "api_name": self._api_names}.get(name)
            columns = make() if make else [table.arrow(name) for table in (self.calls, self.latencies)]
            self._own[name] = code_text(pa.concat_arrays(columns))
        return self._own[name]

    def _of_connections(self, name: str) -> CodedText:
        """Return a column of the connections at each of these rows."""
        if name not in self._of_connection:
            rows = np.concatenate([self.rows, self.latency_rows])
            self._of_connection[name] = code_text(self.facts.column_at(name, rows))
        return self._of_connection[name]

    def _client_ids(self) -> list[pa.Array]:
        return [
            self.facts.client_ids(table.arrow("client_id"), rows)
            for table, rows in ((self.calls, self.rows), (self.latencies, self.latency_rows))
        ]

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
            *map(self._calls_and_latencies, call_columns),
            *map(self._of_connections, connection_columns),
        ]
        rows = len(self.rows) + len(self.latency_rows)
        both = group_rows(*map(encode, columns)) if columns else _one_group(rows)
        calls = RowGroups(both.of[: self.calls.rows], both.count, both.first)
        figures = group_figures(
            self.calls, self.latencies, self.facts.flags(self.rows), calls, both.of[self.calls.rows :]
        )
        pairs = group_rows(group_codes(calls), encode(self.calls.arrow("connection")))
        keys = [column.take(both.first).arrow().to_pylist() for column in columns]
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
