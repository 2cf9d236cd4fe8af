"""One TLS connection: records of both directions in, what the handshake says and the plaintext out.

Without keys a session is followed only until it is clear how its handshake ended; then it is `settled` and
its bytes need not be looked at any more. What TLS 1.3 hides is inferred from the sizes of records, as far as
that goes: nothing but an alert fits a record that holds two bytes. Records that come before the server hello
that gives them their keys are held, in bounded number, because captures may have the two directions in
another order than they were sent.

Plaintext comes with the packet that holds the last byte of its record. If records are missing a gap stands
for them; its length is exact when the number of records is known and the cipher adds the same to each, else
it is `UNKNOWN_GAP`, which is longer than any frame, so that nobody goes on behind it as if nothing had
happened.
"""

from collections.abc import Sequence

from kdissect.streams.tls import handshake, keylog
from kdissect.streams.tls.cipher_suites import SUITES, Suite, suite_name
from kdissect.streams.tls.handshake import TLS_1_2, TLS_1_3
from kdissect.streams.tls.key_state import Opener
from kdissect.streams.tls.keylog import KeyLog
from kdissect.streams.tls.record_layer import (
    ALERT,
    APPLICATION_DATA,
    CHANGE_CIPHER_SPEC,
    HANDSHAKE,
    HARMLESS,
    Chunk,
    Place,
    RecordVerdict,
    alert_name,
)
from kdissect.streams.tls.record_protection import Protection, Tls13, protections12
from kdissect.streams.tls.tls_state import Alert, Decryption, HandshakeOutcome, Peer, Plain, TlsFacts

UNKNOWN_GAP = (256 << 20) + 4096
MOST_HELD = 1 << 16  # bytes that wait for the server hello
LONGEST_HIDDEN_ALERT = 2 + 1 + 16  # TLS 1.3: alert, content type, tag
SHORTEST_FINISHED = 4 + 32 + 1 + 16  # TLS 1.3: message header, hash, content type, tag
ENOUGH = 64  # records: without keys nothing more is learnt from those that follow
ENCRYPTED = "encrypted"  # an alert that was not readable


class Session:
    """See the module's text.

    A side is 0 or 1, as in the connection; who is the client is learnt from the hellos.
    """

    __slots__ = (
        "_guessed", "_keys", "_peers", "_plain", "_random", "_sealed_bytes", "_secrets", "_torn", "alert",
        "asked_certificate",
        "cipher", "client", "hello_seen", "opened_records", "protocol", "reached_server", "renegotiations",
        "resumed", "server_name", "unsupported", "version",
    )  # fmt: skip

    def __init__(self, keys: KeyLog) -> None:
        self._keys = keys
        self._secrets: keylog.Secrets = keylog.NO_SECRETS
        self._peers = (Peer(), Peer())
        self._plain: list[Plain] = []
        self._random = b""
        self._guessed = False
        self._torn = False  # part of the handshake is not in the capture
        self.client: int | None = None
        self.hello_seen = False  # of the client
        self.reached_server = False  # the server's hello was seen
        self.version: int | None = None
        self.cipher: str | None = None
        self.server_name: str | None = None
        self.protocol: str | None = None
        self.asked_certificate = False
        self.resumed = False
        self.renegotiations = 0
        self.alert: Alert | None = None
        self.unsupported = False
        self.opened_records = 0
        self._sealed_bytes = 0

    def use_keys(self, keys: KeyLog) -> None:
        """Look up secrets in this key log from now on; a session that was carried has none."""
        self._keys = keys

    def take(self, side: int, chunks: Sequence[Chunk]) -> tuple[int, bool, list[Plain]]:
        """Go on with what one side sent.

        Gives how many bytes are done with, whether what follows must wait for the other side, and the
        plaintext.
        """
        peer = self._peers[side]
        may_hold = sum(chunk.length for chunk in chunks) <= MOST_HELD

        def on_record(header: bytes, fragment: bytes, place: Place) -> RecordVerdict:
            return self._on_record(side, header, fragment, place, may_hold)

        done, held = peer.records.read(chunks, on_record)
        if peer.records.missing:
            self._lost_some(peer)
        plain, self._plain = self._plain, []
        return done, held, plain

    @property
    def outcome(self) -> HandshakeOutcome:
        """Return how the handshake ended, by what was seen so far."""
        client, server = self._roles
        if self.alert is not None and not (server.spoke and server.finished):
            return HandshakeOutcome.FAILED
        if client.finished and server.finished:
            return HandshakeOutcome.COMPLETED
        if client.spoke and server.spoke and self.hello_seen:
            return HandshakeOutcome.COMPLETED
        if not self.hello_seen and not self.reached_server:
            return HandshakeOutcome.NOT_SEEN
        return (
            HandshakeOutcome.UNFINISHED if self.reached_server or self._torn else HandshakeOutcome.UNANSWERED
        )

    @property
    def decryption(self) -> Decryption:
        """Return how far the plaintext is known by now."""
        if self.opened_records:
            return Decryption.PARTLY if self.undecrypted else Decryption.WHOLE
        if self.unsupported:
            return Decryption.UNSUPPORTED
        if not self.hello_seen:
            return Decryption.NO_HANDSHAKE
        return Decryption.FAILED if self._secrets and self.undecrypted else Decryption.NO_KEYS

    @property
    def undecrypted(self) -> int:
        """Captured bytes of which nothing could be made."""
        return self._sealed_bytes + sum(peer.records.passed for peer in self._peers)

    def facts(self) -> "TlsFacts":
        """Return what is known by now."""
        alert = self.alert or Alert(None, -1)
        return TlsFacts(
            client=self.client,
            version=None if self.version is None else handshake.version_name(self.version),
            server_name=self.server_name,
            protocol=self.protocol,
            cipher=self.cipher,
            outcome=self.outcome,
            alert=alert.name,
            alert_by_client=None if alert.name is None or self.client is None else alert.side == self.client,
            asked_certificate=self.asked_certificate or (None if self._hides_requests else False),
            resumed=self.resumed if self.reached_server else None,
            renegotiations=self.renegotiations,
            decryption=self.decryption,
            undecrypted=self.undecrypted,
        )

    @property
    def _hides_requests(self) -> bool:
        """Return whether nobody can tell if the server asked for a certificate: TLS 1.3 encrypts that."""
        return not self.reached_server or (self.version == TLS_1_3 and not self.opened_records) or self._torn

    @property
    def settled(self) -> bool:
        """Return whether nothing more can be learnt from what follows."""
        if any(self._can_open(peer) for peer in self._peers):
            return False
        sealed = sum(peer.sealed for peer in self._peers)
        if not self.hello_seen and not self.reached_server:
            return sealed > 0
        done = self.outcome is HandshakeOutcome.COMPLETED and all(peer.spoke for peer in self._peers)
        return done or sealed >= ENOUGH

    @property
    def _roles(self) -> tuple[Peer, Peer]:
        client = self.client or 0
        return self._peers[client], self._peers[1 - client]

    def _can_open(self, peer: Peer) -> bool:
        return (peer.opener is not None and not peer.opener.exhausted) or peer.pending is not None

    def _lost_some(self, peer: Peer) -> None:
        peer.messages.forget()
        if not peer.finished:
            self._torn = True

    def _on_record(
        self, side: int, header: bytes, fragment: bytes, place: Place, may_hold: bool
    ) -> RecordVerdict:
        peer, kind = self._peers[side], header[0]
        if peer.records.missing:
            self._lost_some(peer)
        if (
            peer.records.lost
            and kind != APPLICATION_DATA
            and self.version == TLS_1_3
            and self._can_open(peer)
        ):
            return RecordVerdict.SHUT  # found by searching: only what opens is no chance
        if kind == CHANGE_CIPHER_SPEC and (self.version == TLS_1_3 or not peer.changed):
            if may_hold and self._waits_for_server(side):
                return RecordVerdict.HELD
            self._change_cipher(side)
            return self._found(peer)
        if not peer.changed and kind != APPLICATION_DATA:
            self._on_content(side, kind, fragment, place)
            return self._found(peer)
        if self._waits_for_server(side) and may_hold:
            return RecordVerdict.HELD
        if peer.opener is None and self._torn and not self._guessed:
            self._guess_suite()
        if peer.opener is None or peer.opener.exhausted:
            self._on_sealed(side, kind, len(fragment))
            self._sealed_bytes += len(header) + len(fragment)
            return self._found(peer)
        found = peer.opener.open(header, fragment, peer.records.broken, peer.records.gone)
        if found is None:
            return RecordVerdict.SHUT
        self.opened_records += 1
        kind, content = found.opened
        if found.missed:
            exact = not found.new_keys and peer.opener.protection.overhead >= 0
            length = peer.records.missing - found.missed * peer.opener.protection.overhead if exact else -1
            self._plain.append(Plain(side, None, length if length >= 0 else UNKNOWN_GAP, *place))
        if self.cipher is None and isinstance(peer.opener.protection, Tls13):
            self.cipher = peer.opener.protection.suite.name
        if found.missed or found.new_keys:
            peer.finished = peer.finished or kind == APPLICATION_DATA
        self._on_content(side, kind, content, place)
        return self._found(peer)

    @staticmethod
    def _found(peer: Peer) -> RecordVerdict:
        peer.records.found_again()
        return RecordVerdict.TAKEN

    def _waits_for_server(self, side: int) -> bool:
        """Return whether a record of the client came before the server hello that tells how to read it."""
        return self.hello_seen and side == self.client and not self.reached_server and not self._torn

    def _on_content(self, side: int, kind: int, content: bytes, place: Place) -> None:
        peer = self._peers[side]
        if kind == APPLICATION_DATA:
            peer.spoke = True
            if content:
                self._plain.append(Plain(side, content, len(content), *place))
        elif kind == HANDSHAKE:
            for message, body in peer.messages.add(content):
                self._on_message(side, message, body)
        elif kind == ALERT and len(content) == 2:
            self._on_alert(side, content[1])
        elif kind == CHANGE_CIPHER_SPEC and self.version != TLS_1_3:
            self._change_cipher(side)

    def _on_message(self, side: int, kind: int, body: bytes | None) -> None:
        peer = self._peers[side]
        if kind == handshake.CLIENT_HELLO and body is not None:
            self._on_client_hello(side, handshake.read_client_hello(body))
        elif kind == handshake.SERVER_HELLO and body is not None:
            hello = handshake.read_server_hello(body)
            if hello is not None and not hello.retry:
                self._on_server_hello(side, hello)
        elif kind == handshake.ENCRYPTED_EXTENSIONS and body is not None:
            self.protocol = handshake.protocol_chosen(body)
        elif kind == handshake.CERTIFICATE_REQUEST:
            self.asked_certificate = True
        elif kind == handshake.FINISHED:
            peer.finished = True
            if self.version == TLS_1_3 and peer.opener is not None:
                peer.opener.next_keys()
        elif kind == handshake.KEY_UPDATE and peer.opener is not None:
            present = peer.opener.protection
            if isinstance(present, Tls13):
                peer.opener.change(present.next_generation())

    def _on_client_hello(self, side: int, hello: handshake.ClientHello | None) -> None:
        if hello is None:
            return
        if self.hello_seen and hello.random != self._random:
            self.renegotiations += 1
        self.client, self.hello_seen, self._random = side, True, hello.random
        self.server_name = hello.server_name if self.server_name is None else self.server_name
        self._secrets = self._keys.of(hello.random)

    def _on_server_hello(self, side: int, hello: handshake.ServerHello) -> None:
        self.client, self.reached_server = 1 - side, True
        self.version, self.cipher = hello.version, suite_name(hello.suite)
        self.protocol = hello.protocol
        self.resumed = hello.resumes
        suite = SUITES.get(hello.suite)
        if (
            suite is None
            or hello.version not in (TLS_1_2, TLS_1_3)
            or suite.tls13 != (hello.version == TLS_1_3)
        ):
            self.unsupported = True
        elif hello.version == TLS_1_3:
            self._use_secrets([suite])
        elif (master := self._master_secret(hello.session)) is not None:
            client, server = self._roles
            client.pending, server.pending = protections12(
                suite, master, self._random, hello.random, hello.mac_last
            )

    def _master_secret(self, session_id: bytes) -> bytes | None:
        known = self._secrets.get(keylog.MASTER_SECRET)
        return self._keys.master_of(session_id) if known is None and session_id else known

    def _use_secrets(self, suites: Sequence[Suite]) -> None:
        """Make the keys of both sides; of several suites each is tried, in this order."""
        for side, peer in enumerate(self._peers):
            labels = CLIENT_LABELS if side == self.client else SERVER_LABELS
            logged = [self._secrets[label] for label in labels if label in self._secrets]
            protections: list[Protection] = [
                Tls13(suite, secret)
                for suite in suites
                for secret in logged
                if len(secret) == SECRET_BYTES[suite.hash]
            ]
            peer.opener = Opener(protections) if protections else None

    def _guess_suite(self) -> None:
        """The server hello was lost: secrets of TLS 1.3 fit few suites, and a record opens with one only."""
        self._guessed = True
        if self.version is None and self.client is not None:
            self._use_secrets([suite for suite in SUITES.values() if suite.tls13])
            if any(peer.opener for peer in self._peers):
                self.version = TLS_1_3

    def _change_cipher(self, side: int) -> None:
        peer = self._peers[side]
        if self.version == TLS_1_3 or (self.version is None and not self._torn):
            return  # in TLS 1.3 sent for the sake of old middleboxes only (RFC 8446, appendix D.4)
        if self.client is not None and side != self.client and not self._peers[self.client].changed:
            self.resumed = True  # a server changes first where no keys need to be exchanged
        peer.changed = True
        if peer.pending is not None:
            peer.opener, peer.pending = Opener([peer.pending]), None

    def _on_sealed(self, side: int, kind: int, size: int) -> None:
        """Infer what a record may have been that nobody can read."""
        peer, other = self._peers[side], self._peers[1 - side]
        if self.version != TLS_1_3:
            if kind == ALERT:
                self._on_hidden_alert(side)
                return
            peer.finished = peer.finished or kind == HANDSHAKE
            peer.spoke = peer.spoke or kind == APPLICATION_DATA
        elif size <= LONGEST_HIDDEN_ALERT or self._is_padded_alert(side, size):
            self._on_hidden_alert(side)
            return
        elif self.client is not None:
            if self.alert == Alert(ENCRYPTED, side):
                self.alert = None  # nobody sends more behind an alert
            # The server's flight comes first, in one record or several; the client's first is its own
            # Finished, or the certificate before it.
            if side == self.client:
                peer.spoke = peer.finished
                peer.finished = other.sealed > 0
            else:
                peer.spoke = other.finished
                peer.finished = True
        peer.sealed += 1

    def _is_padded_alert(self, side: int, size: int) -> bool:
        """Return whether the client's first record is too short for its Finished: Java pads its alerts."""
        return side == self.client and not self._peers[side].finished and size < SHORTEST_FINISHED

    def _on_hidden_alert(self, side: int) -> None:
        """Process an alert that cannot be read.

        A handshake is in progress, or a connection ends in good order.
        """
        peer, other = self._peers[side], self._peers[1 - side]
        if side == self.client and peer.finished:
            peer.closing = True
        elif self.alert is None and not (other.closing or peer.spoke):
            self.alert = Alert(ENCRYPTED, side)

    def _on_alert(self, side: int, number: int) -> None:
        if number not in HARMLESS and self.alert is None:
            self.alert = Alert(alert_name(number), side)


CLIENT_LABELS = (keylog.EARLY_TRAFFIC, keylog.CLIENT_HANDSHAKE, keylog.CLIENT_TRAFFIC)
SERVER_LABELS = (keylog.SERVER_HANDSHAKE, keylog.SERVER_TRAFFIC)
SECRET_BYTES = {"sha256": 32, "sha384": 48}
