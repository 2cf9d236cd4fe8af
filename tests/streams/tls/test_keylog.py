"""Key logs: what is read of them, and that they do not show themselves."""

import pickle
from pathlib import Path

import pytest

from kdissect.capture.formats.file_types import InputError
from kdissect.streams.tls.keylog import (
    NO_KEYS,
    keys_for,
    parse,
)

RANDOM, SECRET = "ab" * 32, "0123456789abcdef" * 6


GOOD = f"CLIENT_RANDOM {RANDOM} {SECRET}"


def test_a_key_log_is_read_line_by_line() -> None:
    text = f"# comment\r\n\n{GOOD}\r\n{GOOD.replace(SECRET, SECRET[::-1])}\nnonsense\nCLIENT_RANDOM zz zz\n"
    keys = parse([text.encode(), b"\xff\xfe\x00 \x80 \x81\n", b"CLIENT_RANDOM " + b"1" * 10_000])
    assert len(keys) == 1
    assert keys.of(bytes.fromhex(RANDOM)) == {"CLIENT_RANDOM": bytes.fromhex(SECRET)}
    assert keys.of(bytes(32)) == {}


def test_a_key_log_may_name_sessions_by_their_id() -> None:
    keys = parse([f"RSA Session-ID:0A0b Master-Key:{SECRET}\n".encode()])
    assert keys.master_of(b"\x0a\x0b") == bytes.fromhex(SECRET)
    assert keys.master_of(b"") is None


def test_a_key_log_does_not_show_itself() -> None:
    keys = parse([GOOD.encode()])
    assert SECRET[:16] not in repr(keys) + str(keys) + f"{keys}"
    assert pickle.loads(pickle.dumps(keys)).of(bytes.fromhex(RANDOM)) == keys.of(bytes.fromhex(RANDOM))


def test_wrong_key_logs_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("# nothing\n")
    for name, words in (("empty", "no key log"), ("absent", "no such file"), ("", "directory")):
        with pytest.raises(InputError, match=words):
            keys_for(str(tmp_path / name), ())
    assert len(keys_for(None, ())) == len(NO_KEYS) == 0
