"""Java classes are read as they were written, and constants are written once."""

import struct

import pytest

from kdissect.spark.startup.class_file import ClassFile, ClassFileError, ConstantPool, Member, Tag
from kdissect.spark.startup.class_writer import (
    LONGEST_TEXT,
    MOST_CONSTANTS,
    Access,
    ClassWriter,
    Opcode,
    PoolWriter,
    class_of,
    is_reference,
    load,
    load_all,
    return_value,
)

RUN = Member(Tag.INTERFACE_METHOD, "java/lang/Runnable", "run", "()V")


def read(pool: PoolWriter) -> ConstantPool:
    return ConstantPool(bytes(8) + struct.pack(">H", pool.count) + pool.content)


def test_constants_are_read_as_they_were_written() -> None:
    written = PoolWriter()
    text, string, type_ = written.text("text"), written.string("ÿ\0"), written.type("a/B")
    number, member = written.long(-1), written.member(RUN)
    pool = read(written)
    assert (pool.text(text), pool.named(string, Tag.STRING), pool.named(type_, Tag.CLASS)) == (
        *("text", "ÿ\0"),
        "a/B",
    )
    assert pool.numbers(number, Tag.LONG) == (-1,)
    assert pool.member(member) == RUN


def test_a_constant_is_written_once() -> None:
    pool = PoolWriter()
    first = [pool.member(RUN), pool.string("run"), pool.long(1), pool.type("run")]
    count, content = pool.count, bytes(pool.content)
    assert [pool.member(RUN), pool.string("run"), pool.long(1), pool.type("run")] == first
    assert (pool.count, bytes(pool.content)) == (count, content)


def test_constants_follow_those_of_another_pool() -> None:
    pool = PoolWriter(7)
    assert (pool.text("a"), pool.long(1), pool.text("b"), pool.count) == (7, 8, 10, 11)


def test_constants_that_do_not_fit() -> None:
    pool = PoolWriter(MOST_CONSTANTS - 2)
    assert pool.text("last but one") == MOST_CONSTANTS - 2
    with pytest.raises(ClassFileError, match="too many constants"):
        pool.long(0)
    PoolWriter().text("x" * LONGEST_TEXT)
    with pytest.raises(ClassFileError, match="too long"):
        PoolWriter().text("x" * (LONGEST_TEXT + 1))


def test_instructions_by_type() -> None:
    assert [load(type_, 3)[0] for type_ in "ZIJFD"] == [21, 21, 22, 23, 24]
    assert load("[J", 3) == load("La;", 3) == bytes([25, 3])
    assert load_all(["J", "I", "D", "La;"], 1) == bytes([22, 1, 21, 3, 24, 4, 25, 6])
    assert [return_value(type_)[0] for type_ in ("V", "C", "J", "F", "D", "[I")] == [
        177,
        172,
        173,
        174,
        175,
        176,
    ]
    assert [is_reference(type_) for type_ in ("La;", "[I", "I")] == [True, True, False]
    assert [class_of(type_) for type_ in ("La/B;", "[I", "[La/B;")] == ["a/B", "[I", "[La/B;"]


def test_a_class_is_read_as_it_was_written() -> None:
    written = ClassWriter("a/B", ["java/lang/Runnable", "java/lang/Runnable"])
    written.constant_field("version", 3)
    field = written.field(Access.PRIVATE, "kept", "I")
    assert field == Member(Tag.FIELD, "a/B", "kept", "I")
    code = load("La/B;", 0) + written.use(Opcode.GETFIELD, field) + return_value("I")
    assert written.method(Access.PUBLIC, "get", (["J"], "I"), code, 1) == written.own(
        Tag.METHOD, "get", "(J)I"
    )
    content = written.content()
    found = ClassFile(content)
    assert (found.name, found.methods) == ("a/B", {("get", "(J)I"): Access.PUBLIC})
    assert struct.unpack_from(">IHH", content) == (0xCAFEBABE, 0, 52)
    flags, _, _, interfaces = struct.unpack_from(">HHHH", content, found.pool.end)
    assert (flags, interfaces) == (Access.FINAL | Access.SUPER, 1)
    body = struct.pack(">HHI", 1, 3, len(code)) + code + bytes(4)  # `this` and a long are three variables
    assert content.endswith(body + bytes(2))
