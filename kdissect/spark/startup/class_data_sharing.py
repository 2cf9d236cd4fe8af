"""Java's class archive.

The classes that the JVM would load, verify and link at every start, in their form in memory.

The first run on a machine records the archive (application class-data sharing, JEP 350); later runs map it,
which halves the processor time of Spark's start. It lies in the user's cache, under a name made of everything
it depends on: the Java, the jars, the options. One run at a time records, under a lock that ends with the
process. The archive appears by a rename, sealed by its size and a checksum of its ends. An archive that does
not fit its seal is recorded again.

The JVM writes the recording when it ends, which takes seconds. No run waits for that: this module, as a
program of its own, inherits the lock, waits for the end of the JVM, and moves the recording to its place.
"""

import fcntl
import hashlib
import json
import os
import subprocess
import sys
import time
import zlib
from collections.abc import Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path

from kdissect.files import write_atomically
from kdissect.jit import kernel_cache
from kdissect.spark.startup.java import Java

# Bytes at either end that the seal covers; the JVM checks the structure of the rest.
SEALED_ENDS = 1 << 20
PATIENCE_SECONDS = 300  # for the end of a JVM
KEPT_SECONDS = 30 * 86400  # archives of other versions are removed when they are older


class ArchiveUse(Enum):
    """How this run uses the archive."""

    MAP = "map"
    RECORD = "record"
    NOTHING = "nothing"


class ClassArchive:
    """The archive for one Java, one set of jars, one set of options and one kind of run.

    A kind of run is a name for the classes that it needs, such as sql.
    """

    def __init__(
        self, cache: Path, java: Java, jars: Sequence[Path], options: Sequence[str], kind: str
    ) -> None:
        name = f"classes-{kind}-{_fingerprint(java, jars, options)}"
        self.path = cache / f"{name}.jsa"
        self._seal = seal_path(self.path)
        self._recording = cache / f"{name}.{os.getpid()}.recording"
        self._lock: int | None = None
        self.use = self._decide()

    @property
    def options(self) -> tuple[str, ...]:
        """The JVM options for this use."""
        if self.use is ArchiveUse.MAP:
            return ("-Xshare:auto", f"-XX:SharedArchiveFile={self.path}")
        if self.use is ArchiveUse.RECORD:
            return ("-Xshare:auto", f"-XX:ArchiveClassesAtExit={self._recording}")
        return ()

    def keep_in_background(self, jvm: int) -> None:
        """Start a process that keeps the recording of the JVM (its process id) when that JVM has ended."""
        assert self._lock is not None
        with suppress(OSError):  # then the next run records again
            subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "kdissect.spark.startup.class_data_sharing",
                    str(self.path),
                    str(self._recording),
                    str(jvm),
                ],
                env=os.environ | kernel_cache.import_path(),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C and the end of the terminal do not reach it
                pass_fds=[self._lock],
            )
        os.close(self._lock)
        self._lock = None

    def discard(self) -> None:
        """Remove an archive with which the JVM failed, and any recording."""
        if self.use is ArchiveUse.MAP:
            self._seal.unlink(missing_ok=True)
            self.path.unlink(missing_ok=True)
        self.release()
        self.use = ArchiveUse.NOTHING

    def release(self) -> None:
        """Stop recording, and release the lock."""
        if self._lock is not None:
            self._recording.unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = None

    def _decide(self) -> ArchiveUse:
        if self._is_whole():
            return ArchiveUse.MAP
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except OSError:
            return ArchiveUse.NOTHING
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            return ArchiveUse.NOTHING
        self._lock = lock
        return ArchiveUse.RECORD

    def _is_whole(self) -> bool:
        try:
            return bool(json.loads(self._seal.read_text()) == _seal_of(self.path))
        except (OSError, ValueError):
            return False


def seal_path(path: Path) -> Path:
    """Return the path of the seal of an archive."""
    return path.with_suffix(".seal")


def keep_recording(recording: Path, path: Path) -> bool:
    """Move the recording of a JVM that has ended to its place. Return whether there was one."""
    try:
        seal_path(path).unlink(missing_ok=True)
        seal = _seal_of(recording)
        recording.replace(path)
        write_atomically(seal_path(path), json.dumps(seal))
        _remove_old(path)
    except OSError:
        return False
    finally:
        recording.unlink(missing_ok=True)
    return True


def _remove_old(path: Path) -> None:
    for other in path.parent.glob("classes-*"):
        if other.stem != path.stem and other.stat().st_mtime < time.time() - KEPT_SECONDS:
            with suppress(OSError):
                other.unlink()


def _has_ended(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError:
        return True
    try:  # a zombie: its parent has not read its exit code yet
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


def _keep_after_exit(recording: Path, path: Path, process: int) -> None:
    patience = time.monotonic() + PATIENCE_SECONDS
    while not _has_ended(process):
        if time.monotonic() > patience:
            return
        time.sleep(0.05)
    keep_recording(recording, path)


def _fingerprint(java: Java, jars: Sequence[Path], options: Sequence[str]) -> str:
    digest = hashlib.sha256(f"{java.program.resolve()} {java.version}\n".encode())
    for jar in jars:
        state = jar.stat()  # the JVM itself refuses an archive when a jar's size or time has changed
        digest.update(f"{jar} {state.st_size} {state.st_mtime_ns}\n".encode())
    digest.update("\n".join(options).encode())
    return digest.hexdigest()[:16]


def _seal_of(path: Path) -> dict[str, int]:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        checksum = zlib.crc32(file.read(SEALED_ENDS))
        file.seek(max(0, size - SEALED_ENDS))
        return {"size": size, "crc32": zlib.crc32(file.read(SEALED_ENDS), checksum)}


if __name__ == "__main__":
    _keep_after_exit(Path(sys.argv[2]), Path(sys.argv[1]), int(sys.argv[3]))
