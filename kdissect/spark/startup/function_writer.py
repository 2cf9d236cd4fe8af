"""Java classes in the place of those that LambdaMetafactory and StringConcatFactory make at run time."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise

from kdissect.spark.startup.class_file import (
    MOST_SLOTS,
    Member,
    MethodHandle,
    Tag,
    parse_descriptor,
    slots,
)
from kdissect.spark.startup.class_writer import (
    CLASS_START,
    CONSTRUCTOR,
    OBJECT,
    OBJECT_TYPE,
    Access,
    ClassWriter,
    Opcode,
    class_of,
    is_reference,
    load,
    load_all,
    return_value,
)

SERIALIZABLE = "java/io/Serializable"
STRING_TYPE = "Ljava/lang/String;"
BUILDER = "java/lang/StringBuilder"
BUILDER_TYPE = f"L{BUILDER};"
FACTORY = "make"

ARGUMENT, CONSTANT = "\1", "\2"
"""Characters in a recipe of StringConcatFactory that stand for an argument and for a constant."""

_NEW_OBJECT = Member(Tag.METHOD, OBJECT, CONSTRUCTOR, "()V")
_NEW_BUILDER = Member(Tag.METHOD, BUILDER, CONSTRUCTOR, "()V")
_BUILT = Member(Tag.METHOD, BUILDER, "toString", f"(){STRING_TYPE}")
_APPENDED_AS = dict(zip("ZCBSIJFD", "ZCIIIJFD", strict=True)) | {
    STRING_TYPE: STRING_TYPE
}  # others are objects


class HandleKind(IntEnum):
    """Ways in which a method handle calls its method (table 5.4.3.5-A of the specification)."""

    VIRTUAL = 5
    STATIC = 6
    CONSTRUCTOR = 8
    INTERFACE = 9


_CALLS = {
    HandleKind.VIRTUAL: Opcode.INVOKEVIRTUAL,
    HandleKind.STATIC: Opcode.INVOKESTATIC,
    HandleKind.CONSTRUCTOR: Opcode.INVOKESPECIAL,
    HandleKind.INTERFACE: Opcode.INVOKEINTERFACE,
}


class NotUnderstoodError(Exception):
    """A call site has a form for which no class is written."""


@dataclass(frozen=True, slots=True)
class SerializableFunction:
    """An object of one method, which keeps values and calls another method with them.

    The method can be called by each descriptor of `called_as`. Its arguments have the types of the descriptor
    `actual`, and follow the kept values.
    """

    interfaces: Sequence[str]
    kept: Sequence[str]
    method: str
    called_as: Sequence[str]
    actual: str
    implementation: MethodHandle

    def wanted(self) -> list[str]:
        """Return the types of the values that the implementation takes, its receiver first."""
        kind, member = self.implementation
        parameters, _ = parse_descriptor(member.descriptor)
        has_receiver = kind in (HandleKind.VIRTUAL, HandleKind.INTERFACE)
        return [f"L{member.owner};", *parameters] if has_receiver else parameters

    def result(self) -> str:
        """Return the type of the value that the implementation returns or constructs."""
        kind, member = self.implementation
        _, result = parse_descriptor(member.descriptor)
        return f"L{member.owner};" if kind == HandleKind.CONSTRUCTOR else result


def write_function(name: str, function: SerializableFunction) -> bytes:
    """Return a class whose static method FACTORY makes the object from the values that it keeps.

    Without such values it is the same object each time, as for a lambda. Raise NotUnderstoodError if the
    implementation takes other values than the function has.

    The class is not synthetic. Spark's ClosureCleaner asks a synthetic one for its SerializedLambda, and
    reads the class that made it, to clean closures that were typed into a shell.
    """
    if function.implementation.kind not in _CALLS or slots(wanted := function.wanted()) > MOST_SLOTS:
        raise NotUnderstoodError
    if list(function.kept) != wanted[: len(function.kept)]:  # kept values are never converted
        raise NotUnderstoodError
    writer = ClassWriter(name, (*function.interfaces, SERIALIZABLE))
    writer.constant_field("serialVersionUID", 0)
    fields = [
        writer.field(Access.PRIVATE | Access.FINAL, f"kept{number}", type_)
        for number, type_ in enumerate(function.kept)
    ]
    _add_constructor(writer, fields)
    _add_factory(writer, function)
    for descriptor in function.called_as:
        _add_method(writer, function, fields, parse_descriptor(descriptor))
    return writer.content()


def _add_constructor(writer: ClassWriter, fields: Sequence[Member]) -> None:
    types = [field.descriptor for field in fields]
    code = load(OBJECT_TYPE, 0) + writer.use(Opcode.INVOKESPECIAL, _NEW_OBJECT)
    for number, field in enumerate(fields):
        variable = 1 + slots(types[:number])
        code += load(OBJECT_TYPE, 0) + load(field.descriptor, variable) + writer.use(Opcode.PUTFIELD, field)
    writer.method(Access.PRIVATE, CONSTRUCTOR, (types, "V"), code + return_value("V"), stack=3)


def _add_factory(writer: ClassWriter, function: SerializableFunction) -> None:
    interface = f"L{function.interfaces[0]};"
    constructor = writer.own(Tag.METHOD, CONSTRUCTOR, f"({''.join(function.kept)})V")
    made = writer.use_type(Opcode.NEW, writer.name) + bytes([Opcode.DUP])
    made += load_all(function.kept, 0) + writer.use(Opcode.INVOKESPECIAL, constructor)
    stack = 2 + slots(function.kept)
    if not function.kept:
        only = writer.field(Access.PRIVATE | Access.STATIC | Access.FINAL, "only", interface)
        start = made + writer.use(Opcode.PUTSTATIC, only) + return_value("V")
        writer.method(Access.STATIC, CLASS_START, ((), "V"), start, stack)
        made = writer.use(Opcode.GETSTATIC, only)
    writer.method(Access.STATIC, FACTORY, (function.kept, interface), made + return_value(interface), stack)


def _add_method(
    writer: ClassWriter,
    function: SerializableFunction,
    fields: Sequence[Member],
    called_as: tuple[Sequence[str], str],
) -> None:
    """Add the method of a function as a caller of one descriptor sees it."""
    parameters, result = called_as
    actual_parameters, actual_result = parse_descriptor(function.actual)
    kind, member = function.implementation
    wanted = function.wanted()
    if not len(parameters) == len(actual_parameters) == len(wanted) - len(fields):
        raise NotUnderstoodError
    code = b""
    if kind == HandleKind.CONSTRUCTOR:
        code += writer.use_type(Opcode.NEW, member.owner) + bytes([Opcode.DUP])
    for field in fields:
        code += load(OBJECT_TYPE, 0) + writer.use(Opcode.GETFIELD, field)
    rest = zip(parameters, actual_parameters, wanted[len(fields) :], strict=True)
    for number, types in enumerate(rest):
        code += load(types[0], 1 + slots(parameters[:number])) + _convert(writer, types)
    code += writer.use(_CALLS[HandleKind(kind)], member)
    if kind == HandleKind.INTERFACE:
        code += bytes([slots(wanted), 0])  # the instruction repeats the size of the arguments (6.5)
    if result != "V":
        code += _convert(writer, (function.result(), actual_result, result))
    stack = 2 + slots(wanted)  # a new object lies there twice, and a result may be two words
    writer.method(Access.PUBLIC, function.method, called_as, code + return_value(result), stack)


def _convert(writer: ClassWriter, types: Sequence[str]) -> bytes:
    """Return code that makes a value of the first type one of the second, and so on.

    LambdaMetafactory casts references in this order, too.
    """
    code = b""
    for given, asked in pairwise(types):
        if given == asked:
            continue
        if not (is_reference(given) and is_reference(asked)):
            raise NotUnderstoodError
        if asked != OBJECT_TYPE:
            code += writer.use_type(Opcode.CHECKCAST, class_of(asked))
    return code


def add_concatenation(
    writer: ClassWriter, name: str, descriptor: str, recipe: str, constants: Sequence[str]
) -> Member:
    """Add a static method that joins its arguments as StringConcatFactory does by a recipe. Return its name.

    Raise NotUnderstoodError if the recipe does not fit the arguments and constants.
    """
    parameters, result = parse_descriptor(descriptor)
    pieces = [piece for piece in re.split(f"([{ARGUMENT}{CONSTANT}])", recipe) if piece]
    counts = pieces.count(ARGUMENT), pieces.count(CONSTANT)
    if result != STRING_TYPE or counts != (len(parameters), len(constants)):
        raise NotUnderstoodError
    code = writer.use_type(Opcode.NEW, BUILDER) + bytes([Opcode.DUP])
    code += writer.use(Opcode.INVOKESPECIAL, _NEW_BUILDER)
    variable, arguments, texts = 0, iter(parameters), iter(constants)
    for piece in pieces:
        if piece == ARGUMENT:
            type_ = next(arguments)
            code += load(type_, variable)
            variable += slots([type_])
        else:
            type_ = STRING_TYPE
            code += writer.use_string(next(texts) if piece == CONSTANT else piece)
        append = f"({_APPENDED_AS.get(type_, OBJECT_TYPE)}){BUILDER_TYPE}"
        code += writer.use(Opcode.INVOKEVIRTUAL, Member(Tag.METHOD, BUILDER, "append", append))
    code += writer.use(Opcode.INVOKEVIRTUAL, _BUILT)
    return writer.method(Access.STATIC, name, (parameters, result), code + return_value(result), stack=3)
