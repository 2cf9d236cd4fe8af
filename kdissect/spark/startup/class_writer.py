"""Writing Java class files: constants, and classes whose code has no branches.

Numbers of sections are those of the Java Virtual Machine Specification, SE 17. Code without branches needs no
frames for the verifier (4.10.1). Text is held as in `class_file`.
"""

import struct
from collections.abc import Iterable, Sequence
from enum import IntEnum, IntFlag

from kdissect.spark.startup.class_file import (
    CONSTANT_FORMS,
    MAGIC,
    TEXT_ENCODING,
    TWO_PLACES,
    ClassFileError,
    Member,
    Tag,
    slots,
)

CLASS_VERSION = 52  # Java 8, which every Java that runs Spark reads
OBJECT = "java/lang/Object"
OBJECT_TYPE = f"L{OBJECT};"
CONSTRUCTOR = "<init>"
CLASS_START = "<clinit>"
MOST_CONSTANTS = 0xFFFF  # with index 0, which is not used: the count has two bytes
LONGEST_TEXT = 0xFFFF  # bytes


class Access(IntFlag):
    """Access flags of classes, fields and methods (tables 4.1-B, 4.5-A, 4.6-A)."""

    PUBLIC = 0x1
    PRIVATE = 0x2
    STATIC = 0x8
    FINAL = 0x10
    SUPER = 0x20


class Opcode(IntEnum):
    """Instructions (6.5)."""

    LDC_W = 19
    ALOAD = 25
    DUP = 89
    ARETURN = 176
    RETURN = 177
    GETSTATIC = 178
    PUTSTATIC = 179
    GETFIELD = 180
    PUTFIELD = 181
    INVOKEVIRTUAL = 182
    INVOKESPECIAL = 183
    INVOKESTATIC = 184
    INVOKEINTERFACE = 185
    NEW = 187
    CHECKCAST = 192


_LOADS = {**dict.fromkeys("ZBCSI", 21), "J": 22, "F": 23, "D": 24}  # others are references
_RETURNS = {**dict.fromkeys("ZBCSI", 172), "J": 173, "F": 174, "D": 175, "V": Opcode.RETURN}


def is_reference(type_: str) -> bool:
    """Return whether a descriptor is that of a class or an array."""
    return type_.startswith(("L", "["))


def class_of(type_: str) -> str:
    """Return the class that a reference of this descriptor is cast to, as a constant names it (4.4.1)."""
    return type_ if type_.startswith("[") else type_[1:-1]


def load(type_: str, variable: int) -> bytes:
    """Return the instruction that pushes a local variable."""
    return bytes([_LOADS.get(type_, Opcode.ALOAD), variable])


def load_all(types: Iterable[str], first: int) -> bytes:
    """Return the instructions that push local variables of these types, which begin with number `first`."""
    code = b""
    for type_ in types:
        code += load(type_, first)
        first += slots([type_])
    return code


def return_value(type_: str) -> bytes:
    """Return the instruction that ends a method with a value of this type.

    It drops all else that the stack holds, so a method without a result may leave a value there.
    """
    return bytes([_RETURNS.get(type_, Opcode.ARETURN)])


class PoolWriter:
    """Constants in the order in which they are first asked for. Each is written once.

    Each method returns the index of a constant, and raises ClassFileError if no index is left.
    """

    def __init__(self, count: int = 1) -> None:
        """Begin behind the constants of a pool with this `count`, which is one more than their number."""
        self.count = count
        self.content = bytearray()
        self._known: dict[str | tuple[int, ...], int] = {}  # by text, or by tag and numbers

    def text(self, text: str) -> int:
        """Return the index of a text."""
        index = self._known.get(text)
        if index is None:
            encoded = text.encode(TEXT_ENCODING)
            if len(encoded) > LONGEST_TEXT:
                raise ClassFileError("a text is too long")
            index = self._known[text] = self._add(Tag.TEXT, len(encoded))
            self.content += encoded
        return index

    def long(self, value: int) -> int:
        """Return the index of a number of 64 bits."""
        return self._index(Tag.LONG, value)

    def type(self, name: str) -> int:
        """Return the index of a class."""
        return self._index(Tag.CLASS, self.text(name))

    def string(self, text: str) -> int:
        """Return the index of a string."""
        return self._index(Tag.STRING, self.text(text))

    def member(self, member: Member) -> int:
        """Return the index of a field or method."""
        named = self._index(Tag.NAME_AND_TYPE, self.text(member.name), self.text(member.descriptor))
        return self._index(member.tag, self.type(member.owner), named)

    def _index(self, tag: int, *numbers: int) -> int:
        index = self._known.get((tag, *numbers))
        if index is None:
            index = self._known[tag, *numbers] = self._add(tag, *numbers)
        return index

    def _add(self, tag: int, *numbers: int) -> int:
        index = self.count
        self.count += 2 if tag in TWO_PLACES else 1
        if self.count > MOST_CONSTANTS:
            raise ClassFileError("too many constants")
        self.content += bytes([tag]) + struct.pack(CONSTANT_FORMS[tag], *numbers)
        return index


class ClassWriter:
    """A final class that is being written. Its methods get code that was made with its `pool`."""

    def __init__(self, name: str, interfaces: Iterable[str] = ()) -> None:
        self.name = name
        self.pool = PoolWriter()
        numbers = [self.pool.type(interface) for interface in dict.fromkeys(interfaces)]
        self._head = struct.pack(
            f">4H{len(numbers)}H",
            *(Access.FINAL | Access.SUPER, self.pool.type(name), self.pool.type(OBJECT)),
            *(len(numbers), *numbers),
        )
        self._fields: list[bytes] = []
        self.methods: list[bytes] = []

    def own(self, tag: int, name: str, descriptor: str) -> Member:
        """Return the name of a field or method of this class."""
        return Member(tag, self.name, name, descriptor)

    def use(self, opcode: Opcode, member: Member) -> bytes:
        """Return an instruction that reads or writes a field, or calls a method."""
        return struct.pack(">BH", opcode, self.pool.member(member))

    def use_type(self, opcode: Opcode, name: str) -> bytes:
        """Return an instruction that names a class."""
        return struct.pack(">BH", opcode, self.pool.type(name))

    def use_string(self, text: str) -> bytes:
        """Return the instruction that pushes a string."""
        return struct.pack(">BH", Opcode.LDC_W, self.pool.string(text))

    def field(self, access: Access, name: str, descriptor: str) -> Member:
        """Add a field, and return its name."""
        self._fields.append(self._member_head(access, name, descriptor) + bytes(2))
        return self.own(Tag.FIELD, name, descriptor)

    def constant_field(self, name: str, value: int) -> None:
        """Add a static field with a constant of 64 bits (4.7.2)."""
        head = self._member_head(Access.PRIVATE | Access.STATIC | Access.FINAL, name, "J")
        attribute = struct.pack(">HHIH", 1, self.pool.text("ConstantValue"), 2, self.pool.long(value))
        self._fields.append(head + attribute)

    def method(
        self, access: Access, name: str, types: tuple[Sequence[str], str], code: bytes, stack: int
    ) -> Member:
        """Add a method, and return its name.

        `types` are those of its parameters and of its result. Its stack holds at most `stack` words (4.7.3).
        """
        parameters, result = types
        descriptor = f"({''.join(parameters)}){result}"
        variables = slots(parameters) + (0 if access & Access.STATIC else 1)
        body = struct.pack(">HHI", stack, variables, len(code)) + code
        body += bytes(4)  # no exceptions are handled, and no attributes follow
        head = struct.pack(">HHI", 1, self.pool.text("Code"), len(body))
        self.methods.append(self._member_head(access, name, descriptor) + head + body)
        return self.own(Tag.METHOD, name, descriptor)

    def _member_head(self, access: Access, name: str, descriptor: str) -> bytes:
        return struct.pack(">HHH", access, self.pool.text(name), self.pool.text(descriptor))

    def content(self) -> bytes:
        """Return the class file."""
        return b"".join(
            (
                struct.pack(">IHHH", MAGIC, 0, CLASS_VERSION, self.pool.count),
                self.pool.content,
                self._head,
                *(struct.pack(">H", len(self._fields)), *self._fields),
                *(struct.pack(">H", len(self.methods)), *self.methods),
                bytes(2),  # no attributes
            )
        )
