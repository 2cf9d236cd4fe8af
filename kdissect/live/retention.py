"""`--keep`: captures that are accounted for, and old, are removed from a watched directory.

A file is accounted for when a batch that counts has read it as a capture. It is removed only if it is still
that very file: a regular one, with the size, the time and the first bytes that it had then. Files that were
skipped or have grown since, links and everything else stay. A run that goes on knows the files of the one
before.
"""

import stat
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from kdissect.capture.formats.file_types import BEGINNINGS, GLANCE_BYTES, InputError, check_paths
from kdissect.capture.storage import is_uri, modified_ns, open_storage, remove_file
from kdissect.spark.watch.batch_job import BatchReport
from kdissect.spark.watch.file_journal import TakenFile
from kdissect.text import without_password


class Retention:
    """See the module's text. `notice` gets a sentence for a file that cannot be removed."""

    def __init__(self, keep_ns: int, taken: Iterable[TakenFile], notice: Callable[[str], None]) -> None:
        """`taken` are the files of batches that count."""
        self._keep_ns, self._notice = keep_ns, notice
        self._files = {file.path: file for file in taken if _is_capture(file.path)}

    def account(self, report: BatchReport) -> None:
        """Add the files of a batch, and remove those that are old enough."""
        self._files |= {file.path: file for file in report.read}
        self.remove_old(time.time_ns())

    def remove_old(self, now_ns: int) -> None:
        """Remove the files that were written to for the last time `keep_ns` ago, or earlier."""
        for file in [one for one in self._files.values() if now_ns - one.modified_ns >= self._keep_ns]:
            del self._files[file.path]
            try:
                if _is_unchanged(file):
                    remove_file(file.path)
            except FileNotFoundError:
                continue
            except OSError as error:
                reason = (error.strerror or str(error)).partition("\n")[0].lower()
                self._notice(without_password(f"--keep: cannot remove {file.path}: {reason}"))


def _is_capture(path: str) -> bool:
    """Return whether a file begins like a capture; other files are never read, and so never removed."""
    try:
        if is_uri(path):
            with open_storage(path) as file:
                return file.read(GLANCE_BYTES, 0).startswith(BEGINNINGS)
        check_paths([path])
    except (InputError, OSError):
        return False
    return True


def _is_unchanged(file: TakenFile) -> bool:
    if is_uri(file.path):
        return modified_ns(file.path) == file.modified_ns and file.is_there
    found = Path(file.path).lstat()
    same = (found.st_size, found.st_mtime_ns) == (file.size, file.modified_ns)
    return stat.S_ISREG(found.st_mode) and same and file.is_there
