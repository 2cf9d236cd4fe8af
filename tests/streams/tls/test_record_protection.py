"""Records that were sealed by another library open under their own number, and under no other."""

import hmac
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESCCM, AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from scapy.layers.tls.crypto.prf import PRF

from kdissect.streams.tls.cipher_suites import SUITES, Suite
from kdissect.streams.tls.record_protection import (
    Aead12,
    Cbc12,
    Protection,
    Tls13,
    expand_label,
    pseudorandom,
)

CONTENT = b"a request of Kafka" * 3
APPLICATION_DATA = 23
NUMBER = 5
KEY, MAC_KEY = bytes(range(32)), bytes(range(50, 82))


def header(size: int) -> bytes:
    return bytes([APPLICATION_DATA, 3, 3]) + size.to_bytes(2, "big")


def cipher(suite: Suite, key: bytes):
    if suite.cipher == "gcm":
        return AESGCM(key)
    return (
        ChaCha20Poly1305(key)
        if suite.cipher == "chacha20"
        else AESCCM(key, 8 if suite.cipher == "ccm8" else 16)
    )


def sealed_13(suite: Suite, secret: bytes, padding: int) -> bytes:
    key = expand_label(suite.hash, secret, b"key", suite.key_bytes)
    iv = int.from_bytes(expand_label(suite.hash, secret, b"iv", 12), "big")
    inner = CONTENT + bytes([APPLICATION_DATA]) + bytes(padding)
    size = len(inner) + (8 if suite.cipher == "ccm8" else 16)
    return cipher(suite, key).encrypt((iv ^ NUMBER).to_bytes(12, "big"), inner, header(size))


def assert_opens_only_itself(protection: Protection, fragment: bytes) -> None:
    first = header(len(fragment))
    assert protection.open(NUMBER, first, fragment) == (APPLICATION_DATA, CONTENT)
    assert protection.open(NUMBER + 1, first, fragment) is None
    for at in range(0, len(fragment), 7):
        damaged = bytes([*fragment[:at], fragment[at] ^ 1, *fragment[at + 1 :]])
        assert protection.open(NUMBER, first, damaged) is None
        assert protection.open(NUMBER, first, fragment[:at]) is None


@pytest.mark.parametrize("padding", [0, 40])
@pytest.mark.parametrize("number", [number for number, suite in SUITES.items() if suite.tls13])
def test_tls_1_3(number: int, padding: int) -> None:
    suite = SUITES[number]
    secret = bytes(range(48 if suite.hash == "sha384" else 32))
    assert_opens_only_itself(Tls13(suite, secret), sealed_13(suite, secret, padding))
    later = Tls13(suite, secret).next_generation()
    assert later.open(NUMBER, header(0), sealed_13(suite, secret, padding)) is None


@pytest.mark.parametrize("number", [0x009C, 0x009D, 0xC09C, 0xC0A1, 0xCCA8])
def test_aead_of_tls_1_2(number: int) -> None:
    suite = SUITES[number]
    iv = bytes(range(12 if suite.cipher == "chacha20" else 4))
    explicit = bytes(12 - len(iv))
    nonce = iv + explicit if explicit else (int.from_bytes(iv, "big") ^ NUMBER).to_bytes(12, "big")
    about = NUMBER.to_bytes(8, "big") + header(len(CONTENT))
    key = KEY[: suite.key_bytes]
    fragment = explicit + cipher(suite, key).encrypt(nonce, CONTENT, about)
    assert_opens_only_itself(Aead12(suite, key, iv), fragment)


def cbc(key: bytes, plain: bytes) -> bytes:
    padding = 15 - len(plain) % 16
    encryptor = Cipher(algorithms.AES(key), modes.CBC(bytes(16))).encryptor()
    return bytes(16) + encryptor.update(plain + bytes([padding]) * (padding + 1)) + encryptor.finalize()


@pytest.mark.parametrize("mac_last", [False, True], ids=["mac under the cipher", "mac over it"])
@pytest.mark.parametrize("number", [0x002F, 0x003C, 0xC028])
def test_cbc_of_tls_1_2(number: int, mac_last: bool) -> None:
    suite = SUITES[number]
    key = KEY[: suite.key_bytes]

    def tag(data: bytes) -> bytes:
        return hmac.digest(MAC_KEY, NUMBER.to_bytes(8, "big") + header(len(data)) + data, suite.mac)

    if mac_last:
        fragment = cbc(key, CONTENT)
        fragment += tag(fragment)
    else:
        fragment = cbc(key, CONTENT + tag(CONTENT))
    assert_opens_only_itself(Cbc12(suite, key, MAC_KEY, mac_last), fragment)


@pytest.mark.parametrize("size", [12, 16, 32, 48, 100])
@pytest.mark.parametrize(("name", "algorithm"), [("sha256", hashes.SHA256()), ("sha384", hashes.SHA384())])
def test_labels_expand_as_in_tls_1_3(name: str, algorithm: hashes.HashAlgorithm, size: int) -> None:
    secret = bytes(range(algorithm.digest_size))
    info = size.to_bytes(2, "big") + bytes([9]) + b"tls13 key" + b"\0"
    assert expand_label(name, secret, b"key", size) == HKDFExpand(algorithm, size, info).derive(secret)


@pytest.mark.parametrize("size", [1, 32, 104, 200])
def test_pseudorandom_bytes_are_those_of_tls_1_2(size: int) -> None:
    prf: Any = PRF(hash_name="SHA256", tls_version=0x0303)
    theirs = prf.prf(b"secret" * 8, b"label", b"seed" * 16, size)
    assert pseudorandom("sha256", b"secret" * 8, b"label", b"seed" * 16, size) == theirs
