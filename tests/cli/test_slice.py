"""`kdissect slice`: what it refuses, and who can read what it writes."""

import os
import signal
from pathlib import Path
from typing import Any

import dpkt
import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.index.index_prefix import split_bytes
from kdissect.capture.inputs import CaptureFile
from kdissect.capture.scan import scan_split
from kdissect.cli.interrupt import only_read
from kdissect.cli.main import main
from kdissect.errors import ExitCode
from kdissect.spark import tasks
from kdissect.streams.tls.keylog import keys_for
from tests.slice.sliced_capture import CAPTURES

CAPTURE = CAPTURES / "expired.pcapng"


def refusal(capfd: pytest.CaptureFixture[str], *options: str | Path) -> str:
    try:
        code: object = main(["slice", str(CAPTURE), *map(str, options)])
    except SystemExit as stopped:
        code = stopped.code
    assert code == 2
    text = capfd.readouterr().err
    assert text.count("\n") == 1
    return text


def test_nothing_chosen_writes_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.pcapng"
    assert "no exchange of these captures is selected" in refusal(capfd, "--topic", "nowhere", "-o", out)
    assert "no exchange of these captures is selected" in refusal(capfd, "--exchange", "1#1", "-o", out)
    assert not [path for path in tmp_path.iterdir() if "pcapng" in path.name]


def test_refusals(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.pcapng"
    assert "leave out --with-secrets" in refusal(capfd, "--anonymize", "--with-secrets", "-o", out)
    assert "is not an exchange" in refusal(capfd, "--exchange", "17", "-o", out)
    assert "is one of the captures to read" in refusal(capfd, "-o", CAPTURE)
    assert "it is a directory" in refusal(capfd, "-o", tmp_path)
    assert "to a local file" in refusal(capfd, "-o", "s3://bucket/out.pcapng")
    assert "cannot write to" in refusal(capfd, "-o", tmp_path / "missing" / "out.pcapng")
    assert "file name too long" in refusal(capfd, "-o", tmp_path / ("x" * 256))
    assert "not allowed with" in refusal(capfd, "--around", "5s", "--only-exchanges", "-o", out)
    assert not [path for path in tmp_path.iterdir() if "pcapng" in path.name]


def test_a_directory_that_is_made_at_the_target_meanwhile(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out.pcapng"

    def find_keys(*arguments: Any) -> Any:
        out.mkdir()
        return keys_for(*arguments)

    monkeypatch.setattr("kdissect.streams.tls.keylog.keys_for", find_keys)
    assert f"cannot write to {out}: is a directory" in refusal(capfd, "--quiet", "-o", out)
    assert [path for path in tmp_path.iterdir() if out.name in path.name] == [out]


def test_secrets_are_for_their_owner_only(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.pcapng"
    assert main(["slice", str(CAPTURE), "--with-secrets", "-o", str(out)]) == 0
    assert out.stat().st_mode & 0o777 == 0o600
    assert "exchanges on" in capfd.readouterr().err


@pytest.mark.parametrize("worth", [0, 1 << 30], ids=["several-processes", "one-process"])
def test_the_first_interrupt_leaves_a_slice_of_what_was_read(
    worth: int, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kdissect.exchanges.exchange_workers.WORTH_WORKERS", worth)
    whole, part = tmp_path / "whole.pcapng", tmp_path / "part.pcapng"
    monkeypatch.setattr("kdissect.cli.dump_input.SPLIT_BYTES", 50_000)
    assert main(["slice", str(CAPTURE), "-o", str(whole)]) == 0
    scanned = []

    def scan_and_interrupt(*arguments: Any, **options: Any) -> Any:
        scanned.append(1)
        if len(scanned) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return scan_split(*arguments, **options)

    monkeypatch.setattr("kdissect.exchanges.prescan.scan_split", scan_and_interrupt)
    assert main(["slice", str(CAPTURE), "-o", str(part)]) == ExitCode.INTERRUPTED
    errors = capfd.readouterr().err
    assert "interrupted: what came until now is reported" in errors
    splits = index_captures([CaptureFile(str(CAPTURE), str(CAPTURE))], 50_000).splits
    read = only_read(split_bytes(splits[:3]), split_bytes(splits))
    assert f"kdissect: {read}\n" in errors
    assert len(scanned) == 6  # the first three splits, for names and for exchanges
    everything, beginning = packet_times(whole), packet_times(part)
    assert 0 < len(beginning) < len(everything)
    assert beginning == everything[: len(beginning)]


def test_an_interrupt_while_the_incident_is_looked_for_leaves_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    split_by_split = tasks.scan_step
    begun = []

    def scan_and_interrupt(*arguments: Any) -> Any:
        begun.append(1)
        os.kill(os.getpid(), signal.SIGINT)
        begun.append(2)
        return split_by_split(*arguments)

    monkeypatch.setattr(tasks, "scan_step", scan_and_interrupt)
    out = tmp_path / "out.pcapng"
    assert main(["slice", str(CAPTURE), "--incident", "1", "-o", str(out)]) == ExitCode.INTERRUPTED
    assert begun == [1]
    assert not [path for path in tmp_path.iterdir() if "pcapng" in path.name]
    assert "is reported" not in capfd.readouterr().err


def packet_times(path: Path) -> list[tuple[float, bytes]]:
    with path.open("rb") as file:
        return list(dpkt.pcapng.Reader(file))
