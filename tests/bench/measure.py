"""One command to its end: how long it took, how much processor, and how much memory all of its processes had
at once.

Memory is the peak of the proportional set size (PSS: shared pages counted once) of a command's processes
together. The kernel takes 7 ms to tell that of a process. So it is asked only when their resident sets,
looked at ten times a second, are larger together than they were when it was asked last, by a hundredth.
Even so a million exchanges on two processors take 2.8 s, and 2.6 if nobody looks. So the benchmark times runs
without `all_memory`, and measures memory in runs of their own. One process alone needs no look: the kernel
tells its largest resident set in the end.

Processor time is that of all processes, those too that outlive the command for a moment: this process adopts
them, and waits for them. PySpark's daemon ignores the end of its workers, so the kernel adds their time to
nobody's. A control group counts it; where none can be made, it is what they had used when they were last
looked at.

    python -m tests.bench.measure kdissect analyze CAPTURE
"""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.bench.control_group import ControlGroup, control_group

POLL_SECONDS = 0.1
NOTEWORTHY = 1.01  # times as much memory as before is worth a closer look
PAGE_KIB = resource.getpagesize() // 1024
SET_CHILD_SUBREAPER = 36  # prctl(2)
SAID_AT_MOST = 2_000  # characters of what a command said before it failed
OWN_KERNELS = "NUMBA_CACHE_DIR"
"""Set when this process loads kernels. A command chooses its own, in the cache that it is given."""


@dataclass(frozen=True)
class Run:
    """One finished command."""

    seconds: float
    peak_mib: float
    """Memory of all its processes at once. If nobody looked, it is that of the largest of them, or of this
    process if that is larger: the kernel counts it until a command begins."""
    first_line_seconds: float | None = None
    """When the command said something on standard error for the first time."""
    processor_seconds: float = 0.0
    """User and system time of all its processes."""
    parts_mib: tuple[tuple[str, int], ...] = ()
    """Names of its processes, and what each of them had at the peak, the largest first."""


class CommandFailed(Exception):
    """A command that was to be measured did not end with 0."""

    def __init__(self, command: list[str], said: bytes) -> None:
        super().__init__(
            f"{' '.join(command)} failed: {said.decode(errors='replace').strip()[-SAID_AT_MOST:]}"
        )


def adopt_descendants() -> None:
    """Become the parent of processes whose own parent ends."""
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def processor_seconds_of_children() -> float:
    """Return the processor time of all children that were waited for, with that of processes below them."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def wait_for_adopted(own: set[int]) -> set[int]:
    """Wait for all children but those in `own`, and return them; each that ends may leave others."""
    waited: set[int] = set()
    while adopted := set(family(os.getpid(), deep=False)) - own:
        for process in adopted:
            with suppress(ChildProcessError):
                os.waitpid(process, 0)
        waited |= adopted
    return waited


def uncounted_seconds(process: int) -> float:
    """Return the processor time of a process whose parent ignores the end of its children.

    The kernel will add it to nobody's (wait(2)). Return 0 for others, and if the process is gone.
    """
    with suppress(OSError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        status = Path(f"/proc/{fields[1]}/status").read_text()
        ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
        if ignored >> (signal.SIGCHLD - 1) & 1:
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def family(root: int, deep: bool = True) -> list[int]:
    """Return a process and all that descend from it; only its children unless `deep`."""
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path(f"/proc/{entry}/stat").read_text()
            except OSError:
                continue
            parents.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry))
    if not deep:
        return parents.get(root, [])
    found, waiting = [], [root]
    while waiting:
        process = waiting.pop()
        found.append(process)
        waiting += parents.get(process, [])
    return found


def pss_kib(process: int) -> int:
    """Return the proportional set size of a process, 0 if it is gone."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def resident_kib(process: int) -> int:
    """Return the resident set size of a process, 0 if it is gone."""
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE_KIB
    except (OSError, IndexError):
        return 0


def name_of(process: int) -> str:
    """Return the name of a process, empty if it is gone."""
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return ""


class Watch:
    """Looks at the processes of a command until it ends: their memory, if wanted, and what the kernel counts
    nowhere."""

    def __init__(self, process: int, group: ControlGroup | None, all_memory: bool) -> None:
        self.peak_kib: dict[int, int] = {}
        """Size of each process when all of them together had most."""
        self.names: dict[int, str] = {}
        self.most_resident_kib = 0
        """Resident sets of all processes together when the kernel was asked last."""
        self.uncounted: dict[int, float] = {}
        """Processor time of processes whose end nobody waits for, when they were last looked at."""
        self._process, self._group, self._all_memory = process, group, all_memory
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)
        if all_memory or not group:
            self._thread.start()

    def end(self) -> None:
        """Look no more."""
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()

    def total_kib(self) -> int:
        """Return what all processes had at the peak."""
        return sum(self.peak_kib.values())

    def parts_mib(self) -> tuple[tuple[str, int], ...]:
        """Return names and sizes of processes at the peak, the largest first, none below 1 MiB."""
        largest = sorted(self.peak_kib.items(), key=lambda item: -item[1])
        return tuple((self.names[one], size // 1024) for one, size in largest if size >= 1024)

    def _look(self) -> None:
        while not self._done.wait(POLL_SECONDS):
            members = self._group.members() if self._group else family(self._process)
            if not self._group:
                self.uncounted.update((one, used) for one in members if (used := uncounted_seconds(one)))
            if self._all_memory:
                self._look_at_memory(members)

    def _look_at_memory(self, members: list[int]) -> None:
        resident = sum(map(resident_kib, members))
        if resident <= self.most_resident_kib * NOTEWORTHY:
            return
        self.most_resident_kib = resident
        found = {one: pss_kib(one) for one in members}
        if sum(found.values()) > self.total_kib():
            self.peak_kib, self.names = found, {one: name_of(one) for one in found}


def run(command: list[str], all_memory: bool = False, **environment: str) -> Run:
    """Run a command to its end, its output thrown away. Raise `CommandFailed` if it fails."""
    with control_group() as group:
        return run_in(group, command, all_memory, environment)


def run_in(
    group: ControlGroup | None, command: list[str], all_memory: bool, environment: dict[str, str]
) -> Run:
    """Run a command to its end, in a control group if there is one."""
    adopt_descendants()
    before, own = processor_seconds_of_children(), set(family(os.getpid(), deep=False))
    began = time.perf_counter()
    process = subprocess.Popen(
        group.entering(command) if group else command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if name != OWN_KERNELS} | environment,
    )
    watch = Watch(process.pid, group, all_memory)
    assert process.stderr is not None
    first = process.stderr.readline()
    told = time.perf_counter() - began
    rest = process.stderr.read()
    _, status, used_by_it = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - began
    watch.end()
    waited = wait_for_adopted(own)
    if process.returncode:
        raise CommandFailed(command, first + rest)
    if group:
        used = group.processor_seconds()
    else:
        uncounted = sum(time for one, time in watch.uncounted.items() if one not in waited)
        used = processor_seconds_of_children() - before + uncounted
    return Run(
        seconds=round(seconds, 2),
        peak_mib=round((watch.total_kib() if all_memory else used_by_it.ru_maxrss) / 1024),
        first_line_seconds=round(told, 2) if first else None,
        processor_seconds=round(used, 2),
        parts_mib=watch.parts_mib(),
    )


def main() -> None:
    """Run the command of the arguments, and print what it took."""
    try:
        taken = run(sys.argv[1:], all_memory=True)
    except CommandFailed as failed:
        raise SystemExit(str(failed)) from None
    print(f"{taken.seconds} s, {taken.processor_seconds} s of processor time, {taken.peak_mib:,.0f} MiB")
    print(", ".join(f"{name} {size:,} MiB" for name, size in taken.parts_mib))


if __name__ == "__main__":
    main()
