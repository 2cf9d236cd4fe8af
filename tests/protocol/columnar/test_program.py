"""Programs: that they are well formed for every API, version and side, and what some of them are."""

import pytest

from kdissect.protocol.columnar.assembler import Op, Program, show
from kdissect.protocol.columnar.program import compile_message
from kdissect.protocol.columnar.registers import (
    MESSAGE_SLOTS,
    MESSAGE_WIDTH,
    ROW_SLOTS,
)
from kdissect.protocol.columnar.vm_state import DEPTH, REGISTERS
from kdissect.protocol.schema.definition import every_field, fields_at
from kdissect.protocol.schema.registry import APIS
from tests.helpers.every_message import ALL_PROGRAMS

FIRST, AFTER = {Op.NEXT, Op.OPTION, Op.TAGS, Op.TAG, Op.END_TAG, Op.FALLBACK}, {Op.ARRAY, Op.CASE}
KEEPS = {Op.FIXED, Op.INTEGER, Op.ERROR, Op.SIZED, Op.RECORDS}
DEPTHS = {Op.ARRAY, Op.NEXT, Op.TAGS, Op.TAG, Op.END_TAG}


@pytest.fixture(scope="module")
def programs() -> list[Program]:
    """All programs there are."""
    return [compile_message(*what) for what in ALL_PROGRAMS]


def test_jumps_registers_and_depths_are_in_range(programs: list[Program]) -> None:
    for program in programs:
        rows = program.table.tolist()
        assert len(rows) == len(program.paths)
        assert rows[-1][0] == Op.END
        for op, first, second, third, fourth in rows:
            assert op in set(Op)
            assert op not in FIRST or 0 <= first < len(rows)
            assert op not in AFTER or 0 <= second < len(rows)
            assert op not in DEPTHS or 0 <= fourth < DEPTH
            assert op not in KEEPS or (second < MESSAGE_WIDTH and third < REGISTERS)
            assert op not in KEEPS or third == -1 or third >= MESSAGE_WIDTH


def test_every_role_that_is_kept_is_read_by_some_program(programs: list[Program]) -> None:
    kept = {
        number
        for program in programs
        for row in program.table.tolist()
        if row[0] in KEEPS
        for number in row[2:4]
    }
    assert {*MESSAGE_SLOTS.values(), *(MESSAGE_WIDTH + slot for slot in ROW_SLOTS.values())} <= kept


def test_topics_stand_before_their_partitions() -> None:
    """A partition row takes the topic that was read last, so none may be named behind its partitions."""
    for api in APIS.values():
        for message in (api.request, api.response):
            for version in message.versions:
                for owner in (message, *(field for _, field in every_field(message) if field.fields)):
                    names = [field.role in {"topic", "topic_id"} for field in fields_at(owner, version)]
                    inside = [
                        any(f.role == "partition" for f in field.fields)
                        for field in fields_at(owner, version)
                    ]
                    assert not any(inside[: at + 1].count(True) for at, named in enumerate(names) if named)


def _bits(*columns: str) -> int:
    return sum(1 << ROW_SLOTS[column] for column in columns)


def test_a_produce_request() -> None:
    acks, topic, partition = MESSAGE_SLOTS["acks"], ROW_SLOTS["topic"], ROW_SLOTS["partition"]
    client, base = MESSAGE_SLOTS["client_id"], MESSAGE_WIDTH
    assert show(compile_message(0, 0, False)).splitlines() == [
        "0 SKIP 2 0 0 0 header.request_api_key",
        "1 SKIP 2 0 0 0 header.request_api_version",
        "2 SKIP 4 0 0 0 header.correlation_id",
        f"3 SIZED 2 {client} -1 0 header.client_id",
        f"4 INTEGER 2 {acks} -1 0 acks",
        "5 SKIP 4 0 0 0 timeout_ms",
        "6 ARRAY 4 17 6 0 topic_data",
        f"7 ENTER {_bits(*ROW_SLOTS)} 1 0 0 topic_data",
        f"8 SIZED 2 -1 {base + topic} 1 topic_data.name",
        "9 ARRAY 4 15 8 1 topic_data.partition_data",
        (
            f"10 ENTER {_bits('partition', 'producer_id', 'producer_epoch', 'record_set')} 0 0 0 "
            "topic_data.partition_data"
        ),
        f"11 INTEGER 4 -1 {base + partition} 1 topic_data.partition_data.index",
        f"12 RECORDS 4 -1 {base + ROW_SLOTS['record_set']} 1 topic_data.partition_data.records",
        "13 ROW 0 0 0 0 topic_data.partition_data",
        "14 NEXT 10 0 0 1 topic_data.partition_data",
        "15 TOPIC 0 0 0 0 topic_data",
        "16 NEXT 7 0 0 0 topic_data",
        "17 END 0 0 0 0",
    ]


def test_arrays_of_one_size_are_stepped_over() -> None:
    lines = show(compile_message(18, 0, True)).splitlines()
    assert "2 STEP 4 6 0 0 api_keys" in lines


def test_an_api_versions_response_can_fall_back() -> None:
    program = compile_message(18, 3, True)
    (fallback,) = (row for row in program.table.tolist() if row[0] == Op.FALLBACK)
    v0 = compile_message(18, 0, True)
    assert program.table.tolist()[fallback[1] :] == v0.table.tolist()[1:]
