"""The functions that a run has linked: those of its classes that later runs will need.

A start links a quarter of the functions of the classes that it loads. Java writes the class of each function
that it links to a folder if it is told to. Such a class calls the method that is the code of the function.
"""

from pathlib import Path

from kdissect.spark.startup.class_file import ClassFileError, ConstantPool, Member, Tag

OPTION = "-Djdk.internal.lambda.dumpProxyClasses"  # up to Java 20; later ones ignore it
CALLED = (Tag.METHOD, Tag.INTERFACE_METHOD)


class LinkedFunctions:
    """The code of functions that are needed.

    All are needed without a folder of linked ones, or with an empty one.
    """

    def __init__(self, folder: Path | None = None) -> None:
        found = folder.rglob("*.class") if folder else ()
        self._code = {called for path in found for called in _called_by(path.read_bytes())}

    def __contains__(self, code: object) -> bool:
        return not self._code or (isinstance(code, Member) and code[1:] in self._code)


def _called_by(content: bytes) -> list[tuple[str, str, str]]:
    """Return owner, name and descriptor of the methods that a class calls."""
    try:
        pool = ConstantPool(content)
        members = [pool.member(index) for index in pool if pool.tag(index) in CALLED]
    except ClassFileError:
        return []
    return [(member.owner, member.name, member.descriptor) for member in members]
