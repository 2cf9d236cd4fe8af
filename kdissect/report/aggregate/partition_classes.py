"""Classes of rows of partitions: rows that agree in all that most tables group by.

An exchange names the same few partitions again and again. Rows of one class have the same topic, partition,
API and codec, and exchanges of one class (see `calls.exchange_classes`). Tables look at each class once for
what they group by. Each table went over five to seven columns of all rows, which took a third of the time
for topics, load and positions.
"""

from collections.abc import Iterable

import numpy as np

from kdissect.array_types import Int64s
from kdissect.report.aggregate.calls import class_columns, exchange_classes
from kdissect.report.aggregate.column_rows import AnyColumn, PlainColumn, take_rows
from kdissect.report.aggregate.grouping import (
    Codes,
    RowGroups,
    TableColumns,
    encode,
    encode_range,
    encode_runs,
    group_rows,
)
from kdissect.report.aggregate.partial_rows import column_codes
from kdissect.tables.coded_text import any_absent

PLACE = ("topic", "topic_id", "partition")
OWN = (*PLACE, "api_key", "connection", "codec")
"""Columns of partitions that are the same in all rows of a class."""


class PartitionClasses:
    """Rows of partitions by class, with the class of their exchanges."""

    def __init__(self, partitions: TableColumns, exchanges: TableColumns, exchange_rows: Int64s) -> None:
        self.groups = _classes(partitions, exchanges, exchange_rows)
        self.columns = {name: take_rows(partitions.column(name), self.groups.first) for name in OWN}
        """The columns `OWN`, one row for each class."""
        self.exchange_class = _class_of(exchanges, exchange_rows[self.groups.first])
        """The class of the exchanges of each class, -1 for rows that have no exchange."""
        self._exchanges = exchanges

    def of_exchanges(self, column: AnyColumn) -> PlainColumn:
        """Return a column that has a row for each class of exchanges, one row for each class of rows."""
        if not isinstance(column, np.ndarray):
            return take_rows(column, self.exchange_class)
        taken: PlainColumn = column[self.exchange_class] if len(column) else np.zeros(len(self), column.dtype)
        return taken

    def __len__(self) -> int:
        return self.groups.count

    def group(self, own: Iterable[str], of_exchanges: Iterable[str] = ()) -> RowGroups:
        """Return the groups of classes that are equal in some columns."""
        columns = [self.columns[name] for name in own]
        if of_exchanges:
            known = class_columns(self._exchanges)
            columns += [self.of_exchanges(known[name]) for name in of_exchanges]
        return group_rows(*map(column_codes, columns))

    def grouped(self, rows: Int64s, groups: RowGroups, *finer: Codes) -> RowGroups:
        """Return some rows by the groups of their classes, and by columns of one row for each of them."""
        return group_rows(Codes(groups.of.take(self.groups.of.take(rows)), groups.count), *finer)


def partition_classes(
    partitions: TableColumns, exchanges: TableColumns, exchange_rows: Int64s
) -> PartitionClasses:
    """Return the classes of rows of partitions, made once for each table."""
    return partitions.once("classes", lambda: PartitionClasses(partitions, exchanges, exchange_rows))


def _class_of(exchanges: TableColumns, exchange_rows: Int64s) -> Int64s:
    """Return the class of the exchange in each of some rows, -1 for row -1."""
    if not exchanges.rows:
        return exchange_rows
    classes = exchange_classes(exchanges).of.take(exchange_rows)
    if any_absent(exchange_rows):
        classes[exchange_rows < 0] = -1
    return classes


def _classes(partitions: TableColumns, exchanges: TableColumns, exchange_rows: Int64s) -> RowGroups:
    of_exchange = Codes(_class_of(exchanges, exchange_rows), exchange_classes(exchanges).count)
    texts = (encode(partitions.column(name)) for name in ("topic", "topic_id", "codec"))
    numbers = (
        encode_range(partitions.ints(name), partitions.present(name)) for name in ("partition", "api_key")
    )
    return group_rows(of_exchange, encode_runs(partitions.ints("connection")), *texts, *numbers)
