"""Completion scripts know the commands, their options and the names that options take."""

import os
import pty
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from kdissect.cli.arguments import SHELLS
from kdissect.cli.main import main


@pytest.mark.parametrize("shell", SHELLS)
def test_it_has_commands_options_and_names(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("analyze", "replay", "slower-than", "NOT_LEADER_OR_FOLLOWER", "FindCoordinator", "jsonl"):
        assert word in script


def test_bash_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["completion", "bash"])
    script = tmp_path / "kdissect.bash"
    script.write_text(capsys.readouterr().out)
    lines = f"""
        source {script}
        complete -p kdissect
        COMP_WORDS=(kdissect dump --er) COMP_CWORD=2 COMP_LINE="kdissect dump --er" COMP_POINT=18
        function=$(complete -p kdissect | sed "s/.*-F \\([^ ]*\\) .*/\\1/")
        $function kdissect --er dump
        echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", lines], capture_output=True, text=True, check=True)
    assert "--error" in done.stdout


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_shells_take_the_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    main(["completion", shell])
    subprocess.run([shell, "-n"], input=capsys.readouterr().out, text=True, check=True)


CAPTURE_ALONE = {  # what is typed in a directory with incident.pcap, and what Tab makes of it
    "kdissect inciden": "kdissect incident.pcap",
    "kdissect incident.pcap --htm": "kdissect incident.pcap --html",
    "kdissect ana": "kdissect analyze",
    "kdissect replay pl": "kdissect replay plan",
}


@pytest.fixture
def completions(tmp_path: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> Path:
    """Return a directory with the script of a shell, and a directory with a capture beside it."""
    shell, name = request.param
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    main(["completion", shell])
    (tmp_path / name).write_text(capsys.readouterr().out)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "incident.pcap").touch()
    return tmp_path


@pytest.mark.parametrize("completions", [("fish", "kdissect.fish")], indirect=True)
@pytest.mark.parametrize("typed", CAPTURE_ALONE)
def test_fish_completes_a_capture_without_a_command(completions: Path, typed: str) -> None:
    asked = f"source ../kdissect.fish; complete -C '{typed}'"
    done = subprocess.run(
        ["fish", "-c", asked], cwd=completions / "here", capture_output=True, text=True, check=True
    )
    words = [line.split("\t")[0] for line in done.stdout.splitlines()]
    assert words == [CAPTURE_ALONE[typed].split()[-1]]


@pytest.mark.parametrize("completions", [("zsh", "_kdissect")], indirect=True)
def test_zsh_completes_a_capture_without_a_command(completions: Path) -> None:
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(completions / "here")
        os.execvpe("zsh", ["zsh", "-f", "-i"], os.environ | {"TERM": "dumb", "PS1": "> "})
    try:
        start = f"fpath=({completions} $fpath); autoload -U compinit; compinit -u -D"
        os.write(terminal, f"{start}; bindkey '\\t' complete-word; echo rea''dy\n".encode())
        seen_until(terminal, b"ready")
        for typed, completed in CAPTURE_ALONE.items():
            os.write(terminal, f"{typed}\t".encode())
            seen_until(terminal, f"{completed} ".encode())
            os.write(terminal, b"\x15")  # forget the line
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(terminal)


def seen_until(terminal: int, text: bytes) -> None:
    """Wait until a terminal shows a text."""
    shown, deadline = b"", time.monotonic() + 60
    while text not in shown:
        assert time.monotonic() < deadline, shown
        if select.select([terminal], [], [], 1)[0]:
            shown += os.read(terminal, 1 << 16)
