"""Secrets are handed out once, for the session whose hello is seen, and for no other."""

from kdissect.slice.session_secrets import SessionSecrets
from kdissect.streams.tls.keylog import parse

RANDOM, OTHER, SESSION = bytes(range(32)), bytes(32), bytes(range(16))
LINES = [b"CLIENT_RANDOM %s %s" % (one.hex().encode(), b"11" * 48) for one in (RANDOM, OTHER)] + [
    b"RSA Session-ID:%s Master-Key:%s" % (SESSION.hex().encode(), b"22" * 48)
]


def hello(kind: int, random: bytes, session: bytes = b"") -> bytes:
    message = b"\x03\x03" + random + bytes([len(session)]) + session + b"\x13\x01"
    return b"\x16\x03\x01\0\x50" + bytes([kind]) + len(message).to_bytes(3, "big") + message


def test_a_client_hello_names_the_session_by_its_random() -> None:
    secrets = SessionSecrets(parse([b"\n".join(LINES)]))
    assert secrets.lines_for(hello(1, RANDOM)) == LINES[0] + b"\n"
    assert secrets.lines_for(hello(1, RANDOM)) == b""
    assert secrets.lines_for(hello(1, bytes([9]) * 32)) == b""


def test_a_server_hello_names_it_by_its_session() -> None:
    secrets = SessionSecrets(parse([b"\n".join(LINES)]))
    assert secrets.lines_for(hello(2, RANDOM, SESSION)) == LINES[2] + b"\n"


def test_other_payload_names_none() -> None:
    secrets = SessionSecrets(parse([b"\n".join(LINES)]))
    for payload in (b"", b"\x16", hello(1, RANDOM)[:43], b"\x17" + hello(1, RANDOM)[1:], hello(11, RANDOM)):
        assert secrets.lines_for(payload) == b""
