"""The state of a TLS connection: what each side has sent so far, and the facts that a session concludes.

`tls_session` keeps both.
"""

from enum import StrEnum
from typing import NamedTuple

from kdissect.streams.tls.handshake import Messages
from kdissect.streams.tls.key_state import Opener
from kdissect.streams.tls.record_layer import Records
from kdissect.streams.tls.record_protection import Protection


class HandshakeOutcome(StrEnum):
    """How a handshake ended."""

    COMPLETED = "completed"
    FAILED = "failed"  # an alert said so
    UNANSWERED = "unanswered"  # the server sent no hello
    UNFINISHED = "unfinished"  # it began, and neither ended nor failed in the capture
    NOT_SEEN = "not_seen"  # the connection is older than the capture


class Decryption(StrEnum):
    """How far the plaintext is known."""

    WHOLE = "whole"
    PARTLY = "partly"
    FAILED = "failed"  # secrets were there, and nothing could be opened with them
    NO_KEYS = "no_keys"
    NO_HANDSHAKE = "no_handshake"
    UNSUPPORTED = "unsupported"  # a version or cipher suite that cannot be opened


class Plain(NamedTuple):
    """Plaintext of one record; no data: a gap of `length` bytes before what comes next."""

    side: int
    data: bytes | None
    length: int
    time_ns: int
    packet: int


class Alert(NamedTuple):
    """An alert that says something is wrong, and which side sent it."""

    name: str | None
    side: int


class TlsFacts(NamedTuple):
    """Facts about a TLS connection; None: the capture does not tell."""

    client: int | None  # side
    version: str | None
    server_name: str | None
    protocol: str | None
    cipher: str | None
    outcome: HandshakeOutcome
    alert: str | None
    alert_by_client: bool | None
    asked_certificate: bool | None
    resumed: bool | None
    renegotiations: int
    decryption: Decryption
    undecrypted: int


class Peer:
    """One side as a sender."""

    __slots__ = (
        "changed",
        "closing",
        "finished",
        "messages",
        "opener",
        "pending",
        "records",
        "sealed",
        "spoke",
    )

    def __init__(self) -> None:
        self.records = Records()
        self.messages = Messages()
        self.opener: Opener | None = None
        self.pending: Protection | None = None  # from the next change of cipher spec on (TLS 1.2)
        self.changed = False  # what it sends is encrypted
        self.finished = False
        self.sealed = 0  # records that were not opened and cannot be alerts
        self.spoke = False  # sent application data
        self.closing = False
