"""Java classes with call sites, as compilers write them, and a JVM in which they are called.

No compiler of Java is needed: code of a few instructions is put together here.
"""

import os
import struct
import subprocess
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway

from kdissect.spark.startup.class_file import Member, Tag, parse_descriptor, slots
from kdissect.spark.startup.class_writer import (
    Access,
    ClassWriter,
    load_all,
    return_value,
)
from kdissect.spark.startup.function_classes import LambdaFlag
from kdissect.spark.startup.function_writer import HandleKind
from kdissect.spark.startup.java import find_java
from kdissect.spark.startup.jvm import spark_jars

PUBLIC_STATIC = Access.PUBLIC | Access.STATIC
LINKERS = {
    "altMetafactory": "java/lang/invoke/LambdaMetafactory",
    "metafactory": "java/lang/invoke/LambdaMetafactory",
    "makeConcatWithConstants": "java/lang/invoke/StringConcatFactory",
}
LOOKUP_TYPES = "Ljava/lang/invoke/MethodHandles$Lookup;Ljava/lang/String;Ljava/lang/invoke/MethodType;"


class CallingClass(ClassWriter):
    """A class whose static methods have call sites."""

    def __init__(self, name: str, interfaces: Sequence[str] = ()) -> None:
        super().__init__(name, interfaces)
        self._bootstraps: list[bytes] = []
        self._attribute = self.pool.text("BootstrapMethods")

    def content(self) -> bytes:
        body = struct.pack(">H", len(self._bootstraps)) + b"".join(self._bootstraps)
        head = struct.pack(">HHI", 1, self._attribute, len(body))
        return super().content()[:-2] + head + body

    def handle(self, kind: HandleKind, member: Member) -> int:
        return self.pool._index(Tag.METHOD_HANDLE, kind, self.pool.member(member))

    def method_type(self, descriptor: str) -> int:
        return self.pool._index(Tag.METHOD_TYPE, self.pool.text(descriptor))

    def integer(self, value: int) -> int:
        return self.pool._index(Tag.INTEGER, value)

    def call_site(self, linker: str, name: str, descriptor: str, arguments: Sequence[int]) -> bytes:
        """Return an `invokedynamic`. Its linker gets constants with these indexes."""
        types = f"({LOOKUP_TYPES}[Ljava/lang/Object;)Ljava/lang/invoke/CallSite;"
        if linker == "makeConcatWithConstants":
            types = types.replace("[", "Ljava/lang/String;[")
        elif linker == "metafactory":
            parts = (
                "Ljava/lang/invoke/MethodType;Ljava/lang/invoke/MethodHandle;Ljava/lang/invoke/MethodType;"
            )
            types = types.replace("[Ljava/lang/Object;", parts)
        handle = self.handle(HandleKind.STATIC, Member(Tag.METHOD, LINKERS[linker], linker, types))
        self._bootstraps.append(struct.pack(f">HH{len(arguments)}H", handle, len(arguments), *arguments))
        number = len(self._bootstraps) - 1
        named = self.pool._index(Tag.NAME_AND_TYPE, self.pool.text(name), self.pool.text(descriptor))
        return struct.pack(">BHxx", 186, self.pool._index(Tag.INVOKE_DYNAMIC, number, named))

    def static(self, name: str, descriptor: str, code: bytes, access: Access = PUBLIC_STATIC) -> Member:
        """Add a static method that passes its arguments to some code and returns what that leaves."""
        parameters, result = parse_descriptor(descriptor)
        code = load_all(parameters, 0) + code + return_value(result)
        return self.method(access, name, (parameters, result), code, slots(parameters) + 4)

    def function(
        self,
        name: str,
        descriptor: str,
        method: str,
        types: Sequence[str],
        implementation: tuple[HandleKind, Member],
        flags: LambdaFlag = LambdaFlag.SERIALIZABLE,
        **more: Sequence[str],
    ) -> None:
        """Add a static method that returns a lambda: its descriptor has the kept values and the interface.

        `types` are the descriptors under which the method of the interface is called and that of its values.
        `markers` and `bridges` are further interfaces and descriptors.
        """
        called_as, actual = types
        arguments = [self.method_type(called_as), self.handle(*implementation), self.method_type(actual)]
        counted: list[int] = []
        for flag, indexes in (
            (LambdaFlag.MARKERS, [self.pool.type(marker) for marker in more.get("markers", ())]),
            (LambdaFlag.BRIDGES, [self.method_type(bridge) for bridge in more.get("bridges", ())]),
        ):
            if indexes:
                flags |= flag
                counted += [self.integer(len(indexes)), *indexes]
        arguments += [self.integer(flags), *counted]
        self.static(name, descriptor, self.call_site("altMetafactory", method, descriptor, arguments))

    def concatenation(self, name: str, parameters: str, recipe: str, constants: Sequence[str] = ()) -> None:
        """Add a static method that joins its arguments by a recipe."""
        descriptor = f"({parameters})Ljava/lang/String;"
        strings = [self.pool.string(text) for text in (recipe, *constants)]
        self.static(name, descriptor, self.call_site("makeConcatWithConstants", name, descriptor, strings))


def write_jar(path: Path, classes: Mapping[str, bytes]) -> Path:
    """Write classes to a jar, and return its path."""
    with zipfile.ZipFile(path, "w") as jar:
        for name, content in classes.items():
            jar.writestr(f"{name}.class", content)
    return path


def class_path_option(jars: Sequence[Path]) -> tuple[str, str]:
    """Return the option of Java for a class path of these jars and those of Spark behind them."""
    return "-cp", os.pathsep.join(map(str, (*jars, *spark_jars())))


@contextmanager
def running_jvm(jars: Sequence[Path], options: Sequence[str] = ()) -> Iterator[JavaGateway]:
    """Start a JVM with these jars and those of Spark behind them. Yield what calls its methods."""
    command = [
        *(str(find_java().program), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *options),
        *class_path_option(jars),
        *("py4j.GatewayServer", "--die-on-broken-pipe", "0"),
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        port = int(process.stdout.readline())
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
        try:
            yield gateway
        finally:
            gateway.close()
            process.kill()


def class_name(value: Any) -> str:
    """Return the name of the class of a Java object."""
    return str(value.getClass().getName())
