"""`kdissect dump`: how many exchanges, in which form, and what cannot be combined."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.index.index_prefix import split_bytes
from kdissect.capture.inputs import CaptureFile
from kdissect.capture.scan import scan_split
from kdissect.cli.interrupt import only_read
from kdissect.cli.main import main
from kdissect.errors import ExitCode

CAPTURE = str(Path(__file__).parents[2] / "captures" / "pause.pcapng")


def shown(capfd: pytest.CaptureFixture[str], *options: str) -> list[str]:
    assert main(["dump", CAPTURE, *options]) == 0
    return capfd.readouterr().out.splitlines()


def test_brief_has_a_line_for_each_exchange(capfd: pytest.CaptureFixture[str]) -> None:
    objects = [json.loads(line) for line in shown(capfd, "--format", "jsonl")]
    assert len(shown(capfd, "--brief")) == len(objects) > 100
    assert len(shown(capfd, "--brief", "--limit", "7")) == 7


def test_filters_narrow_it(capfd: pytest.CaptureFixture[str]) -> None:
    objects = [json.loads(line) for line in shown(capfd, "--format", "jsonl", "--api", "Produce")]
    assert {each["api_name"] for each in objects} == {"Produce"}


@pytest.mark.parametrize("option", ["--records", "--show-secrets"])
def test_contents_have_no_pseudonyms(option: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", CAPTURE, "--anonymize", option]) == 2
    assert capfd.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("limit", ["0", "-1", "many"])
def test_a_limit_is_above_zero(limit: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["dump", CAPTURE, "--limit", limit])
    assert stopped.value.code == 2
    assert "is not a number above 0" in capfd.readouterr().err


def test_a_line_names_its_exchange_and_its_packets(capfd: pytest.CaptureFixture[str]) -> None:
    objects = [json.loads(line) for line in shown(capfd, "--format", "jsonl", "--limit", "5")]
    for line, fields in zip(shown(capfd, "--brief", "--limit", "5"), objects, strict=True):
        assert f"  {fields['connection']}#{fields['ordinal']}  " in line
        assert f"  packets {fields['request_packet']}/{fields['response_packet']}" in line


def test_exchanges_before_a_match_are_those_of_its_connection(capfd: pytest.CaptureFixture[str]) -> None:
    lines = shown(capfd, "--brief", "--error", "NOT_COORDINATOR", "-B", "2", "-A", "1", "--limit", "1")
    assert [line[:2] for line in lines] == ["  ", "  ", "> ", "  "]
    numbers = [line[2:].split("  ")[1].split("#") for line in lines]
    assert len({connection for connection, _ in numbers}) == 1
    assert [int(ordinal) - int(numbers[0][1]) for _, ordinal in numbers] == [0, 1, 2, 3]


def test_json_says_which_of_them_match(capfd: pytest.CaptureFixture[str]) -> None:
    lines = shown(capfd, "--format", "jsonl", "--error", "NOT_COORDINATOR", "-C", "1", "--limit", "1")
    assert [json.loads(line)["match"] for line in lines] == [False, True, False]


def test_nothing_that_matches_is_one_sentence_and_1(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["dump", CAPTURE, "--topic", "no such topic"]) == 1
    out, err = capfd.readouterr()
    assert (out, err) == ("", "kdissect: no exchange of these captures matches the filters\n")


def test_colours_when_wanted(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in shown(capfd, "--brief", "--limit", "1")[0]
    assert "\x1b[1mApiVersions v3\x1b[0m" in shown(capfd, "--brief", "--limit", "1", "--color", "always")[0]
    assert "\x1b[" not in shown(capfd, "--limit", "1", "--color", "never")[0]


def test_an_interrupt_says_how_much_was_read_and_shown(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kdissect.cli.dump_input.SPLIT_BYTES", 50_000)
    whole = shown(capfd, "--brief")
    monkeypatch.setattr("kdissect.cli.dump.processor_count", lambda: 1)  # else the reading is ahead
    splits = index_captures([CaptureFile(CAPTURE, CAPTURE)], 50_000).splits
    scanned = []

    def scan_and_interrupt(*arguments: Any, **options: Any) -> Any:
        scanned.append(1)
        if len(scanned) == len(splits) + 3:  # the third split of the second pass
            os.kill(os.getpid(), signal.SIGINT)
        return scan_split(*arguments, **options)

    monkeypatch.setattr("kdissect.exchanges.prescan.scan_split", scan_and_interrupt)
    assert main(["dump", CAPTURE, "--brief"]) == ExitCode.INTERRUPTED
    output = capfd.readouterr()
    lines = output.out.splitlines()
    assert lines == whole[: len(lines)]
    assert 0 < len(lines) < len(whole)
    read = only_read(split_bytes(splits[:3]), split_bytes(splits))
    assert output.err.splitlines()[-1] == f"kdissect: {read}; {len(lines)} exchanges are shown"
