"""The definition of the public tables: complete, and true of what captures have."""

import struct
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from kdissect.tables.column import BYTES, MS, NS, TIME, Column
from kdissect.tables.schemas import COLUMNS, TABLES
from tests.helpers import recorded

UNITS = {"_ns": (NS, TIME), "_ms": (MS,), "_bytes": (BYTES,)}
PCAP_HEADER, RECORD_HEADER = 24, 16

every_table = pytest.mark.parametrize("table", COLUMNS)
every_column = pytest.mark.parametrize(
    "column", [column for columns in COLUMNS.values() for column in columns], ids=lambda column: column.name
)


def check(batches: list[dict[str, pa.RecordBatch]]) -> set[str]:
    """Return the columns in which there are nulls; fail for one that is never null."""
    found = set()
    for batch in batches:
        for table in COLUMNS.keys() & batch.keys():
            nulls = {column.name for column in COLUMNS[table] if batch[table][column.name].null_count}
            never = {column.name for column in COLUMNS[table] if column.null is None}
            assert not nulls & never, f"null in {table}: {sorted(nulls & never)}"
            found |= {f"{table}.{name}" for name in nulls}
    return found


@every_table
def test_the_schema_has_the_columns_in_order(table: str) -> None:
    assert [(field.name, field.type) for field in TABLES[table]] == [
        (column.name, column.type) for column in COLUMNS[table]
    ]


@every_table
def test_a_column_is_defined_once(table: str) -> None:
    assert max(Counter(column.name for column in COLUMNS[table]).values()) == 1


@every_column
def test_a_column_says_what_it_means(column: Column) -> None:
    assert len(column.meaning) > 3
    assert not column.meaning.endswith(".")
    assert column.null is None or column.null


@every_column
def test_the_unit_agrees_with_the_name(column: Column) -> None:
    ending = next((ending for ending in UNITS if column.name.endswith(ending)), "")
    expected = UNITS.get(ending, (BYTES, "") if "bytes" in column.name else ("",))
    assert column.unit in expected


@pytest.mark.parametrize("name", ["transactions.pcapng", "rebalances.pcapng", "sasl.pcapng", "tls.pcapng"])
def test_what_is_never_null_is_never_null(name: str) -> None:
    assert "connections.tls_alert" in check(recorded.dissected(name)[1])


def test_nor_is_it_where_the_capture_begins_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "middle.pcap"
    path.write_bytes(without_first(recorded.CAPTURES / "old-broker.pcap", 2000))
    nulls = check(recorded.dissected(str(path))[1])
    assert {"exchanges.request_first_ns", "exchanges.ordinal", "connections.server_rtt_ns"} <= nulls


def without_first(capture: Path, count: int) -> bytes:
    """Return a pcap file without its first packets."""
    data = capture.read_bytes()
    place = PCAP_HEADER
    for _ in range(count):
        place += RECORD_HEADER + struct.unpack_from("<I", data, place + 8)[0]
    return data[:PCAP_HEADER] + data[place:]
