"""Columns that were carried to another process are those that were read."""

import pickle
from random import Random
from typing import Any

import pytest

from kdissect.protocol.columnar import program_cache
from kdissect.protocol.columnar.batch_reader import Columns, Table
from kdissect.protocol.columnar.carried_columns import carried, resumed
from kdissect.protocol.columnar.registers import BROKER, MESSAGE, MESSAGE_WIDTH, ROW, Register
from kdissect.protocol.records.batch_summary import SUMMARY
from tests.protocol.columnar.test_batch_reader import everything, make, read_frames

VERDICTS = ("error_code", "error_count", "has_error", "fault_reason", "fault_position")


def read_all(chance: Random) -> Columns:
    """Return columns of a message of each API, version and side, a third of them damaged, some cut."""
    frames = everything(chance)
    chance.shuffle(frames)
    for place in range(0, len(frames), 3):
        data = bytearray(frames[place].data)
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        frames[place] = frames[place]._replace(data=bytes(data))
    lost = [chance.randrange(9) if place % 7 == 0 else 0 for place in range(len(frames))]
    return read_frames(frames, lost)[0]


def listed(table: Table, registers: tuple[Register, ...]) -> dict[str, list[Any]]:
    """Return all columns of a table."""
    found = {"message": table.message.tolist()}
    for one in registers:
        column = (table.integers if one.kind == "integer" else table.spans)(one.column)
        found[one.column] = [values.tolist() for values in column]
    return found


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_lost(seed: int) -> None:
    columns = read_all(Random(seed))
    found = carried(columns)
    assert len(found.slots) == len(found.values) <= columns.messages.values.shape[1]
    texts = [columns.fault_text(message) for message in range(len(columns.messages))]
    again = resumed(pickle.loads(pickle.dumps(found)))
    for name, registers in (("messages", MESSAGE), ("partitions", ROW), ("nodes", BROKER)):
        assert listed(getattr(again, name), registers) == listed(getattr(columns, name), registers)
    for name in VERDICTS:
        assert getattr(again, name).tolist() == getattr(columns, name).tolist()
        assert getattr(again, name).dtype == getattr(columns, name).dtype
    for name in SUMMARY:
        assert again.records[name].tolist() == columns.records[name].tolist()
    assert again.rows.tolist() == columns.rows.tolist()
    assert sum(text is not None for text in texts) > 10
    program_cache.library.cache_clear()  # as in another process, which has other programs
    assert [again.fault_text(message) for message in range(len(texts))] == texts


def test_registers_that_no_message_uses_are_left_out() -> None:
    nothing, heartbeat = (carried(read_frames(frames)[0]) for frames in ([], [make(Random(1), 12, 4, False)]))
    assert len(nothing.slots) == 0 < len(heartbeat.slots) < MESSAGE_WIDTH // 2
    assert len(resumed(nothing).messages) == len(resumed(nothing).rows) == 0
