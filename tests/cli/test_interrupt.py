"""The first Ctrl-C ends the reading, the second one the command."""

import os
import signal

import pytest

from kdissect.cli.interrupt import Ending, first_interrupt
from kdissect.errors import ExitCode, UserError


def test_afterwards_everything_is_as_before() -> None:
    before = signal.getsignal(signal.SIGINT)
    with first_interrupt():
        assert signal.getsignal(signal.SIGINT) != before
    assert signal.getsignal(signal.SIGINT) == before


def test_work_of_which_half_is_nothing_ends_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    with first_interrupt() as interrupt:
        with pytest.raises(KeyboardInterrupt), interrupt.ends_at_once():
            os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.has_come
        assert interrupt.on_first is None
    assert capfd.readouterr().err == ""  # nothing is going to be reported


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (KeyboardInterrupt(), "kdissect: interrupted: a \\x1b file is left\n"),
        (SystemExit(ExitCode.TERMINATED), "kdissect: terminated: a \\x1b file is left\n"),
        (SystemExit(ExitCode.DONE), ""),
        (UserError("no such file"), ""),
    ],
)
def test_what_a_command_leaves_behind_is_told_once(
    end: BaseException, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> None:
        ending = Ending("nothing is left")
        with ending.told():
            ending.left = "a \x1b file is left"
            raise end

    with pytest.raises(type(end)):
        work()
    assert capsys.readouterr().err == told
