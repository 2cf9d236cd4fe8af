"""Functions and concatenations of a Java class as plain classes, which Java's class archive keeps.

A lambda is compiled to a call site (`invokedynamic`), for which each JVM makes a class when it gets there.
The class archive keeps these classes for lambdas that are not serializable. All functions of Scala are
serializable, so each start of Spark makes 1,400 classes anew, and some more for concatenations of text.

`rewrite_class` replaces such a call site by the call of a static method of a class that is generated here and
does the same. Both instructions leave the same on the stack, and `nop` fills the difference of their lengths,
so nothing else of the method changes.

A call site that is not understood stays as it is:

- a lambda that is not serializable, which the archive keeps
- a lambda whose code is private, or a method that its class inherits: other classes may not call or see it
- a lambda that boxes or widens numbers, and a concatenation with constants other than text
- anything in a class with CLOSURE_MARK in its name
"""

import struct
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from enum import IntFlag
from itertools import count

from kdissect.spark.startup.class_file import (
    BootstrapMethod,
    ClassFile,
    ClassFileError,
    ConstantPool,
    Member,
    MethodHandle,
    Tag,
    parse_descriptor,
)
from kdissect.spark.startup.class_writer import (
    Access,
    ClassWriter,
    Opcode,
    PoolWriter,
    class_of,
    is_reference,
)
from kdissect.spark.startup.function_writer import (
    FACTORY,
    HandleKind,
    NotUnderstoodError,
    SerializableFunction,
    add_concatenation,
    write_function,
)
from kdissect.spark.startup.linked_functions import LinkedFunctions

# Spark's ClosureCleaner takes a class with this in its name for a closure of Scala 2.11, and looks for what
# it refers to. So no generated class may have it in its name, and no class that has it is rewritten.
CLOSURE_MARK = "$anonfun$"
FUNCTION = "$$Function"  # a number follows
STRINGS = "$$Strings"
ALL_FUNCTIONS = LinkedFunctions()


class LambdaFlag(IntFlag):
    """Flags of LambdaMetafactory.altMetafactory (documentation of java.lang.invoke)."""

    SERIALIZABLE = 1
    MARKERS = 2
    BRIDGES = 4


@dataclass(frozen=True, slots=True)
class RewrittenClass:
    """New content of a class, and the classes that it needs beside it, by name."""

    name: str
    content: bytes
    generated: Mapping[str, bytes]


def rewrite_class(content: bytes, linked: Container[Member] = ALL_FUNCTIONS) -> RewrittenClass | None:
    """Return a class with calls in the place of call sites, or None if it has no call site to replace.

    A lambda whose code is not `linked` stays as it is. Raise ClassFileError if the bytes are no class file.
    """
    if not any(method.encode() in content for _, method in _FACTORIES):
        return None
    host = ClassFile(content)
    if CLOSURE_MARK in host.name or not host.name.isascii():
        return None
    generated = _GeneratedClasses(host, linked)
    calls = {site.place: generated.factory(site.constant) for site in host.call_sites}
    pool = PoolWriter(host.pool.count)
    rewritten = bytearray(content)
    for place, factory in calls.items():
        if factory:
            call = struct.pack(">BHxx", Opcode.INVOKESTATIC, pool.member(factory))  # NOP is 0
            rewritten[place : place + len(call)] = call
    if rewritten == content:
        return None
    struct.pack_into(">H", rewritten, ConstantPool.START, pool.count)
    rewritten[host.pool.end : host.pool.end] = pool.content
    return RewrittenClass(host.name, bytes(rewritten), generated.contents())


class _GeneratedClasses:
    """Classes beside one class, its host: one for each function, and one for all concatenations."""

    def __init__(self, host: ClassFile, linked: Container[Member]) -> None:
        self.host, self.linked = host, linked
        self._functions: dict[str, bytes] = {}
        self._strings = ClassWriter(host.name + STRINGS)
        self._concatenations = count()
        self._factories: dict[int, Member | None] = {}

    def factory(self, constant: int) -> Member | None:
        """Return the static method that does what a call site does, or None if that is not understood.

        Call sites with the same constant do the same.
        """
        if constant not in self._factories:
            bootstrap, name_and_type = self.host.pool.numbers(constant, Tag.INVOKE_DYNAMIC)
            if bootstrap >= len(self.host.bootstrap_methods):
                raise ClassFileError(f"there is no bootstrap method {bootstrap}")
            method = self.host.bootstrap_methods[bootstrap]
            linker = self.host.pool.method_handle(method.handle).member
            make = _FACTORIES.get((linker.owner, linker.name))
            try:
                made = make(self, method, *self.host.pool.name_and_type(name_and_type)) if make else None
            except NotUnderstoodError:
                made = None
            self._factories[constant] = made
        return self._factories[constant]

    def contents(self) -> dict[str, bytes]:
        """Return the classes by name."""
        strings = {self._strings.name: self._strings.content()} if self._strings.methods else {}
        return self._functions | strings

    def add_function(self, bootstrap: BootstrapMethod, method: str, descriptor: str) -> Member:
        """Add the class of a serializable lambda, and return its factory."""
        function = _read_function(self.host, bootstrap, method, descriptor)
        if function.implementation.member not in self.linked:
            raise NotUnderstoodError
        name = f"{self.host.name}{FUNCTION}{len(self._functions)}"
        self._functions[name] = write_function(name, function)
        return Member(Tag.METHOD, name, FACTORY, descriptor)

    def add_concatenation(self, bootstrap: BootstrapMethod, _: str, descriptor: str) -> Member:
        """Add a method for a concatenation, and return it."""
        pool = self.host.pool
        recipe, *constants = bootstrap.arguments or (0,)
        if any(pool.tag(constant) != Tag.STRING for constant in constants):
            raise NotUnderstoodError
        texts = [pool.named(constant, Tag.STRING) for constant in constants]
        name = f"{FACTORY}{next(self._concatenations)}"
        return add_concatenation(self._strings, name, descriptor, pool.named(recipe, Tag.STRING), texts)


_FACTORIES: Mapping[tuple[str, str], Callable[[_GeneratedClasses, BootstrapMethod, str, str], Member]] = {
    ("java/lang/invoke/LambdaMetafactory", "altMetafactory"): _GeneratedClasses.add_function,
    ("java/lang/invoke/StringConcatFactory", "makeConcatWithConstants"): _GeneratedClasses.add_concatenation,
}
"""Makers of a factory, by the method that links a call site."""


def _read_function(
    host: ClassFile, bootstrap: BootstrapMethod, method: str, descriptor: str
) -> SerializableFunction:
    """Return the function that LambdaMetafactory.altMetafactory is asked for.

    Raise NotUnderstoodError if it stays a lambda.
    """
    pool, arguments = host.pool, list(bootstrap.arguments)
    if len(arguments) < 4:
        raise ClassFileError("a lambda with too few arguments")
    called_as, implementation, actual = arguments[:3]
    (flags,) = pool.numbers(arguments[3], Tag.INTEGER)
    rest = arguments[4:]
    markers = _take_counted(pool, rest) if flags & LambdaFlag.MARKERS else []
    bridges = _take_counted(pool, rest) if flags & LambdaFlag.BRIDGES else []
    kept, interface = parse_descriptor(descriptor)
    handle = pool.method_handle(implementation)
    if not flags & LambdaFlag.SERIALIZABLE or not is_reference(interface) or not _may_call(host, handle):
        raise NotUnderstoodError
    return SerializableFunction(
        [class_of(interface), *(pool.named(marker, Tag.CLASS) for marker in markers)],
        kept,
        method,
        list(dict.fromkeys(pool.named(index, Tag.METHOD_TYPE) for index in (called_as, *bridges))),
        pool.named(actual, Tag.METHOD_TYPE),
        handle,
    )


def _take_counted(pool: ConstantPool, arguments: list[int]) -> list[int]:
    """Remove a count and as many arguments behind it from the front, and return these."""
    (number,) = pool.numbers(arguments.pop(0) if arguments else 0, Tag.INTEGER)
    if not 0 <= number <= len(arguments):
        raise ClassFileError("a lambda with too few arguments")
    taken, arguments[:number] = arguments[:number], []
    return taken


def _may_call(host: ClassFile, handle: MethodHandle) -> bool:
    """Return whether another class of the package may call the implementation of a lambda.

    The access flags in other classes are not known here. Compilers name a static method of another class only
    if the whole package may call it. They wrap others in a method of the class itself.
    """
    kind, member = handle
    if member.owner != host.name:
        return kind == HandleKind.STATIC
    access = host.methods.get((member.name, member.descriptor))
    return access is not None and not access & Access.PRIVATE
