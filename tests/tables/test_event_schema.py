"""The columns of events: both tables say alike when and where an event was."""

from kdissect.tables.event_schema import GROUP_EVENT_COLUMNS, TRANSACTION_EVENT_COLUMNS


def test_both_tables_begin_and_end_alike() -> None:
    assert GROUP_EVENT_COLUMNS[:2] == TRANSACTION_EVENT_COLUMNS[:2]
    assert GROUP_EVENT_COLUMNS[3:7] == TRANSACTION_EVENT_COLUMNS[3:7]
    assert [column.name for column in GROUP_EVENT_COLUMNS[3:5]] == ["asked_ns", "time_ns"]
    assert GROUP_EVENT_COLUMNS[-5:] == TRANSACTION_EVENT_COLUMNS[-5:]
    assert GROUP_EVENT_COLUMNS[-1].name == "capture_file"
