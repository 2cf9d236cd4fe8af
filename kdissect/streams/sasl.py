"""How clients proved who they are.

For each connection the mechanism, the outcome and how often it was done again.

An authentication begins with SaslHandshake, or with a token where none is needed (GSSAPI in Kafka 0.9). Its
steps are answers to SaslAuthenticate (KIP-152) or to raw tokens. It succeeded when it took as many steps as
its mechanism needs, or when the server answered another request: before that it answers none but ApiVersions.
It failed when an answer says so, or when the server ended the connection instead of answering a raw token,
which is all that SaslHandshake 0 has for a failure. Later ones on the same connection are re-authentications
(KIP-368).

A first token names the user: PLAIN (RFC 4616) and SCRAM (RFC 5802). A PLAIN token also holds the password,
which is never read. Tokens of other mechanisms name nobody in plain text.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kdissect.jit.rows import Records
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import error_name
from kdissect.streams.carry.value_bytes import Value
from kdissect.streams.flow_state import ANSWERED

STEPS = {"PLAIN": 1, "OAUTHBEARER": 1, "SCRAM-SHA-256": 2, "SCRAM-SHA-512": 2}
"""Answers to tokens until a client is known; of other mechanisms only what comes behind them tells."""

WITHOUT_HANDSHAKE = "GSSAPI"


class SaslOutcome(StrEnum):
    """How the last authentication of a connection ended, or the first that failed."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNFINISHED = "unfinished"


class _Client:
    """One connection."""

    __slots__ = ("error", "failed", "mechanism", "open", "raw_unanswered", "steps", "succeeded")

    def __init__(self) -> None:
        self.mechanism: str | None = None
        self.succeeded = 0
        self.steps = 0  # of the authentication that is under way
        self.open = False
        self.failed = False
        self.error: int | None = None
        self.raw_unanswered = False

    def begin(self) -> None:
        self.steps, self.open = 0, True

    def fail(self, error: int) -> None:
        self.failed, self.open = True, False
        self.error = error if self.error is None else self.error

    def step(self) -> None:
        self.steps += 1
        if self.open and self.steps == STEPS.get(self.mechanism or ""):
            self.succeed()

    def succeed(self) -> None:
        self.succeeded += self.open
        self.open = False

    def outcome(self, ended: bool) -> SaslOutcome:
        if self.failed or (self.raw_unanswered and self.open and ended):
            return SaslOutcome.FAILED
        return SaslOutcome.SUCCEEDED if self.succeeded and not self.open else SaslOutcome.UNFINISHED


class Authentications:
    """Facts of exchanges and raw tokens about authentication; those of a connection come in order."""

    def __init__(self) -> None:
        self._clients: dict[int, _Client] = {}

    def add_tokens(self, exchanges: Records, mechanisms: dict[int, str]) -> None:
        """Process finished rows with status SASL_TOKEN.

        Without a handshake before them they tell the mechanism.
        """
        answers = exchanges["response"]["start"].tolist()
        for connection, answer in zip(exchanges["connection"].tolist(), answers, strict=True):
            client = self._client(connection)
            client.mechanism = mechanisms.setdefault(connection, WITHOUT_HANDSHAKE)
            self._take_token(client, answer > 0)

    def add(
        self,
        exchanges: Records,
        errors: Callable[[NDArray[np.int64]], list[int | None]],
        mechanisms: dict[int, str],
    ) -> None:
        """Process finished exchanges.

        `errors` returns the first error of some of them. `mechanisms` says what connections asked for.
        """
        keys = exchanges["api_key"]
        asks = (keys == ApiKey.SASL_HANDSHAKE) | (keys == ApiKey.SASL_AUTHENTICATE)
        waiting = [row for row, client in self._clients.items() if client.open]
        if not waiting and not asks.any():
            return
        wanted = np.flatnonzero(
            asks | (np.isin(exchanges["connection"], [*waiting, *np.unique(exchanges["connection"][asks])]))
        )
        codes = errors(wanted)
        rows = exchanges[wanted][["connection", "api_key", "status"]].tolist()
        for (connection, key, status), code in zip(rows, codes, strict=True):
            client = self._client(connection)
            if client.mechanism is None:
                client.mechanism = mechanisms.get(connection)
            self._take(client, key, code, status == ANSWERED)

    def carried(self, row_of: Mapping[int, int]) -> Value:
        """Return what is known of some connections; `row_of` has their new rows."""
        return [
            [row_of[row], [getattr(client, name) for name in client.__slots__]]
            for row, client in self._clients.items()
            if row in row_of
        ]

    def resume(self, value: Value) -> None:
        """Go on with what `carried` returned."""
        for row, fields in value:
            client = self._client(row)
            for name, field in zip(client.__slots__, fields, strict=True):
                setattr(client, name, field)

    def columns(self, ended: Iterable[bool]) -> dict[str, pa.Array]:
        """Return the columns about SASL; `ended` says of each connection whether its end was seen."""
        rows = list(enumerate(ended))
        seen = [(self._clients.get(row), closed) for row, closed in rows]
        return {
            "sasl_outcome": pa.array(
                [client.outcome(closed).value if client else None for client, closed in seen], pa.string()
            ),
            "sasl_error": pa.array(
                [error_name(client.error) if client and client.error else None for client, _ in seen],
                pa.string(),
            ),
            "sasl_reauthentications": pa.array(
                [max(0, client.succeeded - 1) if client else None for client, _ in seen], pa.int64()
            ),
        }

    def _client(self, connection: int) -> _Client:
        return self._clients.setdefault(connection, _Client())

    @staticmethod
    def _take_token(client: _Client, answered: bool) -> None:
        if not client.open and not client.succeeded:
            client.begin()
        client.raw_unanswered = not answered
        if answered:
            client.step()

    @staticmethod
    def _take(client: _Client, key: int, error: int | None, answered: bool) -> None:
        if key == ApiKey.SASL_HANDSHAKE:
            client.begin()
            if error:
                client.fail(error)
        elif key == ApiKey.SASL_AUTHENTICATE:
            if error:
                client.fail(error)
            elif error == 0:
                client.step()
        elif key != ApiKey.API_VERSIONS and answered:
            # The capture may lack the answers to tokens, or have them out of order.
            client.raw_unanswered = False
            client.succeed()


PLAIN_PARTS = 3
MOST_BYTES = 256
SCRAM = "SCRAM-"
GS2_FIELDS = 2
"""A first message of SCRAM begins with the channel binding and the authorization identity."""


def user_of(mechanism: str | None, token: bytes) -> str | None:
    """Return the user that a token names, None if it names none or is no first token of that mechanism."""
    if mechanism == "PLAIN":
        parts = token.split(b"\0")
        name = parts[1] if len(parts) == PLAIN_PARTS else b""
    elif mechanism is not None and mechanism.startswith(SCRAM):
        fields = token.split(b",")[GS2_FIELDS:]
        name = next((field[2:] for field in fields if field.startswith(b"n=")), b"")
        name = name.replace(b"=2C", b",").replace(b"=3D", b"=")
    else:
        return None
    return name[:MOST_BYTES].decode("utf-8", "replace") or None
