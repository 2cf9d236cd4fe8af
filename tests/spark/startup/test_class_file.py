"""Java class files are read as the specification says, and nothing else is."""

import random
import struct
import zipfile
from collections.abc import Iterator

import pytest

from kdissect.spark.startup.class_file import (
    ClassFile,
    ClassFileError,
    ConstantPool,
    Member,
    Tag,
    dynamic_calls,
    parse_descriptor,
)
from kdissect.spark.startup.jvm import spark_jars

CALL = b"\xba\0\1\0\0"


def library_classes() -> Iterator[tuple[str, bytes]]:
    """Yield some classes of Scala's library by name."""
    path = next(path for path in spark_jars() if path.name.startswith("scala-library"))
    with zipfile.ZipFile(path) as jar:
        for name in jar.namelist():
            if name.startswith("scala/Function") and name.endswith(".class"):
                yield name.removesuffix(".class"), jar.read(name)


def test_names_methods_and_call_sites_of_a_library() -> None:
    classes = {name: ClassFile(content) for name, content in library_classes()}
    assert {name: found.name for name, found in classes.items()} == {name: name for name in classes}
    function = classes["scala/Function1"]
    assert function.methods["apply", "(Ljava/lang/Object;)Ljava/lang/Object;"] == 0x401  # public abstract
    assert function.methods["apply$mcII$sp", "(I)I"] & 1
    for site in function.call_sites:
        assert function.content[site.place : site.place + 5] == struct.pack(">BHH", 0xBA, site.constant, 0)
    linkers = [
        function.pool.method_handle(method.handle).member.name for method in function.bootstrap_methods
    ]
    assert linkers.count("altMetafactory") == len(function.bootstrap_methods) - 1
    assert len(function.call_sites) == len(function.bootstrap_methods)


def test_constants_are_of_the_kind_that_is_asked_for() -> None:
    pool = ClassFile(dict(library_classes())["scala/Function1"]).pool
    members = [index for index in range(1, pool.count) if pool.tag(index) == Tag.INTERFACE_METHOD]
    descriptor = "(Ljava/lang/Object;)Ljava/lang/Object;"
    apply = Member(Tag.INTERFACE_METHOD, "scala/Function1", "apply", descriptor)
    assert apply in [pool.member(index) for index in members]
    for wrong in (pool.text, pool.method_handle, pool.name_and_type):
        with pytest.raises(ClassFileError, match=f"constant {members[0]} is of kind 11"):
            wrong(members[0])


@pytest.mark.parametrize("index", [0, 2, 4, 65535, -1])
def test_constants_that_are_not_there(index: int) -> None:
    """A number of 64 bits has two indexes, and the second is not used."""
    pool = ConstantPool(bytes(8) + struct.pack(">HBqBH", 4, Tag.LONG, 1, Tag.TEXT, 0))
    assert (pool.tag(1), pool.tag(3)) == (Tag.LONG, Tag.TEXT)
    with pytest.raises(ClassFileError, match=f"no constant {index}"):
        pool.tag(index)


@pytest.mark.parametrize("tag", [0, 2, 13, 14, 21, 255])
def test_an_unknown_kind_of_constant(tag: int) -> None:
    with pytest.raises(ClassFileError, match=f"unknown tag {tag}"):
        ConstantPool(bytes(8) + struct.pack(">HBHH", 2, tag, 0, 0))


@pytest.mark.parametrize(
    ("before", "name"),
    [
        (b"", "nothing"),
        (b"\x10\xba" * 3, "a number that looks like a call"),
        (b"\x11\xba\xba\0\0", "a number of two bytes"),
        (b"\xc4\x84\xba\xba\0\xba", "wide iinc"),
        (b"\xc4\x15\0\1", "wide load"),
        (b"\0\xaa\0\0" + struct.pack(">iii", 0, -1, 0) + b"\xba\0\0\0" * 2, "tableswitch"),
        (b"\0\0\xab\0" + struct.pack(">ii", 0, 0), "lookupswitch without cases"),
        (b"\xab\0\0\0" + struct.pack(">iiiii", 0, 1, 0xBA00, 0, 0), "lookupswitch"),
        (b"\xb9\0\1\1\0\xc5\0\1\xba", "invokeinterface, multianewarray"),
    ],
)
def test_calls_are_found_among_other_instructions(before: bytes, name: str) -> None:
    assert name
    code = before + CALL + b"\xb1" + CALL
    assert list(dynamic_calls(code)) == [len(before), len(before) + 6]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (b"\xca", "unknown instruction 202"),
        (b"\xff", "unknown instruction 255"),
        (CALL[:3], "cut"),
        (b"\x10", "cut"),
        (b"\xc4", "cut"),
        (b"\xaa\0\0\0" + bytes(8), "too early"),
        (b"\xaa\0\0\0" + struct.pack(">iii", 0, 1, 0), "a higher number to a lower one"),
        (b"\xaa\0\0\0" + struct.pack(">iii", 0, -(2**31), 2**31 - 1), "cut"),
        (b"\xab\0\0\0" + struct.pack(">ii", 0, -2), "fewer than no cases"),
        (b"\xab\0\0\0" + struct.pack(">ii", 0, 2**31 - 1), "cut"),
    ],
)
def test_code_that_is_cut_or_unknown(code: bytes, message: str) -> None:
    with pytest.raises(ClassFileError, match=message):
        list(dynamic_calls(code))


@pytest.mark.parametrize(
    ("descriptor", "types"),
    [
        ("()V", ([], "V")),
        ("(ZBCSIJFD)[[J", (list("ZBCSIJFD"), "[[J")),
        ("([[Ljava/lang/String;La;)La;", (["[[Ljava/lang/String;", "La;"], "La;")),
        ("(" + "J" * 127 + ")I", (["J"] * 127, "I")),
    ],
)
def test_descriptors(descriptor: str, types: tuple[list[str], str]) -> None:
    assert parse_descriptor(descriptor) == types


@pytest.mark.parametrize(
    "descriptor",
    ["", "I", "()", "()VV", "(V)V", "([)V", "(L;)V", "(La)V", "(La;", "(La(;)V", "(" + "J" * 128 + ")V"],
)
def test_text_that_is_no_descriptor(descriptor: str) -> None:
    with pytest.raises(ClassFileError):
        parse_descriptor(descriptor)


def test_a_cut_class_or_more_than_a_class_is_refused() -> None:
    content = dict(library_classes())["scala/Function1$"]
    ClassFile(content)
    for length in range(len(content)):
        with pytest.raises(ClassFileError):
            ClassFile(content[:length])
    with pytest.raises(ClassFileError, match="bytes follow"):
        ClassFile(content + b"\0")


def test_damaged_classes_are_refused_or_read() -> None:
    content = dict(library_classes())["scala/Function1"]
    chance, refused = random.Random(1), 0
    for _ in range(300):
        changed = bytearray(content)
        for _ in range(chance.choice([1, 4])):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        try:
            ClassFile(bytes(changed))
        except ClassFileError:
            refused += 1
    assert 30 < refused < 300
