"""A control group of the kernel around one command: its processes, and the processor time of all of them,
even of those that nobody waits for.

It needs cgroup v2 (cgroups(7)) and a group in which this process may make another one.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MICROSECONDS = 1_000_000
LEAVE_SECONDS = 1.0  # until the kernel has let go of the last process of a group
ENTER = 'echo $$ > "$0" && exec "$@"'


class ControlGroup:
    """A group that a command enters and its descendants are born in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def entering(self, command: list[str]) -> list[str]:
        """Return the command line that enters the group and becomes the command."""
        return ["sh", "-c", ENTER, str(self.folder / "cgroup.procs"), *command]

    def members(self) -> list[int]:
        """Return the processes of the group that have not ended."""
        return [int(line) for line in (self.folder / "cgroup.procs").read_text().split()]

    def processor_seconds(self) -> float:
        """Return user and system time of all processes that are or were in the group."""
        lines = (self.folder / "cpu.stat").read_text().splitlines()
        used = dict(line.split() for line in lines)
        return int(used["usage_usec"]) / MICROSECONDS


@contextmanager
def control_group() -> Iterator[ControlGroup | None]:
    """Make a group and remove it at the end; None where this process may not make one."""
    folder = own_folder()
    made = folder / f"kdissect-{os.getpid()}-{time.monotonic_ns()}" if folder else None
    try:
        if made:
            made.mkdir()
    except OSError:
        made = None
    if not made:
        yield None
        return
    try:
        yield ControlGroup(made)
    finally:
        removed_by = time.monotonic() + LEAVE_SECONDS
        while made.exists() and time.monotonic() < removed_by:
            with suppress(OSError):
                made.rmdir()
            time.sleep(0.01)


def own_folder() -> Path | None:
    """Return the folder of the group of cgroup v2 that this process is in; None if there is none."""
    with suppress(OSError):
        mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
        groups = Path("/proc/self/cgroup").read_text().splitlines()
        own = next((line[3:] for line in groups if line.startswith("0::")), None)
        mounted = next((words[1] for words in mounts if words[2] == "cgroup2"), None)
        if own and mounted:
            return Path(mounted) / own.lstrip("/")
    return None
