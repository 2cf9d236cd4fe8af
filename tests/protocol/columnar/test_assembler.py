"""`protocol.columnar.assembler`: rows of a program, added, filled in later and taken back."""

from kdissect.protocol.columnar.assembler import Assembler, Op, show


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
