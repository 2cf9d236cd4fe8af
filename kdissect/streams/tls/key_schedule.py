"""From logged secrets to keys.

The key derivations of TLS 1.2 (RFC 5246, sections 5 and 6.3) and 1.3 (RFC 8446, section 7).
"""

import hmac

KEY_EXPANSION = b"key expansion"
KEY_UPDATE = b"traffic upd"


def pseudorandom(hash_name: str, secret: bytes, label: bytes, seed: bytes, size: int) -> bytes:
    """Return PRF(secret, label, seed) of TLS 1.2."""
    seed = label + seed
    block, out = seed, b""
    while len(out) < size:
        block = hmac.digest(secret, block, hash_name)
        out += hmac.digest(secret, block + seed, hash_name)
    return out[:size]


def expand_label(hash_name: str, secret: bytes, label: bytes, size: int) -> bytes:
    """Return HKDF-Expand-Label(secret, label, "", size) of TLS 1.3."""
    full = b"tls13 " + label
    about = size.to_bytes(2, "big") + bytes([len(full)]) + full + b"\0"
    block, out = b"", b""
    while len(out) < size:
        block = hmac.digest(secret, block + about + bytes([len(out) // len(secret) + 1]), hash_name)
        out += block
    return out[:size]
