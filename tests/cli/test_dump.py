"""`kdissect dump`: how many exchanges, in which form, and what cannot be combined."""

import json
from pathlib import Path

import pytest

from kdissect.cli.main import main

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
