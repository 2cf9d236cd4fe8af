"""Programs that outlive the command which starts them: where they run, what they hold, and who goes first."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kdissect.background_program import AUTOGROUP, LOWEST_PRIORITY, USUAL_PRIORITY, start_program

PROGRAM = """
import os, pathlib, sys
import kdissect
pathlib.Path(sys.argv[1]).write_text(f"{os.getcwd()} {sys.stdin.read()!r} {os.getsid(0) == os.getpid()}")
os.read(os.open(sys.argv[1] + ".end", os.O_RDONLY), 1)
"""


def test_a_program_holds_the_lock_until_it_ends(tmp_path: Path) -> None:
    (tmp_path / "told_program.py").write_text(PROGRAM)
    told = tmp_path / "told"
    os.mkfifo(f"{told}.end")
    with (tmp_path / "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        environment = os.environ | {"PYTHONPATH": str(tmp_path)}
        program = start_program("told_program", str(told), lock.fileno(), environment)
    with (tmp_path / "lock").open("rb") as other:
        with pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        Path(f"{told}.end").write_bytes(b".")
        assert program.wait(60) == 0
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert told.read_text() == "/ '' True"


@pytest.mark.parametrize("priority", [LOWEST_PRIORITY, USUAL_PRIORITY])
def test_others_go_first_unless_a_command_waits(priority: int) -> None:
    score = "1000" if priority == LOWEST_PRIORITY else Path("/proc/self/oom_score_adj").read_text().strip()
    program = (
        f"import os; from kdissect.background_program import set_priority; set_priority({priority}); "
        "print(os.nice(0), open('/proc/self/oom_score_adj').read().strip())"
    )
    run = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout == f"{min(os.nice(0) + priority, 19)} {score}\n"


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="this kernel weighs no sessions")
@pytest.mark.parametrize("own_session", [True, False])
def test_a_session_of_its_own_goes_last_and_that_of_the_user_stays(own_session: bool) -> None:
    program = (
        "from kdissect.background_program import AUTOGROUP, LOWEST_PRIORITY, set_priority; "
        "set_priority(LOWEST_PRIORITY); print(AUTOGROUP.read_text(), end='')"
    )
    command = [sys.executable, "-P", "-c", program]
    before = AUTOGROUP.read_text()  # empty if no session was made since the machine started
    run = subprocess.run(command, capture_output=True, text=True, check=True, start_new_session=own_session)
    if own_session:
        assert run.stdout.endswith(" nice 19\n")
    else:
        assert run.stdout == before


AS_ANOTHER_USER = """
import ctypes, os
from kdissect.background_program import AUTOGROUP, set_session_priority
os.setuid(65534)
ctypes.CDLL(None).prctl(4, 1)  # PR_SET_DUMPABLE: the user may write to files of its own process below /proc
os.write(1, b".")
os.read(0, 1)
set_session_priority(19)
print(AUTOGROUP.read_text(), end="")
"""


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="this kernel weighs no sessions")
@pytest.mark.skipif(os.getuid() != 0, reason="only root may become another user")
def test_sessions_of_a_user_that_start_together_all_go_last() -> None:
    command = [sys.executable, "-P", "-c", AS_ANOTHER_USER]
    programs = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        for _ in range(3)
    ]
    for program in programs:
        assert program.stdout is not None
        assert os.read(program.stdout.fileno(), 1) == b"."
    # The kernel refuses the next ones for 100 ms after the first one.
    told = [program.communicate(b".", timeout=60)[0] for program in programs]
    assert [text.endswith(b" nice 19\n") for text in told] == [True, True, True]
