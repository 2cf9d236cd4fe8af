"""Forms for which no class is written. test_function_classes.py calls those that are written."""

import pytest

from kdissect.spark.startup.class_file import ClassFile, Member, MethodHandle, Tag
from kdissect.spark.startup.class_writer import ClassWriter
from kdissect.spark.startup.function_writer import (
    FACTORY,
    HandleKind,
    NotUnderstoodError,
    SerializableFunction,
    add_concatenation,
    write_function,
)

OBJECT, STRING = "Ljava/lang/Object;", "Ljava/lang/String;"
ANY_TO_ANY = f"({OBJECT}){OBJECT}"


def function(
    descriptor: str,
    kept: tuple[str, ...] = (),
    called_as: str = ANY_TO_ANY,
    actual: str = ANY_TO_ANY,
    kind: int = HandleKind.STATIC,
) -> SerializableFunction:
    handle = MethodHandle(kind, Member(Tag.METHOD, "a/B", "code", descriptor))
    return SerializableFunction(["scala/Function1"], kept, "apply", [called_as], actual, handle)


def test_members_of_a_function() -> None:
    made = ClassFile(write_function("a/F", function(f"(IJ{OBJECT}){STRING}", ("I", "J"))))
    assert {name for name, _ in made.methods} == {"<init>", FACTORY, "apply"}
    assert (FACTORY, "(IJ)Lscala/Function1;") in made.methods
    made = ClassFile(write_function("a/F", function(f"({OBJECT}){STRING}")))
    assert {name for name, _ in made.methods} == {"<init>", "<clinit>", FACTORY, "apply"}


@pytest.mark.parametrize(
    "given",
    [
        function("()V"),
        function(f"({OBJECT})V"),
        function(f"({OBJECT})I"),
        function(f"(I){OBJECT}"),
        function(f"({OBJECT}{OBJECT}){OBJECT}"),
        function(f"({OBJECT}{OBJECT}){OBJECT}", (STRING,)),
        function(f"(J{OBJECT}){OBJECT}", ("I",)),
        function(f"({OBJECT}){OBJECT}", (OBJECT, OBJECT)),
        function(f"(J){OBJECT}", called_as=f"(I){OBJECT}", actual=f"(I){OBJECT}"),
        function(f"({OBJECT}){OBJECT}", actual=f"(){OBJECT}"),
        function(f"({OBJECT}){OBJECT}", kind=7),
        function(
            f"({'I' * 255}){OBJECT}", ("La/B;", *"I" * 255), f"(){OBJECT}", f"(){OBJECT}", HandleKind.VIRTUAL
        ),
    ],
)
def test_functions_that_are_not_understood(given: SerializableFunction) -> None:
    with pytest.raises(NotUnderstoodError):
        write_function("a/F", given)


@pytest.mark.parametrize(
    ("descriptor", "recipe", "constants"),
    [
        (f"(I){STRING}", "no argument", ()),
        (f"(){STRING}", "\1", ()),
        (f"(){STRING}", "\2", ()),
        (f"(){STRING}", "", ("constant",)),
        (f"(I){OBJECT}", "\1", ()),
    ],
)
def test_concatenations_that_are_not_understood(
    descriptor: str, recipe: str, constants: tuple[str, ...]
) -> None:
    writer = ClassWriter("a/S")
    with pytest.raises(NotUnderstoodError):
        add_concatenation(writer, FACTORY, descriptor, recipe, constants)
    assert not writer.methods
