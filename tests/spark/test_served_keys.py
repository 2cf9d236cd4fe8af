"""Tasks carry the name of a socket instead of secrets."""

import pickle
from pathlib import Path

import pytest

from kdissect.spark.served_keys import KeyServer, fetch_keys
from kdissect.streams.tls.keylog import KeyLog

SECRET, MASTER = b"s" * 48, b"m" * 48
KEYS = KeyLog({b"r" * 32: {"CLIENT_RANDOM": SECRET}}, {b"session": MASTER})


def test_what_is_pickled_holds_no_secret_and_leads_to_all_of_them(tmp_path: Path) -> None:
    server = KeyServer(KEYS, tmp_path / "keys")
    try:
        carried = pickle.dumps(server.keys)
        assert SECRET not in carried
        assert MASTER not in carried
        for _ in range(2):
            found = pickle.loads(carried)
            assert found.contents() == KEYS.contents()
            fetch_keys.cache_clear()
    finally:
        server.end()
    with pytest.raises(OSError, match=r"."):
        pickle.loads(carried)


def test_a_key_log_that_is_served_serves_here_too(tmp_path: Path) -> None:
    server = KeyServer(KEYS, tmp_path / "keys")
    assert server.keys.of(b"r" * 32) == {"CLIENT_RANDOM": SECRET}
    assert server.keys.master_of(b"session") == MASTER
    assert repr(server.keys) == "<secrets of 2 TLS sessions>"
    server.end()
