"""`protocol.columnar.assembler`: rows of a program, added, filled in later and taken back."""

from kdissect.protocol.columnar.assembler import Assembler, Op, show, with_blocks


def test_a_jump_is_filled_in_when_its_row_is_known() -> None:
    assembler = Assembler()
    option = assembler.add(Op.OPTION, "leader")
    assembler.add(Op.SKIP, "leader.host", 4)
    assembler.set(option, 0, assembler.here)
    assembler.add(Op.END, "")
    assert show(assembler.program()).splitlines() == [
        "0 OPTION 2 0 0 0 leader",
        "1 SKIP 4 0 0 0 leader.host",
        "2 END 0 0 0 0",
    ]


def test_rows_that_are_taken_back_are_no_part_of_the_program() -> None:
    assembler = Assembler()
    assembler.add(Op.SKIP, "first", 2)
    start = assembler.here
    assembler.add(Op.SKIP, "second", 4)
    assembler.add(Op.SKIP, "third", 8)
    assert assembler.taken_back(start) == [[Op.SKIP, 4, 0, 0, 0], [Op.SKIP, 8, 0, 0, 0]]
    assert assembler.program().paths == ("first",)


def test_fields_of_a_fixed_size_become_a_block_unless_a_jump_leads_between_them() -> None:
    assembler = Assembler()
    assembler.add(Op.SKIP, "alone", 2)
    start = assembler.add(Op.ARRAY, "items", 4, 0, 6, 0)
    assembler.add(Op.INTEGER, "items.key", -2, 0, -1)
    assembler.add(Op.FIXED, "items.id", 16, 1, -1)
    assembler.add(Op.NEXT, "items", start + 1)
    assembler.set(start, 1, assembler.here)
    option = assembler.add(Op.OPTION, "leader")
    assembler.add(Op.SKIP, "leader.port", 4)
    assembler.set(option, 0, assembler.here)
    assembler.add(Op.ERROR, "error", 2, -1, -1)
    assembler.add(Op.SKIP, "session", 4)
    assembler.add(Op.END, "")
    assert show(with_blocks(assembler.program())).splitlines() == [
        "0 SKIP 2 0 0 0 alone",
        "1 ARRAY 4 6 6 0 items",
        "2 BLOCK 18 2 0 0 items.key",
        "3 INTEGER -2 0 -1 0 items.key",
        "4 FIXED 16 1 -1 0 items.id",
        "5 NEXT 2 0 0 0 items",
        "6 OPTION 8 0 0 0 leader",
        "7 SKIP 4 0 0 0 leader.port",
        "8 BLOCK 6 2 0 0 error",
        "9 ERROR 2 -1 -1 0 error",
        "10 SKIP 4 0 0 0 session",
        "11 END 0 0 0 0",
    ]


def test_a_case_leads_to_the_block_of_its_field() -> None:
    assembler = Assembler()
    assembler.add(Op.TAG, "", 5, 1)
    assembler.add(Op.CASE, "epoch", 3, 2)
    assembler.add(Op.INTEGER, "epoch.id", 4, 0, -1)
    assembler.add(Op.SKIP, "epoch.end", 8)
    assembler.add(Op.END_TAG, "epoch", 0)
    assembler.add(Op.END, "")
    made = show(with_blocks(assembler.program())).splitlines()
    assert made[:3] == ["0 TAG 6 1 0 0", "1 CASE 3 2 0 0 epoch", "2 BLOCK 12 2 0 0 epoch.id"]
    assert made[5] == "5 END_TAG 0 0 0 0 epoch"
