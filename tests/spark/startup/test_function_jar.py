"""The jar of rewritten classes: what is in it, that Java accepts it, and that the class archive keeps it."""

import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JJavaError

from kdissect.spark.startup.function_classes import FUNCTION, rewrite_class
from kdissect.spark.startup.function_jar import (
    EMPTY_SETTINGS,
    FIXED_TIME,
    rewritten_classes,
    write_function_jar,
)
from kdissect.spark.startup.java import find_java
from kdissect.spark.startup.jvm import spark_jars
from tests.helpers.call_sites import class_name, class_path_option, running_jvm, write_jar
from tests.helpers.tiers import spread, thorough_after

USED = (
    "scala/Function$",
    "scala/Function1",
    "scala/collection/immutable/List",
    "org/apache/spark/SparkConf",
    "org/apache/spark/SparkConf$",
    "org/apache/spark/util/Utils$",
    "java/lang/String",
)
JARS = [jar for jar in spark_jars() if jar.name.startswith(("scala-library", "spark-core"))]


def classes_with_call_sites(*prefixes: str) -> list[str]:
    """Return the names of classes in jars of Spark that can be rewritten."""
    jars = [jar for jar in spark_jars() if jar.name.startswith(prefixes)]
    names = []
    for jar in jars:
        with zipfile.ZipFile(jar) as opened:
            names += [name.removesuffix(".class") for name in opened.namelist() if "META-INF" not in name]
    return [found.name for found in rewritten_classes(jars, names)]


def entries(jar: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(jar) as opened:
        assert {entry.date_time for entry in opened.infolist()} == {FIXED_TIME}
        return {name: opened.read(name) for name in opened.namelist()}


def test_rewritten_and_generated_classes_and_empty_settings(tmp_path: Path) -> None:
    target = tmp_path / "functions.jar"
    generated = write_function_jar(JARS, USED, target)
    found = entries(target)
    assert list(tmp_path.iterdir()) == [target]
    assert {name: found[name] for name in EMPTY_SETTINGS} == EMPTY_SETTINGS
    names = {name.removesuffix(".class") for name in found if name not in EMPTY_SETTINGS}
    assert names == {*USED, *generated} - {"java/lang/String"}
    assert f"scala/Function1{FUNCTION}0" in generated
    assert all(rewrite_class(content) is None for content in found.values())


def test_the_same_classes_make_the_same_jar(tmp_path: Path) -> None:
    jars = [tmp_path / "one.jar", tmp_path / "other.jar"]
    assert write_function_jar(JARS, USED, jars[0]) == write_function_jar(JARS, sorted(USED), jars[1])
    assert jars[0].read_bytes() == jars[1].read_bytes()


def library() -> dict[str, bytes]:
    path = next(path for path in JARS if path.name.startswith("scala-library"))
    with zipfile.ZipFile(path) as jar:
        return {name: jar.read(f"{name}.class") for name in ("scala/Function1", "scala/Function2")}


def test_the_first_jar_that_has_a_class_counts(tmp_path: Path) -> None:
    classes = library()
    first = write_jar(tmp_path / "first.jar", {"scala/Function1": b"no class altMetafactory"})
    second = write_jar(tmp_path / "second.jar", classes)
    names = sorted(classes)
    assert [found.name for found in rewritten_classes([first, second], names)] == ["scala/Function2"]
    assert [found.name for found in rewritten_classes([second, first], names)] == names


@pytest.mark.parametrize(
    ("name", "content", "left"),
    [
        ("META-INF/MANIFEST.MF", b"Manifest-Version: 1.0\r\nSealed: true\r\n", 0),
        ("META-INF/MANIFEST.MF", b"Manifest-Version: 1.0\r\nSealed: false\r\n", 2),
        ("META-INF/KEY.SF", b"", 0),
        ("META-INF/versions/11/scala/Function1.class", b"", 1),
        ("META-INF/versions/11/scala/Function3.class", b"", 2),
    ],
)
def test_jars_whose_classes_no_other_jar_may_have(
    tmp_path: Path, name: str, content: bytes, left: int
) -> None:
    jar = write_jar(tmp_path / "some.jar", library())
    with zipfile.ZipFile(jar, "a") as opened:
        opened.writestr(name, content)
    assert len(list(rewritten_classes([jar], library()))) == left


def test_classes_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    classes = library()
    jar = write_jar(tmp_path / "damaged.jar", classes)
    content = bytearray(jar.read_bytes())
    content[content.index(classes["scala/Function1"]) + 1000] ^= 1  # its checksum is wrong then
    jar.write_bytes(content)
    assert [found.name for found in rewritten_classes([jar], classes)] == ["scala/Function2"]
    no_jar = tmp_path / "none.jar"
    no_jar.write_bytes(b"PK")
    assert len(list(rewritten_classes([no_jar, jar], classes))) == 1
    wrong_place = write_jar(tmp_path / "wrong.jar", {"scala/Function2": classes["scala/Function1"]})
    assert not list(rewritten_classes([wrong_place], classes))


def test_no_half_jar_is_left(tmp_path: Path) -> None:
    target = tmp_path / "functions.jar"
    target.write_bytes(b"older")
    with pytest.raises(OSError, match="missing"):
        write_function_jar([tmp_path / "missing.jar"], USED, target)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"older"]


def refusals(gateway: JavaGateway, names: Sequence[str]) -> dict[str, str]:
    """Return what Java says about classes that it does not link. Before that it verifies them."""
    loader = gateway.jvm.java.lang.ClassLoader.getSystemClassLoader()
    for_name, found = gateway.jvm.java.lang.Class.forName, {}
    for name in names:
        try:
            for_name(name.replace("/", "."), False, loader).getDeclaredConstructors()
        except Py4JJavaError as error:
            found[name] = class_name(error.java_exception)
    return found


@pytest.mark.java
@pytest.mark.parametrize(
    ("jars", "count"), thorough_after(1, [(("scala-library",), 60), (("scala-", "json4s", "spark-"), 10_000)])
)
def test_java_verifies_rewritten_and_generated_classes(
    tmp_path: Path, jars: tuple[str, ...], count: int
) -> None:
    target = tmp_path / "functions.jar"
    names = spread(classes_with_call_sites(*jars), count)
    generated = write_function_jar(spark_jars(), names, target)
    assert len(generated) > 3 * len(names) > 100
    with running_jvm([target]) as gateway:
        assert code_source(gateway, names[0]) == code_source(gateway, generated[-1]) == str(target)
        refused = refusals(gateway, [*names, *generated])
    # PySpark lacks jars that some classes of Spark need, with which no command can start.
    absent = {"java.lang.NoClassDefFoundError"} if count > len(names) else set()
    assert set(refused.values()) <= absent
    assert len(refused) < len(names) / 100


def code_source(gateway: JavaGateway, name: str) -> str:
    domain = gateway.jvm.java.lang.Class.forName(name.replace("/", ".")).getProtectionDomain()
    return str(domain.getCodeSource().getLocation().getPath())


def answers(gateway: JavaGateway) -> list[object]:
    """Return what methods of Scala and Spark answer that use functions and join text."""
    jvm = gateway.jvm
    numbers = getattr(getattr(jvm.scala.collection.immutable, "Range$"), "MODULE$").inclusive(1, 10)
    nothing = getattr(getattr(jvm.scala.collection.immutable, "Nil$"), "MODULE$")
    chained = jvm.scala.Function.chain(getattr(nothing, "$colon$colon")(numbers))
    copy = jvm.org.apache.commons.lang3.SerializationUtils.clone(chained)
    settings = jvm.org.apache.spark.SparkConf(False).set("spark.b", "2").set("spark.a", "1")
    utils = jvm.org.apache.spark.util.Utils
    return [
        *(chained.apply(2), copy.apply(2), chained.andThen(copy).apply(2)),
        *(settings.toDebugString(), settings.getAll()[0].toString(), settings.contains("spark.a")),
        *(utils.bytesToString(123_456_789), utils.msDurationToString(4_000_000)),
        class_name(chained),
    ]


@pytest.mark.java
def test_scala_and_spark_answer_the_same(tmp_path: Path) -> None:
    target = tmp_path / "functions.jar"
    generated = write_function_jar(JARS, USED, target)
    with running_jvm([target]) as changed, running_jvm([]) as plain:
        *found, function = answers(changed)
        *expected, lambda_ = answers(plain)
    assert found == expected
    assert str(function).replace(".", "/") in generated
    assert "$$Lambda" in str(lambda_)


@pytest.mark.java
def test_the_class_archive_keeps_generated_classes(tmp_path: Path) -> None:
    target, archive = tmp_path / "functions.jar", tmp_path / "classes.jsa"
    loaded, listed = tmp_path / "loaded", tmp_path / "listed"
    generated = write_function_jar(JARS, USED, target)
    listed.write_text("\n".join(("java/lang/Object", *USED, *generated)))
    shared = f"-XX:SharedArchiveFile={archive}"
    dump = [str(find_java().program), "-Xshare:dump", f"-XX:SharedClassListFile={listed}", shared]
    subprocess.run([*dump, *class_path_option([target])], capture_output=True, check=True)
    with running_jvm([target], [shared, f"-Xlog:class+load:file={loaded}"]) as gateway:
        function = str(answers(gateway)[-1])
    line = next(line for line in loaded.read_text().splitlines() if f" {function} " in line)
    assert line.endswith("source: shared objects file")
