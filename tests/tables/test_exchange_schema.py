"""The columns of exchanges and partitions: each source is a column that the columnar reader keeps."""

import pytest

from kdissect.protocol.columnar.registers import MESSAGE, ROW, Register
from kdissect.tables.column import TEXT, Column
from kdissect.tables.exchange_schema import EXCHANGE_COLUMNS, PARTITION_COLUMNS


@pytest.mark.parametrize(
    ("columns", "registers"), [(EXCHANGE_COLUMNS, MESSAGE), (PARTITION_COLUMNS, ROW)], ids=["message", "row"]
)
def test_sources_are_kept_in_the_kind_of_their_column(
    columns: tuple[Column, ...], registers: tuple[Register, ...]
) -> None:
    kinds = {register.column: register.kind for register in registers}
    sourced = [column for column in columns if column.source is not None]
    assert sourced
    for column in sourced:
        assert column.source is not None
        assert kinds[column.source.column] == ("span" if column.type == TEXT else "integer")
