"""How one direction's records are opened: a record number and the record's bytes in, what was protected out.

`open` gives None for whatever is not exactly what the sender protected under that number, so it also tells
which number a record has. `overhead` is how many bytes a record is longer than what it holds; -1 where that
differs from record to record.

Keys come from logged secrets by the derivations of TLS 1.2 (RFC 5246, sections 5 and 6.3) and 1.3 (RFC
8446, section 7).
"""

import hmac
from abc import ABC, abstractmethod
from hashlib import new as new_hash

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305

from kdissect.streams.tls.cipher_suites import Suite

Opened = tuple[int, bytes]  # content type and content

TAG_BYTES = {"gcm": 16, "ccm": 16, "ccm8": 8, "chacha20": 16}
MOST_PLAIN = (1 << 14) + 256  # RFC 8446, section 5.4: content, its type and padding
HEADER_BYTES = 5


class Protection(ABC):
    """The keys of one direction, from one change of keys to the next."""

    overhead = -1
    arguments: tuple[Suite | bytes | bool, ...] = ()
    """Arguments that make an equal one."""

    @abstractmethod
    def open(self, number: int, header: bytes, fragment: bytes) -> Opened | None:
        """Open a record: `header` is its first five bytes, `fragment` the rest."""


def _cipher(suite: Suite, key: bytes) -> AESGCM | AESCCM | ChaCha20Poly1305:
    if suite.cipher == "gcm":
        return AESGCM(key)
    if suite.cipher == "chacha20":
        return ChaCha20Poly1305(key)
    return AESCCM(key, TAG_BYTES[suite.cipher])


class Tls13(Protection):
    """TLS 1.3 (RFC 8446, section 5.2): AEAD, the content type inside, padded with zeros."""

    def __init__(self, suite: Suite, secret: bytes) -> None:
        self.suite, self._secret, self.arguments = suite, secret, (suite, secret)
        self._aead = _cipher(suite, expand_label(suite.hash, secret, b"key", suite.key_bytes))
        self._iv = int.from_bytes(expand_label(suite.hash, secret, b"iv", 12), "big")
        self._tag = TAG_BYTES[suite.cipher]
        self.overhead = HEADER_BYTES + 1 + self._tag

    def open(self, number: int, header: bytes, fragment: bytes) -> Opened | None:
        """Open a record."""
        if len(fragment) <= self._tag:
            return None
        try:
            inner = self._aead.decrypt((self._iv ^ number).to_bytes(12, "big"), fragment, header)
        except InvalidTag:
            return None
        content = inner.rstrip(b"\0")
        return (content[-1], content[:-1]) if content else None

    def next_generation(self) -> "Tls13":
        """Return what protects records after a key update (section 7.2)."""
        secret = expand_label(self.suite.hash, self._secret, KEY_UPDATE, len(self._secret))
        return Tls13(self.suite, secret)


class Aead12(Protection):
    """AEAD in TLS 1.2.

    AES-GCM and AES-CCM with most of the nonce in the record (RFC 5288, RFC 6655), ChaCha20 with none (RFC
    7905).
    """

    def __init__(self, suite: Suite, key: bytes, iv: bytes) -> None:
        self._aead, self._iv, self.arguments = _cipher(suite, key), iv, (suite, key, iv)
        self._explicit = 12 - len(iv)
        self._tag = TAG_BYTES[suite.cipher]
        self.overhead = HEADER_BYTES + self._explicit + self._tag

    def open(self, number: int, header: bytes, fragment: bytes) -> Opened | None:
        """Open a record."""
        size = len(fragment) - self._explicit - self._tag
        if size < 0:
            return None
        if self._explicit:
            nonce = self._iv + fragment[: self._explicit]
        else:
            nonce = (int.from_bytes(self._iv, "big") ^ number).to_bytes(12, "big")
        about = number.to_bytes(8, "big") + header[:3] + size.to_bytes(2, "big")
        try:
            return header[0], self._aead.decrypt(nonce, fragment[self._explicit :], about)
        except InvalidTag:
            return None


class Cbc12(Protection):
    """CBC in TLS 1.2: the MAC under the cipher (RFC 5246, section 6.2.3.2), or over it (RFC 7366)."""

    def __init__(self, suite: Suite, key: bytes, mac_key: bytes, mac_last: bool) -> None:
        self._key, self._mac_key, self._mac, self._mac_last = key, mac_key, suite.mac, mac_last
        self.arguments = (suite, key, mac_key, mac_last)
        self._mac_bytes = new_hash(suite.mac, usedforsecurity=False).digest_size

    def open(self, number: int, header: bytes, fragment: bytes) -> Opened | None:
        """Open a record."""
        tag = b""
        if self._mac_last:
            fragment, tag = fragment[: -self._mac_bytes], fragment[-self._mac_bytes :]
            if not hmac.compare_digest(tag, self._tag(number, header, fragment)):
                return None
        if len(fragment) < 32 or len(fragment) % 16:
            return None
        decryptor = Cipher(algorithms.AES(self._key), modes.CBC(fragment[:16])).decryptor()
        padded = decryptor.update(fragment[16:]) + decryptor.finalize()
        padding = padded[-1] + 1
        content = padded[: max(0, len(padded) - padding)]
        if padded[len(content) :] != bytes([padded[-1]]) * padding:
            return None
        if not self._mac_last:
            if len(content) < self._mac_bytes:
                return None
            content, tag = content[: -self._mac_bytes], content[-self._mac_bytes :]
            if not hmac.compare_digest(tag, self._tag(number, header, content)):
                return None
        return header[0], content

    def _tag(self, number: int, header: bytes, data: bytes) -> bytes:
        about = number.to_bytes(8, "big") + header[:3] + len(data).to_bytes(2, "big")
        return hmac.digest(self._mac_key, about + data, self._mac)


def protections12(
    suite: Suite, master_secret: bytes, client_random: bytes, server_random: bytes, mac_last: bool
) -> tuple[Protection, Protection]:
    """Return what protects the client's and the server's records in TLS 1.2 (RFC 5246, section 6.3)."""
    mac_bytes = new_hash(suite.mac, usedforsecurity=False).digest_size if suite.mac else 0
    iv_bytes = {"gcm": 4, "ccm": 4, "ccm8": 4, "chacha20": 12}.get(suite.cipher, 0)
    sizes = (mac_bytes, mac_bytes, suite.key_bytes, suite.key_bytes, iv_bytes, iv_bytes)
    block = pseudorandom(suite.hash, master_secret, KEY_EXPANSION, server_random + client_random, sum(sizes))
    parts, at = [], 0
    for size in sizes:
        parts.append(block[at : at + size])
        at += size
    macs, keys, ivs = parts[:2], parts[2:4], parts[4:]
    if suite.mac:
        client, server = (Cbc12(suite, keys[side], macs[side], mac_last) for side in (0, 1))
        return client, server
    return Aead12(suite, keys[0], ivs[0]), Aead12(suite, keys[1], ivs[1])


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
