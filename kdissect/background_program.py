"""Programs of this package that outlive the command which starts them.

Such a program makes files for later runs. It inherits the lock of those who make the same files, which ends
with it. Unless a command waits for it, it stands back for all others.
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

# A path through `..` is the same place.
PACKAGE_PARENT = Path(os.path.abspath(__file__)).parents[1]

USUAL_PRIORITY, LOWEST_PRIORITY = 0, 19  # increments of nice(2)
KILLED_FIRST = "1000"  # proc_pid_oom_score_adj(5)
AUTOGROUP = Path("/proc/self/autogroup")
"""The priority of a session. Linux may weigh sessions first, and nice values within one alone: sched(7)."""

AUTOGROUP_TRIES, AUTOGROUP_SECONDS = 20, 0.11


def start_program(
    module: str, argument: str, lock: int, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a module as a program with one argument. `lock` is an open file.

    Raise OSError if it cannot be started.
    """
    known = environment.get("PYTHONPATH")
    path = os.pathsep.join([str(PACKAGE_PARENT), *([known] if known else [])])
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, argument],
        env={**environment, "PYTHONPATH": path},
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C and the end of the terminal do not reach it
        pass_fds=[lock],
    )


def set_priority(priority: int) -> None:
    """Set the priority of this process, and of those that it starts.

    At the lowest one, memory goes to others, too: these processes are killed first when there is none left.
    """
    os.nice(priority)
    if priority != LOWEST_PRIORITY:
        return
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(KILLED_FIRST)
    if os.getsid(0) == os.getpid():  # otherwise the session is the user's
        with suppress(OSError):
            set_session_priority(priority)


def set_session_priority(priority: int) -> None:
    """Set the priority of the session of this process.

    Linux lets all users together set one in 100 ms, unless they may administer the system.
    Raise OSError if the kernel weighs no sessions, or if others set theirs all the time.
    """
    for _ in range(AUTOGROUP_TRIES - 1):
        with suppress(BlockingIOError):
            AUTOGROUP.write_text(str(priority))
            return
        time.sleep(AUTOGROUP_SECONDS)
    AUTOGROUP.write_text(str(priority))
