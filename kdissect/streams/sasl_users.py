"""The user that a client names in its first SASL token: PLAIN (RFC 4616) and SCRAM (RFC 5802).

In come a mechanism and the bytes of a token, out goes the user. A PLAIN token also holds the password, which
is never read. Tokens of other mechanisms name nobody in plain text.
"""

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
