"""Java's class archive.

The classes that the JVM would load, verify and link at every start, in their form in memory (application
class-data sharing, JEP 310).

The first run on a machine starts a process that makes the archive in the background (`archive_maker`). Later
runs map it, which halves the processor time of Spark's start. It lies in the user's cache, under a name made
of everything it depends on: the Java, the jars, the options. One process at a time makes it, under a lock
that ends with that process. The archive appears by a rename, sealed by its size and a checksum of its ends.
An archive that does not fit its seal is made again.

Beside the archive lies the jar of `function_jar`, which stands first on the class path of a JVM that maps it.
"""

import fcntl
import hashlib
import json
import os
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from kdissect.background_program import start_program
from kdissect.cache_directory import is_old, mark_used, remove_old
from kdissect.files import write_atomically
from kdissect.spark.startup.java import Java
from kdissect.startup_switch import Shortcut, is_on

MAKER = "kdissect.spark.startup.archive_maker"
USED_OF_SPARK = "results by collectAsync"
"""A text to change when runs call other methods of Spark: they need other classes then, and a new archive."""

# Bytes at either end that the seal covers; the JVM checks the structure of the rest.
SEALED_ENDS = 1 << 20
FAILED_SECONDS = 86400  # until an archive that could not be made is tried again


class ClassArchive:
    """The archive for one Java, one set of jars, one set of options and one kind of run.

    A kind of run is a name for the classes that it needs, such as sql.
    """

    def __init__(
        self, cache: Path, java: Java, jars: Sequence[Path], options: Sequence[str], kind: str
    ) -> None:
        has_functions = is_on(Shortcut.FUNCTION_CLASSES)
        name = f"classes-{kind}-{_fingerprint(java, jars, [*options, str(has_functions), USED_OF_SPARK])}"
        self.files = ArchiveFiles(cache, name, has_functions)
        self._order = {
            "cache": str(cache),
            "name": name,
            "has_functions": has_functions,
            "kind": kind,
            "java": [str(java.program), *options],
            "jars": [str(jar) for jar in jars],
        }
        self.is_mapped = self.files.are_whole()
        if self.is_mapped:
            self.files.mark_used()

    @property
    def options(self) -> tuple[str, ...]:
        """The options of a JVM that maps the archive; none if there is no archive."""
        return ("-Xshare:auto", f"-XX:SharedArchiveFile={self.files.archive}") if self.is_mapped else ()

    @property
    def first_jars(self) -> Sequence[Path]:
        """The jars that stand before all others on the class path."""
        return self.files.own_jars if self.is_mapped else ()

    def make_in_background(self) -> bool:
        """Start a process that makes the archive.

        Return False if it is there, if it could not be made lately, or if another process makes it.
        """
        if self.is_mapped or self.files.have_failed():
            return False
        try:
            self.files.archive.parent.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.files.lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self.files.are_whole():
                return False
            start_program(MAKER, json.dumps(self._order), lock, os.environ)
        except OSError:
            return False
        finally:
            os.close(lock)
        return True

    def discard(self) -> None:
        """Remove an archive with which the JVM failed."""
        self.files.remove()
        self.is_mapped = False


class ArchiveFiles:
    """The files of an archive in the cache."""

    def __init__(self, cache: Path, name: str, has_functions: bool) -> None:
        self.archive = cache / f"{name}.jsa"
        self.own_jars: tuple[Path, ...] = (cache / f"{name}.jar",) if has_functions else ()
        self.lock, self._seal, self._failure = (
            cache / f"{name}.{kind}" for kind in ("lock", "seal", "failed")
        )

    def are_whole(self) -> bool:
        """Return whether the files are as they were when they were sealed."""
        try:
            return bool(json.loads(self._seal.read_text()) == self._state())
        except (OSError, ValueError):
            return False

    def have_failed(self) -> bool:
        """Return whether the archive could not be made lately."""
        try:
            return time.time() - self._failure.stat().st_mtime < FAILED_SECONDS
        except OSError:
            return False

    def seal(self) -> None:
        """Record that the files are whole, and remove those of archives that were not used for long.

        A lock stays: somebody may hold it, and another one of its name would be another lock.
        """
        write_atomically(self._seal, json.dumps(self._state()))
        cache = self.archive.parent
        used = {self.archive.stem}
        for seal in cache.glob("classes-*.seal"):
            with suppress(OSError):
                if not is_old(seal):
                    used.add(seal.stem)
        found = (path for path in cache.glob("classes-*") if path.suffix != self.lock.suffix)
        remove_old(path for path in found if path.stem not in used)

    def mark_used(self) -> None:
        """Note that the archive is in use. Its jar keeps its time, of which the archive has a record."""
        mark_used(self._seal)

    def unseal(self) -> None:
        """Record that the files are not whole."""
        self._seal.unlink(missing_ok=True)

    def fail(self) -> None:
        """Record that the archive cannot be made."""
        self.remove()
        self._failure.touch()

    def remove(self) -> None:
        """Remove the files."""
        for file in (self._seal, self.archive, *self.own_jars):
            file.unlink(missing_ok=True)

    def _state(self) -> list[dict[str, int]]:
        return [_state_of(file) for file in (self.archive, *self.own_jars)]


def _fingerprint(java: Java, jars: Sequence[Path], options: Sequence[str]) -> str:
    digest = hashlib.sha256(f"{java.program.resolve()} {java.version}\n".encode())
    for jar in jars:
        state = jar.stat()  # the JVM itself refuses an archive when a jar's size or time has changed
        digest.update(f"{jar} {state.st_size} {state.st_mtime_ns}\n".encode())
    digest.update("\n".join(options).encode())
    return digest.hexdigest()[:16]


def _state_of(path: Path) -> dict[str, int]:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        checksum = zlib.crc32(file.read(SEALED_ENDS))
        file.seek(max(0, size - SEALED_ENDS))
        return {"size": size, "crc32": zlib.crc32(file.read(SEALED_ENDS), checksum)}
