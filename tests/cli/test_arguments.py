"""Arguments that are wrong, and help that needs nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from kdissect import __version__
from kdissect.cli.arguments import expand, parse
from tests.helpers.command import assert_one_sentence, environment, kdissect
from tests.helpers.command_here import kdissect_here


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "required: COMMAND"),
        (["xplode"], "'xplode' is not a command or a file (commands: analyze, "),
        (["analyse", "x"], "'analyse' is not a command or a file; did you mean 'analyze'?"),
        (["replay", "pla", "x"], "'pla' is not a command; did you mean 'plan'? (commands: load, plan, "),
        (["dump", "--sinse", "3s", "x"], "unrecognized arguments: --sinse; did you mean '--since'?"),
        (["analyze"], "required: PATH"),
        (["analyze", "--port", "99999", "x"], "'99999' is not a TCP port"),
        (["analyze", "--master", "moon", "x"], "'moon' is not a Spark master"),
        (["analyze", "--remote", "moon", "x"], "'moon' is not a Spark Connect server"),
        (["analyze", "--remote", "sc://moon", "--master", "local", "x"], "not allowed with argument"),
        (["analyze", "--format", "xml", "x"], "invalid choice: 'xml'"),
        (["analyze", "--split-bytes", "0", "x"], "'0' is not a size"),
        (["export", "x", "--table", "exchanges"], "required: --out"),
        (["export", "x", "--out", "y", "--table", "payloads"], "invalid choice: 'payloads'"),
    ],
)
def test_wrong_arguments_are_one_sentence(arguments: list[str], words: str) -> None:
    done = kdissect_here(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert_one_sentence(done.stderr)


def test_version_and_help_need_neither_spark_nor_compiler() -> None:
    assert kdissect("--version").stdout == f"kdissect {__version__}\n"
    seen = "import sys, kdissect.cli as c\ntry: c.main(['analyze', '--help'])\nexcept SystemExit: pass\n"
    loaded = "print({'pyspark', 'numba', 'numpy', 'pyarrow'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", seen + loaded],
        capture_output=True,
        text=True,
        env=environment(),
        check=True,
    )
    assert done.stdout.endswith("set()\n")


@pytest.mark.parametrize(("words", "same"), [(["help"], ["--help"]), (["help", "dump"], ["dump", "--help"])])
def test_help_is_a_command_too(words: list[str], same: list[str]) -> None:
    assert kdissect_here(*words).stdout == kdissect_here(*same).stdout != ""


def test_a_capture_may_follow_the_tables_to_export() -> None:
    words = ["export", "--table", "exchanges", "--table", "records", "x.pcap", "y.pcap", "--out", "z"]
    parsed = parse(words)
    assert (parsed.table, parsed.paths) == (["exchanges", "records"], ["x.pcap", "y.pcap"])


def test_a_capture_alone_is_analyzed() -> None:
    assert parse(["captures/tls.pcapng", "--by", "client"]) == parse(
        ["analyze", "captures/tls.pcapng", "--by", "client"]
    )
    assert parse(["-"]).command == parse(["s3://bucket/x.pcap"]).command == "analyze"


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
