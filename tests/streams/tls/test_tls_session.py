"""Facts of one TLS connection without keys: who asks, how the handshake ends, what cannot be read."""

import pytest
from scapy.layers.tls.extensions import ServerName, TLS_Ext_ServerName
from scapy.layers.tls.handshake import TLSClientHello

from kdissect.streams.tls.keylog import NO_KEYS
from kdissect.streams.tls.record_layer import ALERT, APPLICATION_DATA, HANDSHAKE, Chunk
from kdissect.streams.tls.tls_session import Session
from kdissect.streams.tls.tls_state import Decryption, HandshakeOutcome

CLIENT, SERVER = 0, 1
FATAL, WARNING = 2, 1
HELLO = bytes(
    TLSClientHello(
        gmt_unix_time=1,
        random_bytes=bytes(28),
        ciphers=[0xC02F],
        ext=[TLS_Ext_ServerName(servernames=[ServerName(servername=b"broker-1")])],
    )
)


def record(kind: int, body: bytes) -> list[Chunk]:
    data = bytes([kind, 3, 3]) + len(body).to_bytes(2, "big") + body
    return [Chunk(data, len(data), 1, 1)]


def test_nothing_is_known_of_a_session_without_records() -> None:
    facts = Session(NO_KEYS).facts()
    assert (facts.outcome, facts.client, facts.undecrypted) == (HandshakeOutcome.NOT_SEEN, None, 0)


def test_a_hello_shows_the_client_and_the_name_it_asks_for() -> None:
    session = Session(NO_KEYS)
    chunks = record(HANDSHAKE, HELLO)
    assert session.take(SERVER, chunks) == (chunks[0].length, False, [])
    facts = session.facts()
    assert (facts.client, facts.server_name, facts.outcome) == (
        SERVER,
        "broker-1",
        HandshakeOutcome.UNANSWERED,
    )


@pytest.mark.parametrize(("number", "name"), [(40, "handshake_failure"), (48, "unknown_ca")])
def test_an_alert_says_why_a_handshake_failed(number: int, name: str) -> None:
    session = Session(NO_KEYS)
    session.take(CLIENT, record(HANDSHAKE, HELLO))
    session.take(SERVER, record(ALERT, bytes([FATAL, number])))
    facts = session.facts()
    assert (facts.outcome, facts.alert, facts.alert_by_client) == (HandshakeOutcome.FAILED, name, False)


def test_application_data_of_an_older_connection_cannot_be_read() -> None:
    session = Session(NO_KEYS)
    chunks = record(APPLICATION_DATA, bytes(100))
    done, held, plain = session.take(CLIENT, chunks)
    assert (done, held, plain) == (chunks[0].length, False, [])
    facts = session.facts()
    assert facts.outcome == HandshakeOutcome.NOT_SEEN
    assert facts.decryption in (Decryption.NO_HANDSHAKE, Decryption.NO_KEYS)
    assert facts.undecrypted == chunks[0].length
