"""Java's class archive: what the JVM would load, check and link at every start, kept in the form it has in memory.

The first run of a machine records it (application class-data sharing, JEP 350), later runs map it, which halves the CPU
time that Spark takes to start. It lies in the user's cache under a name made of all it depends on: the Java, the jars,
the options. One run at a time records, under a lock that dies with it; the archive appears by a rename, sealed by
its size and a checksum of its ends, and one that does not fit its seal is recorded anew. Without it all works, slower.

The JVM writes what it recorded when it ends, which takes seconds. Nobody waits for them: this module, as a program of its own, is
handed the lock, waits for the end of the JVM, and keeps what it left.
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

from kdissect.jit import kernel_cache
from kdissect.spark.startup.java import Java

# Bytes at either end that the seal covers: the JVM checks the rest's structure by itself.
SEALED_ENDS = 1 << 20
PATIENCE_SECONDS = 300  # with a JVM that is to end
KEPT_SECONDS = 30 * 86400  # archives of other versions are removed when they are older


class ArchiveUse(Enum):
    """What this run does with the archive."""

    MAP = "map"
    RECORD = "record"
    NOTHING = "nothing"


class ClassArchive:
    """The archive for one Java, one set of jars and one set of options."""

    def __init__(self, cache: Path, java: Java, jars: Sequence[Path], options: Sequence[str]) -> None:
        name = f"classes-{_fingerprint(java, jars, options)}"
        self.path = cache / f"{name}.jsa"
        self._seal = seal_path(self.path)
        self._recording = cache / f"{name}.{os.getpid()}.recording"
        self._lock: int | None = None
        self.use = self._decide()

    @property
    def options(self) -> tuple[str, ...]:
        """The JVM options that go with the use."""
        if self.use is ArchiveUse.MAP:
            return ("-Xshare:auto", f"-XX:SharedArchiveFile={self.path}")
        if self.use is ArchiveUse.RECORD:
            return ("-Xshare:auto", f"-XX:ArchiveClassesAtExit={self._recording}")
        return ()

    def keep_behind(self, jvm: int) -> None:
        """Have what the JVM of this process id records kept when it has ended, by a process that may outlive this one."""
        assert self._lock is not None
        with suppress(OSError):  # then this run has recorded for nothing, and the next one does it again
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
                start_new_session=True,  # Ctrl-C and the end of the terminal are not meant for it
                pass_fds=[self._lock],
            )
        os.close(self._lock)
        self._lock = None

    def discard(self) -> None:
        """Remove an archive that the JVM did not get along with, and whatever was being recorded."""
        if self.use is ArchiveUse.MAP:
            self._seal.unlink(missing_ok=True)
            self.path.unlink(missing_ok=True)
        self.release()
        self.use = ArchiveUse.NOTHING

    def release(self) -> None:
        """Give up recording, if this run does."""
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
    """Give the place of an archive's seal."""
    return path.with_suffix(".seal")


def keep_recording(recording: Path, path: Path) -> bool:
    """Put what a JVM recorded (it has ended) in its place; tell whether there was something to keep."""
    try:
        seal_path(path).unlink(missing_ok=True)
        seal = _seal_of(recording)
        recording.replace(path)
        _write_whole(seal_path(path), json.dumps(seal))
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
    try:  # whoever started it need not have asked for its exit code yet
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


def _write_whole(path: Path, text: str) -> None:
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(text)
    part.replace(path)


if __name__ == "__main__":
    _keep_after_exit(Path(sys.argv[2]), Path(sys.argv[1]), int(sys.argv[3]))
