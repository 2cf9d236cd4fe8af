"""Several processes choose and rewrite the same exchanges as one, and make the same file of them."""

from pathlib import Path

import pytest

from kdissect.cli.main import main
from kdissect.exchanges import exchange_workers
from tests.helpers.handmade_capture import write_capture
from tests.helpers.tiers import thorough_after
from tests.slice.sliced_capture import CAPTURES, make_slice
from tests.slice.test_slice_writer import talk

CHOICES = {
    "all": (),
    "topic": ("--topic", "o*", "--around", "100ms"),
    "client": ("--client", "*a*", "--only-exchanges"),
    "error": ("--error", "any", "--since", "+1s", "--until", "+40s"),
    "group": ("--group", "*", "--api", "Heartbeat"),
}


@pytest.mark.slow
@pytest.mark.parametrize("anonymizes", [False, True], ids=["as-captured", "anonymized"])
@pytest.mark.parametrize("choice", thorough_after(2, CHOICES))
@pytest.mark.parametrize("capture", ["broker-restart.pcapng", "tls.pcapng"])
def test_processes_make_the_same_file_as_one(
    capture: str, choice: str, anonymizes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "key"
    key.write_text("a key of many characters\n")
    options = [*CHOICES[choice], *(("--anonymize-key-file", key) if anonymizes else ())]
    files = {}
    for worth in (0, 1 << 30):
        monkeypatch.setattr(exchange_workers, "WORTH_WORKERS", worth)
        out = tmp_path / f"{worth}.pcapng"
        code = main(["slice", *map(str, (CAPTURES / capture, *options)), "--quiet", "-o", str(out)])
        files[worth] = code, out.read_bytes() if out.exists() else b""
    assert files[0] == files[1 << 30]


def test_exchanges_of_a_small_capture_are_chosen_in_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fork(*_: object) -> None:
        raise AssertionError("no process is worth it")

    monkeypatch.setattr(exchange_workers, "OrderedWorkers", fork)
    source = write_capture(tmp_path / "talk.pcap", talk(9))
    assert make_slice(tmp_path, source, "--anonymize").stat().st_size
