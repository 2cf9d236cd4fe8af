"""Comments of columns say what the documentation says."""

from kdissect.spark.table_columns import comment_of
from kdissect.tables.column import Column
from kdissect.tables.schemas import COLUMNS


def test_a_comment_has_meaning_unit_and_null() -> None:
    column = Column("wait_ns", Column.__annotations__["type"], "time that it waited", "ns", "it did not")
    assert comment_of(column) == "time that it waited (ns); null: it did not"


def test_every_column_has_one() -> None:
    assert all(comment_of(column) for columns in COLUMNS.values() for column in columns)
