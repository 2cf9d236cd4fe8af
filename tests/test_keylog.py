"""The option --keylog of the command, on a capture whose own key log was taken out of it."""

import json
import struct
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from kdissect.capture.formats.file_types import InputError
from kdissect.replay.load.requests import read
from kdissect.replay.load.spool import Spool
from tests.helpers.command import kdissect
from tests.helpers.command_here import kdissect_here

CAPTURES = Path(__file__).parents[1] / "captures"
MANIFEST = {each["name"]: each for each in json.loads((CAPTURES / "manifest.json").read_text())["captures"]}
SECRETS_BLOCK = 10


pytestmark = pytest.mark.slow  # whole commands


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The capture without its secrets, and the secrets."""
    folder = tmp_path_factory.mktemp("apart")
    whole, kept, secrets, at = (CAPTURES / "tls.pcapng").read_bytes(), [], b"", 0
    while at < len(whole):
        kind, length = struct.unpack_from("=II", whole, at)
        block = whole[at : at + length]
        if kind == SECRETS_BLOCK:
            secrets += block[16 : 16 + struct.unpack_from("=I", block, 12)[0]]
        else:
            kept.append(block)
        at += length
    (folder / "bare.pcapng").write_bytes(b"".join(kept))
    (folder / "keys.log").write_bytes(secrets)
    return folder / "bare.pcapng", folder / "keys.log"


def counts(*arguments: str | Path) -> Counter[tuple[int, int]]:
    done = kdissect_here("dump", *arguments, "--format", "jsonl")
    assert done.returncode == 0, done.stderr
    return Counter((row["api_key"], row["api_version"]) for row in map(json.loads, done.stdout.splitlines()))


def test_without_keys_there_is_nothing_to_see(apart: tuple[Path, Path]) -> None:
    done = kdissect("dump", apart[0], "--format", "jsonl")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no Kafka exchange that can be read" in done.stderr


def test_with_keys_there_is_what_the_broker_logged(apart: tuple[Path, Path]) -> None:
    expected = MANIFEST["tls"]
    assert expected["exact"]
    logged = {
        (row["api_key"], row["api_version"]): row["requests"] for row in expected["expected"]["requests"]
    }
    assert counts(apart[0], "--keylog", apart[1]) == logged
    assert counts(CAPTURES / "tls.pcapng") == logged


def test_replay_starts_from_what_the_keys_open(apart: tuple[Path, Path], tmp_path: Path) -> None:
    def requests(path: Path, keylog: Path | None) -> list[int]:
        with closing(Spool()) as shelf:
            return [
                each.key
                for each in read([str(path)], (), str(tmp_path), shelf, keylog and str(keylog)).requests
            ]

    assert requests(*apart) == requests(CAPTURES / "tls.pcapng", None) != []
    with pytest.raises(InputError, match="15 TLS connections cannot be decrypted; --keylog FILE"):
        requests(apart[0], None)
    done = kdissect_here(
        "replay", "plan", apart[0], "--target", "127.0.0.1:1", "--keylog", tmp_path / "absent"
    )
    assert done.returncode == 2
    assert "no such file" in done.stderr


def test_wrong_key_logs_are_one_sentence(apart: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"CLIENT_RANDOM secret-word secret-word\n")
    for path, words in ((tmp_path / "log", "no key log"), (tmp_path / "absent", "no such file")):
        done = kdissect_here("dump", apart[0], "--keylog", path)
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert words in done.stderr
        assert "secret-word" not in done.stderr
