"""The manual page has every command and every option, and man can show it."""

import shutil
import subprocess

import pytest

from tests.docs.command_line import commands
from tests.docs.man_page import MAN_PAGE, man_page, stale_man_page


def test_it_is_up_to_date() -> None:
    assert stale_man_page() is None


def test_every_option_is_in_it() -> None:
    text = man_page().replace("\\-", "-")
    for name, command in commands().items():
        assert f".SH KDISSECT {name.upper()}\n" in text
        for action in command._actions:
            if action.option_strings and "==SUPPRESS==" not in str(action.help):
                assert all(
                    option in text for option in action.option_strings if option not in ("-h", "--help")
                )


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_has_nothing_to_complain_about() -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", MAN_PAGE], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert "completion" in done.stdout
