"""A slice of the last minute of a watch, written by `kdissect slice` in a process of its own.

In come reports of batches. When asked, the captures that were read for the last minute are cut into one file
of the current directory, at a low priority, while the watch goes on. Captures that are not there any more, or
were written anew, leave nothing to cut.
"""

import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from kdissect.live.recent_calls import WINDOW_NS
from kdissect.report.wording import counted
from kdissect.spark.watch.batch_job import BatchReport
from kdissect.spark.watch.file_journal import TakenFile
from kdissect.text import format_timestamp

LOW_PRIORITY = 10
NOTHING_READ = "no slice: no packet was read yet"
GONE = "no slice: the captures of the last minute are not there any more"


class MinuteSlice:
    """See the module's text. `on_change` is called when the state changes, by another thread."""

    def __init__(self, folder: Path, keylog: str | None = None) -> None:
        self._folder, self._keylog = folder, keylog
        self._read: deque[tuple[int, list[TakenFile]]] = deque()
        self._end_ns = 0
        self._writer: threading.Thread | None = None
        self._process: subprocess.Popen[str] | None = None
        self.on_change: Callable[[], None] = lambda: None
        self.state = ""
        """A sentence about the last slice that was asked for, or nothing."""

    def add(self, report: BatchReport) -> None:
        """Remember the captures of a batch."""
        self._end_ns = max(self._end_ns, report.latest_ns, report.commit.now_ns)
        self._read.append((self._end_ns, list(report.read)))
        while self._read[0][0] <= self._end_ns - WINDOW_NS:
            self._read.popleft()

    def write(self) -> None:
        """Begin to write the slice, unless one is being written."""
        if self._writer is not None and self._writer.is_alive():
            return
        known = {one.path: one for _, files in self._read for one in files}
        there = [path for path, one in known.items() if one.is_there]
        if not there:
            self.state = GONE if known else NOTHING_READ
            return
        out = self._folder / f"slice-{self._end_ns // 10**9}.pcapng"
        self.state = f"writing {out.name}"
        gone = len(known) - len(there)
        self._writer = threading.Thread(target=self._run, args=(there, gone, out), name="slice", daemon=True)
        self._writer.start()

    def stop(self) -> None:
        """End a slice that is being written; no half of a file stays."""
        if self._process is not None:
            self._process.terminate()
        if self._writer is not None:
            self._writer.join()

    def _run(self, paths: list[str], gone: int, out: Path) -> None:
        since, until = (format_timestamp(time_ns) for time_ns in (self._end_ns - WINDOW_NS, self._end_ns + 1))
        keys = ["--keylog", self._keylog] if self._keylog else []
        window = ["--since", since, "--until", until, "--around", "0s"]
        command = [sys.executable, "-P", "-m", "kdissect", "slice", *paths, *window, *keys, "-o", str(out)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            # Ctrl-C is for the watch, which ends this process. It stays in the session of the watch: where
            # Linux weighs sessions, a priority counts within one alone (sched(7)).
            process_group=0,
        )
        os.setpriority(os.PRIO_PROCESS, self._process.pid, LOW_PRIORITY)
        _, said = self._process.communicate()
        last = said.strip().splitlines()[-1:] or ["it was stopped"]
        sentence = last[0].removeprefix("kdissect: ")
        missing = f"{counted(gone, 'capture')} of that time not there any more; " if gone else ""
        self.state = missing + (sentence if self._process.returncode == 0 else f"no slice: {sentence}")
        self.on_change()
