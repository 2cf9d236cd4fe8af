"""Classes of rows of partitions, held to grouping all rows by the columns themselves."""

from typing import Any

import numpy as np
import pytest

from kdissect.array_types import Int64s
from kdissect.report.aggregate.column_rows import PlainColumn
from kdissect.report.aggregate.grouping import Codes, TableColumns
from kdissect.report.aggregate.partition_classes import OWN, PLACE, partition_classes
from kdissect.report.aggregate.topics import rows_of_exchanges
from kdissect.tables.coded_text import CodedText, NumberColumn
from tests.helpers import synthetic_tables as synthetic

OF_EXCHANGES = ("connection", "client_id", "group_id", "idle_wait")


def listed(column: PlainColumn) -> list[Any]:
    """Return the values of a column."""
    return list((column.arrow() if isinstance(column, CodedText | NumberColumn) else column).tolist())


class Case:
    """Tables with a class for each row of partitions, and their columns as Python has them."""

    def __init__(self, rows: int, orphans: bool) -> None:
        tables = synthetic.tables(np.random.default_rng(rows), rows)
        self.partitions = TableColumns(tables["partitions"])
        self.exchanges = TableColumns(tables["exchanges"].slice(rows // 3 if orphans else 0))
        self.rows = rows_of_exchanges(self.partitions, self.exchanges)
        self.classes = partition_classes(self.partitions, self.exchanges, self.rows)
        self.own = {name: self.partitions.table[name].to_pylist() for name in OWN}
        whole = {name: self.exchanges.table[name].to_pylist() for name in OF_EXCHANGES}
        whole["idle_wait"] = list(map(bool, whole["idle_wait"]))
        self.of_exchanges = {
            name: [values[row] if row >= 0 else None for row in self.rows.tolist()]
            for name, values in whole.items()
        }

    def of(self, groups: Int64s) -> list[int]:
        """Return the group of each row from that of each class."""
        return list(groups[self.classes.groups.of].tolist())


CASES = pytest.mark.parametrize("case", [Case(0, False), Case(300, False), Case(300, True), Case(5000, True)])


def numbered(*columns: list[Any]) -> list[int]:
    """Return a number for each row, in the order of first rows."""
    number_of: dict[tuple[Any, ...], int] = {}
    return [number_of.setdefault(key, len(number_of)) for key in zip(*columns, strict=True)]


@CASES
def test_rows_of_a_class_have_its_values(case: Case) -> None:
    for name, values in case.own.items():
        of_classes = listed(case.classes.columns[name])
        assert [of_classes[number] for number in case.classes.groups.of.tolist()] == values, name


@CASES
@pytest.mark.parametrize(
    ("own", "of_exchanges"), [(PLACE, ()), (("topic",), OF_EXCHANGES[:2]), (OWN, OF_EXCHANGES[:3])]
)
def test_groups_of_classes_are_those_of_all_rows(
    case: Case, own: tuple[str, ...], of_exchanges: tuple[str, ...]
) -> None:
    groups = case.classes.group(own, of_exchanges)
    plain = [case.own[name] for name in own] + [case.of_exchanges[name] for name in of_exchanges]
    assert case.of(groups.of) == numbered(*plain)


@CASES
def test_some_rows_are_grouped_by_classes_and_finer(case: Case) -> None:
    rows = np.flatnonzero(case.rows >= 0)[::3]
    finer = Codes(np.arange(len(rows)) % 2, 2)
    found = case.classes.grouped(rows, case.classes.group(PLACE, OF_EXCHANGES), finer)
    plain = [case.own[name] for name in PLACE] + [case.of_exchanges[name] for name in OF_EXCHANGES]
    chosen = [[column[row] for row in rows.tolist()] for column in plain]
    assert found.of.tolist() == numbered(*chosen, finer.numbers.tolist())
