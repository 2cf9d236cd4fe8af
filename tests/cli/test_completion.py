"""Completion scripts know the commands, their options and the names that options take."""

import shutil
import subprocess
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
