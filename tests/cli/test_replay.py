"""Output, files and exit codes of `kdissect replay` against a broker that accepts everything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kdissect.cli.main import main
from kdissect.errors import ExitCode
from tests.helpers.null_target import null_target
from tests.helpers.recorded import CAPTURES

CAPTURE = str(CAPTURES / "limping.pcapng")


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    with null_target() as address:
        yield address


@pytest.fixture(scope="module")
def run(target: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the capture as fast as may be. The target has no records to fetch, so it diverges."""
    place = tmp_path_factory.mktemp("runs") / "one"
    code = main(
        [
            "replay",
            "run",
            CAPTURE,
            "--target",
            target,
            "--pace",
            "asap",
            "--execute",
            "--out",
            str(place),
            "--quiet",
        ]
    )
    assert code == ExitCode.CONDITION_MET
    return place


def test_a_run_leaves_its_files_and_is_reported_again(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert {file.name for file in run.iterdir()} == {"run.json", "pairs.jsonl"}
    assert main(["replay", "compare", str(run), "--format", "json"]) == ExitCode.CONDITION_MET
    report = json.loads(capsys.readouterr().out)
    assert report["verdict"] == "diverged"
    assert report["accounting"]["captured"] == len((run / "pairs.jsonl").read_text().splitlines())


@pytest.mark.parametrize(
    ("condition", "sentence"),
    [("new_error>=0", "new_error is"), ("new_error>100%", ""), ("diverged", "the verdict is diverged")],
)
def test_a_condition_that_is_met_is_named(
    run: Path, condition: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", "compare", str(run), "--fail-on", condition]) == ExitCode.CONDITION_MET
    error = capsys.readouterr().err
    assert sentence in error
    assert bool(error) == bool(sentence)


def test_a_run_that_was_ended_early_exits_with_4(run: Path, tmp_path: Path) -> None:
    place = tmp_path / "stopped"
    place.mkdir()
    facts = json.loads((run / "run.json").read_text()) | {"stopped": "interrupted"}
    (place / "run.json").write_text(json.dumps(facts))
    (place / "pairs.jsonl").write_bytes((run / "pairs.jsonl").read_bytes())
    assert main(["replay", "compare", str(place)]) == ExitCode.INVALID


def test_a_run_is_no_slower_than_itself(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["replay", "compare", str(run), "--baseline", str(run), "--format", "json", "--fail-on", "slower"])
    written = capsys.readouterr()
    performance = json.loads(written.out)["performance"]
    assert (performance["verdict"], performance["against"]) == ("same", "baseline run")
    assert {row["more_ms"] for row in performance["rows"]} == {0.0}
    assert "slower" not in written.err


def test_conditions_come_from_commas_and_repeated_options(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two = ["--fail-on", "new_error>100%,skipped<0%", "--fail-on", "skipped>=0"]
    assert main(["replay", "compare", str(run), *two]) == ExitCode.CONDITION_MET
    (sentence,) = capsys.readouterr().err.splitlines()
    assert sentence.startswith("kdissect: skipped is ")


def test_a_condition_that_cannot_be_read_ends_the_command_before_any_work(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["replay", "compare", str(tmp_path / "absent"), "--fail-on", "p99>3"]) == ExitCode.USER_ERROR
    assert "--fail-on: 'p99' is not a figure" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["plan"], ["run"], ["run", "--execute"]])
def test_a_capture_of_which_nothing_can_be_sent_is_the_users_to_change(
    target: str, arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    name, *more = arguments
    place = tmp_path / "run"
    out = ["--out", str(place)] if name == "run" else []
    code = main(["replay", name, CAPTURE, "--target", target, "--api", "ApiVersions", *more, *out])
    assert code == ExitCode.USER_ERROR
    written = capsys.readouterr()
    assert written.err.splitlines()[-1].startswith("kdissect: no request of this capture can be sent")
    assert ("excluded by --api" in written.out) == ("--execute" not in more)
    assert not place.exists()


@pytest.mark.parametrize("arguments", [["plan"], ["run", "--execute"], ["try"]])
def test_a_topic_that_is_not_there_ends_the_command_with_the_topics_that_are(
    target: str, arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    name, *more = arguments
    out = ["--out", str(tmp_path / "run")] if name != "plan" else []
    code = main(["replay", name, CAPTURE, "--target", target, "--topic", "nonesuch", *more, *out])
    assert code == ExitCode.USER_ERROR
    written = capsys.readouterr()
    assert "nothing matches --topic nonesuch: the topics there are " in written.err.splitlines()[-1]
    assert written.out == ""
    assert not (tmp_path / "run").exists()


def test_a_plan_is_done_with_0(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "plan", CAPTURE, "--target", target, "--format", "json"]) == ExitCode.DONE
    assert json.loads(capsys.readouterr().out)["accounting"]["sent"] > 0


def test_a_password_is_written_nowhere(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The attacker reads what a run leaves: output, tracebacks, and the files of the run."""
    monkeypatch.setenv("KDISSECT_SASL_PASSWORD", "hunter2-and-more")
    monkeypatch.setenv("KDISSECT_DEBUG", "1")
    place = tmp_path / "run"
    command = [
        "replay",
        "run",
        CAPTURE,
        "--target",
        target,
        "--pace",
        "asap",
        "--execute",
        "--out",
        str(place),
    ]
    assert main([*command, "--sasl", "PLAIN", "--user", "me"]) == ExitCode.CONDITION_MET
    output = capfd.readouterr()
    left = b"".join(path.read_bytes() for path in place.rglob("*") if path.is_file())
    assert b'"sasl": "PLAIN"' in left
    for secret in ("hunter2-and-more", "AG1lAGh1bnRlcjI"):  # also as base64 of a PLAIN message
        assert secret.encode() not in left
        assert secret not in output.out + output.err
