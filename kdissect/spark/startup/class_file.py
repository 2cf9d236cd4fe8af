"""Java class files as bytes: names, methods, call sites of `invokedynamic` and their bootstrap methods.

Numbers of sections are those of the Java Virtual Machine Specification, SE 17. Only what call sites need is
read. Bytes that are no class file raise ClassFileError.

Text of a class file is modified UTF-8 (4.4.7). It is held with one character for each byte, so it is written
again as it was read. Everything that is looked at here is ASCII.
"""

import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

MAGIC = 0xCAFEBABE
TEXT_ENCODING = "latin-1"  # one character for each byte


class ClassFileError(ValueError):
    """Bytes are no class file, or one that the specification forbids."""


class Tag(IntEnum):
    """Kinds of constants (table 4.4-A)."""

    TEXT = 1
    INTEGER = 3
    FLOAT = 4
    LONG = 5
    DOUBLE = 6
    CLASS = 7
    STRING = 8
    FIELD = 9
    METHOD = 10
    INTERFACE_METHOD = 11
    NAME_AND_TYPE = 12
    METHOD_HANDLE = 15
    METHOD_TYPE = 16
    DYNAMIC = 17
    INVOKE_DYNAMIC = 18
    MODULE = 19
    PACKAGE = 20


CONSTANT_FORMS: Mapping[int, str] = {
    Tag.TEXT: ">H",  # the length of the text that follows
    Tag.INTEGER: ">i",
    Tag.FLOAT: ">f",
    Tag.LONG: ">q",
    Tag.DOUBLE: ">d",
    **dict.fromkeys((Tag.CLASS, Tag.STRING, Tag.METHOD_TYPE, Tag.MODULE, Tag.PACKAGE), ">H"),
    **dict.fromkeys((Tag.FIELD, Tag.METHOD, Tag.INTERFACE_METHOD, Tag.NAME_AND_TYPE), ">HH"),
    **dict.fromkeys((Tag.DYNAMIC, Tag.INVOKE_DYNAMIC), ">HH"),
    Tag.METHOD_HANDLE: ">BH",
}
"""Forms of `struct` for what follows the tag of a constant."""

_CONSTANT_SIZES = {tag: struct.calcsize(form) for tag, form in CONSTANT_FORMS.items()}
MOST_SLOTS = 255  # of the arguments of a method (4.3.3)
TWO_PLACES = (Tag.LONG, Tag.DOUBLE)  # the index after such a constant is not used (4.4.5)
MEMBERS = (Tag.FIELD, Tag.METHOD, Tag.INTERFACE_METHOD)

CODE_START = 8  # in the attribute, after the depth of the stack, the variables and the length
INVOKEDYNAMIC = 186
_TABLESWITCH, _LOOKUPSWITCH, _WIDE, _IINC = 170, 171, 196, 132
_LAST_OPCODE = 201
_LENGTHS = {
    **dict.fromkeys(range(_LAST_OPCODE + 1), 1),
    # bipush, ldc; loads, stores and ret of a local variable; newarray
    **dict.fromkeys((16, 18, *range(21, 26), *range(54, 59), 169, 188), 2),
    # sipush, ldc_w, ldc2_w; iinc; branches; fields and methods; new, anewarray, checkcast, instanceof; ifnull
    **dict.fromkeys((17, 19, 20, _IINC, *range(153, 169), *range(178, 185), 187, 189, 192, 193, 198, 199), 3),
    197: 4,  # multianewarray
    **dict.fromkeys((185, INVOKEDYNAMIC, 200, 201), 5),  # invokeinterface; goto_w, jsr_w
}
"""Lengths of instructions by opcode (6.5). Those of `_TABLESWITCH`, `_LOOKUPSWITCH` and `_WIDE` vary."""

# Most code has no bytes that look like an `invokedynamic`, so its instructions need not be followed.
_LOOK = re.compile(rb"\xba..\0\0", re.DOTALL)

_TYPE = r"\[*(?:[BCDFIJSZ]|L[^;()]+;)"
_METHOD_DESCRIPTOR = re.compile(rf"\(((?:{_TYPE})*)\)({_TYPE}|V)")


class Member(NamedTuple):
    """A field or method as classes name it (4.4.2)."""

    tag: int
    owner: str
    name: str
    descriptor: str


class MethodHandle(NamedTuple):
    """A method and how it is called (4.4.8). `kind` is a number of table 5.4.3.5-A."""

    kind: int
    member: Member


class BootstrapMethod(NamedTuple):
    """A method that links call sites, and its arguments as indexes of constants (4.7.23)."""

    handle: int
    arguments: tuple[int, ...]


class CallSite(NamedTuple):
    """An `invokedynamic`: its place among the bytes of the class file, and the index of its constant."""

    place: int
    constant: int


class _Attribute(NamedTuple):
    name: str
    place: int
    size: int

    def part_of(self, content: bytes) -> bytes:
        return _slice(content, self.place, self.size)


def parse_descriptor(descriptor: str) -> tuple[list[str], str]:
    """Return the types of the parameters of a method and of its result (4.3.3).

    >>> parse_descriptor("(I[JLjava/lang/String;)V")
    (['I', '[J', 'Ljava/lang/String;'], 'V')
    """
    parts = _METHOD_DESCRIPTOR.fullmatch(descriptor)
    if parts is None:
        raise ClassFileError(f"no descriptor of a method: {descriptor[:80]!r}")
    parameters = re.findall(_TYPE, parts[1])
    if slots(parameters) > MOST_SLOTS:
        raise ClassFileError("a method takes too many arguments")
    return parameters, parts[2]


def slots(types: Iterable[str]) -> int:
    """Return how many local variables values of these types take (2.6.1)."""
    return sum(2 if type_ in ("J", "D") else 1 for type_ in types)


class ConstantPool:
    """The constants of a class file, by index (4.4). Each method raises ClassFileError for another kind."""

    START = 8  # after the magic number and the version

    def __init__(self, content: bytes) -> None:
        self._content = content
        (self.count,) = _unpack(">H", content, self.START)
        self._places = [0] * self.count  # of tags; 0 for an index that is not used
        self._texts: dict[int, str] = {}
        place, index = self.START + 2, 1
        while index < self.count:
            (tag,) = _unpack("B", content, place)
            if tag not in _CONSTANT_SIZES:
                raise ClassFileError(f"a constant has the unknown tag {tag}")
            self._places[index] = place
            place += 1 + _CONSTANT_SIZES[tag]
            if tag == Tag.TEXT:
                place += int.from_bytes(content[place - 2 : place])
            index += 2 if tag in TWO_PLACES else 1
        self.end = place

    def __iter__(self) -> Iterator[int]:
        """Yield the indexes that are used."""
        return (index for index, place in enumerate(self._places) if place)

    def tag(self, index: int) -> int:
        """Return the kind of a constant."""
        if not 0 < index < self.count or not self._places[index]:
            raise ClassFileError(f"there is no constant {index}")
        return self._content[self._places[index]]

    def numbers(self, index: int, *tags: int) -> tuple[Any, ...]:
        """Return the numbers that a constant of one of these kinds consists of."""
        tag = self.tag(index)
        if tag not in tags:
            raise ClassFileError(f"constant {index} is of kind {tag}")
        return _unpack(CONSTANT_FORMS[tag], self._content, self._places[index] + 1)

    def text(self, index: int) -> str:
        """Return a text."""
        if index not in self._texts:
            (length,) = self.numbers(index, Tag.TEXT)
            text = _slice(self._content, self._places[index] + 3, length)
            self._texts[index] = text.decode(TEXT_ENCODING)
        return self._texts[index]

    def named(self, index: int, tag: int) -> str:
        """Return the text of a constant that consists of one: of a class, a string, a type of methods."""
        return self.text(self.numbers(index, tag)[0])

    def name_and_type(self, index: int) -> tuple[str, str]:
        """Return a name and a descriptor."""
        name, descriptor = self.numbers(index, Tag.NAME_AND_TYPE)
        return self.text(name), self.text(descriptor)

    def member(self, index: int) -> Member:
        """Return a field or method."""
        owner, name_and_type = self.numbers(index, *MEMBERS)
        return Member(self.tag(index), self.named(owner, Tag.CLASS), *self.name_and_type(name_and_type))

    def method_handle(self, index: int) -> MethodHandle:
        """Return a method handle."""
        kind, member = self.numbers(index, Tag.METHOD_HANDLE)
        return MethodHandle(kind, self.member(member))


class ClassFile:
    """The parts of a class file that call sites need.

    `methods` has the access flags (table 4.6-A) by name and descriptor. The constant of a call site names one
    of the `bootstrap_methods` by its index.
    """

    def __init__(self, content: bytes) -> None:
        """Read a class file. Raise ClassFileError if it is none."""
        self.content = content
        if _unpack(">I", content, 0) != (MAGIC,):
            raise ClassFileError("no class file")
        self.pool = ConstantPool(content)
        self.methods: dict[tuple[str, str], int] = {}
        self.call_sites: list[CallSite] = []
        self.bootstrap_methods: list[BootstrapMethod] = []
        place = self.pool.end
        _, this, _, interfaces = _unpack(">HHHH", content, place)
        self.name = self.pool.named(this, Tag.CLASS)
        place = self._skip_fields(place + 8 + 2 * interfaces)
        place = self._read_methods(place)
        attributes, place = self._attributes(place)
        for attribute in attributes:
            if attribute.name == "BootstrapMethods":
                self._read_bootstrap_methods(attribute)
        if place != len(content):
            raise ClassFileError("bytes follow the class")

    def _skip_fields(self, place: int) -> int:
        (count,) = _unpack(">H", self.content, place)
        place += 2
        for _ in range(count):
            _, place = self._attributes(place + 6)
        return place

    def _read_methods(self, place: int) -> int:
        (count,) = _unpack(">H", self.content, place)
        place += 2
        for _ in range(count):
            access, name, descriptor = _unpack(">HHH", self.content, place)
            self.methods[self.pool.text(name), self.pool.text(descriptor)] = access
            attributes, place = self._attributes(place + 6)
            for attribute in attributes:
                if attribute.name == "Code":
                    self.call_sites += self._call_sites(attribute)
        return place

    def _attributes(self, place: int) -> tuple[list[_Attribute], int]:
        """Return the attributes that are listed at a place (4.7), and where they end."""
        (count,) = _unpack(">H", self.content, place)
        place += 2
        found = []
        for _ in range(count):
            name, size = _unpack(">HI", self.content, place)
            found.append(_Attribute(self.pool.text(name), place + 6, size))
            place += 6 + size
        return found, place

    def _call_sites(self, attribute: _Attribute) -> Iterator[CallSite]:
        """Yield the call sites in a `Code` attribute (4.7.3)."""
        content = attribute.part_of(self.content)
        _, _, size = _unpack(">HHI", content, 0)
        code = _slice(content, CODE_START, size)
        if _LOOK.search(code):
            for offset in dynamic_calls(code):
                (constant,) = _unpack(">H", code, offset + 1)
                yield CallSite(attribute.place + CODE_START + offset, constant)

    def _read_bootstrap_methods(self, attribute: _Attribute) -> None:
        content = attribute.part_of(self.content)
        (count,) = _unpack(">H", content, 0)
        place = 2
        for _ in range(count):
            handle, size = _unpack(">HH", content, place)
            arguments = _unpack(f">{size}H", content, place + 4)
            self.bootstrap_methods.append(BootstrapMethod(handle, arguments))
            place += 4 + 2 * size


def dynamic_calls(code: bytes) -> Iterator[int]:
    """Yield the offsets of `invokedynamic` in the code of a method."""
    offset = 0
    while offset < len(code):
        opcode = code[offset]
        if opcode == INVOKEDYNAMIC:
            yield offset
        varying = _VARYING.get(opcode)
        length = varying(code, offset) if varying else _LENGTHS.get(opcode)
        if length is None:
            raise ClassFileError(f"the unknown instruction {opcode}")
        offset += length
    if offset != len(code):
        raise ClassFileError("the last instruction is cut")


def _table_switch_length(code: bytes, offset: int) -> int:
    padded = (offset & ~3) + 4  # the operands begin at a multiple of four bytes
    low, high = _unpack(">ii", code, padded + 4)
    if low > high:
        raise ClassFileError("a switch from a higher number to a lower one")
    return padded + 12 + 4 * int(high - low + 1) - offset


def _lookup_switch_length(code: bytes, offset: int) -> int:
    padded = (offset & ~3) + 4
    (count,) = _unpack(">i", code, padded + 4)
    if count < 0:
        raise ClassFileError("a switch with fewer than no cases")
    return padded + 8 + 8 * int(count) - offset


def _wide_length(code: bytes, offset: int) -> int:
    return 6 if code[offset + 1 : offset + 2] == bytes([_IINC]) else 4


_VARYING = {
    _TABLESWITCH: _table_switch_length,
    _LOOKUPSWITCH: _lookup_switch_length,
    _WIDE: _wide_length,
}


def _unpack(form: str, content: bytes, place: int) -> tuple[Any, ...]:
    try:
        return struct.unpack_from(form, content, place)
    except struct.error:
        raise ClassFileError("the class file ends too early") from None


def _slice(content: bytes, start: int, size: int) -> bytes:
    found = content[start : start + size]
    if len(found) != size:
        raise ClassFileError("the class file ends too early")
    return found
