"""Short forms of the command line."""

from pathlib import Path

import pytest

from kdissect.cli.suggestions import expand

COMMANDS = ("analyze", "dump", "replay")


@pytest.mark.parametrize(
    ("words", "full"),
    [
        (["help"], ["--help"]),
        (["help", "replay", "run"], ["replay", "run", "--help"]),
        (["-", "--full"], ["analyze", "-", "--full"]),
        (["hdfs://cluster/x.pcap"], ["analyze", "hdfs://cluster/x.pcap"]),
        (["missing/x.pcap"], ["analyze", "missing/x.pcap"]),
        (["dump", "x"], ["dump", "x"]),
        (["--version"], ["--version"]),
        (["explain"], ["explain"]),
        ([], []),
    ],
)
def test_short_forms(words: list[str], full: list[str]) -> None:
    assert expand(words, COMMANDS) == full


def test_a_command_is_preferred_to_a_file_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("dump", "trace"):
        (tmp_path / name).touch()
    assert expand(["dump"], COMMANDS) == ["dump"]
    assert expand(["trace"], COMMANDS) == ["analyze", "trace"]
