"""A jar with classes of Spark whose functions the class archive can keep (`function_classes`).

It belongs before Spark's jars on the class path, so that its classes are loaded and theirs are not.

Hadoop reads its defaults from `core-default.xml` five times in a start, 3,000 lines each time. For files of
this machine its code has the same defaults, so the jar has an empty one as well.
"""

import re
import zipfile
import zlib
from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path

from kdissect.files import UnfinishedOutput
from kdissect.spark.startup.class_file import ClassFileError, Member
from kdissect.spark.startup.function_classes import ALL_FUNCTIONS, RewrittenClass, rewrite_class

EMPTY_SETTINGS = {
    "core-default.xml": b"<configuration/>",
    "core-site.xml": b"<configuration/>",  # else Hadoop looks for one in each jar, and finds none
}
CLASS_SUFFIX = ".class"
COMPRESSION_LEVEL = 1  # the next ones save a twentieth of the size
FIXED_TIME = (1980, 1, 1, 0, 0, 0)  # the same classes make the same jar

MANIFEST = "META-INF/MANIFEST.MF"
_SEALED = re.compile(rb"^Sealed: *true", re.IGNORECASE | re.MULTILINE)
_SIGNATURE = re.compile(r"META-INF/[^/]+\.SF", re.IGNORECASE)
_NEWER = re.compile(r"META-INF/versions/\d+/(.+)")
_UNREADABLE = (ClassFileError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError)  # the last: encrypted


def write_function_jar(
    jars: Sequence[Path], names: Iterable[str], target: Path, linked: Container[Member] = ALL_FUNCTIONS
) -> list[str]:
    """Write the jar, and return the names of the classes that were generated for it.

    `jars` are those of the class path, in its order. `names` are those of the classes that are used, such as
    org/apache/spark/SparkContext. A class that cannot be read is left out, so Java loads that of Spark's jar.
    Raise OSError if a jar cannot be opened, or this one cannot be written.
    """
    generated: list[str] = []
    with UnfinishedOutput(target) as part:
        with part.binary_file() as file, zipfile.ZipFile(file, "w") as jar:
            for name, content in EMPTY_SETTINGS.items():
                _add(jar, name, content)
            for rewritten in rewritten_classes(jars, names, linked):
                _add(jar, rewritten.name + CLASS_SUFFIX, rewritten.content)
                for name, content in rewritten.generated.items():
                    _add(jar, name + CLASS_SUFFIX, content)
                generated += rewritten.generated
        part.move()
    return generated


def rewritten_classes(
    jars: Iterable[Path], names: Iterable[str], linked: Container[Member] = ALL_FUNCTIONS
) -> Iterator[RewrittenClass]:
    """Yield the classes with these names that can be rewritten, from the first jar that has each."""
    left = {name + CLASS_SUFFIX for name in names}
    for path in jars:
        try:
            with zipfile.ZipFile(path) as jar:
                entries = dict.fromkeys(jar.namelist())
                found = [entry for entry in entries if entry in left]
                left.difference_update(found)
                if found and not _is_guarded(jar):
                    newer = {match[1] for entry in entries if (match := _NEWER.fullmatch(entry))}
                    yield from _rewritten(jar, (entry for entry in found if entry not in newer), linked)
        except _UNREADABLE:
            continue


def _rewritten(
    jar: zipfile.ZipFile, entries: Iterable[str], linked: Container[Member]
) -> Iterator[RewrittenClass]:
    for entry in entries:
        try:
            rewritten = rewrite_class(jar.read(entry), linked)
        except _UNREADABLE:
            continue
        if rewritten and rewritten.name + CLASS_SUFFIX == entry:
            yield rewritten


def _is_guarded(jar: zipfile.ZipFile) -> bool:
    """Return whether a jar is sealed or signed.

    Java refuses classes of other jars in the packages of such a jar.
    """
    entries = jar.namelist()
    if any(_SIGNATURE.fullmatch(entry) for entry in entries):
        return True
    return MANIFEST in entries and _SEALED.search(jar.read(MANIFEST)) is not None


def _add(jar: zipfile.ZipFile, name: str, content: bytes) -> None:
    jar.writestr(zipfile.ZipInfo(name, FIXED_TIME), content, zipfile.ZIP_DEFLATED, COMPRESSION_LEVEL)
