"""Cipher suites: their numbers, names and what it takes to open records protected by them.

All names are from IANA's registry. Those that Java 17 and OpenSSL 3 choose can be opened: AES in GCM, CCM
and CBC, and ChaCha20-Poly1305. A suite of another kind keeps its number as its name.
"""

from typing import NamedTuple


class Suite(NamedTuple):
    """How records are protected.

    Cipher and key size in bytes, hash of the key derivation, MAC of CBC suites.
    """

    name: str
    cipher: str  # gcm | ccm | ccm8 | chacha20 | cbc
    key_bytes: int
    hash: str
    mac: str = ""
    tls13: bool = False


def _aead(cipher: str, key_bytes: int, hash: str, names: dict[int, str]) -> dict[int, Suite]:
    return {number: Suite(name, cipher, key_bytes, hash) for number, name in names.items()}


def _cbc(key_bytes: int, hash: str, mac: str, names: dict[int, str]) -> dict[int, Suite]:
    return {number: Suite(name, "cbc", key_bytes, hash, mac) for number, name in names.items()}


def _named(exchanges: dict[int, str], rest: str) -> dict[int, str]:
    return {number: f"TLS_{exchange}_WITH_{rest}" for number, exchange in exchanges.items()}


SUITES: dict[int, Suite] = {
    0x1301: Suite("TLS_AES_128_GCM_SHA256", "gcm", 16, "sha256", tls13=True),
    0x1302: Suite("TLS_AES_256_GCM_SHA384", "gcm", 32, "sha384", tls13=True),
    0x1303: Suite("TLS_CHACHA20_POLY1305_SHA256", "chacha20", 32, "sha256", tls13=True),
    0x1304: Suite("TLS_AES_128_CCM_SHA256", "ccm", 16, "sha256", tls13=True),
    0x1305: Suite("TLS_AES_128_CCM_8_SHA256", "ccm8", 16, "sha256", tls13=True),
    **_aead("gcm", 16, "sha256", _named({
        0x009C: "RSA", 0x009E: "DHE_RSA", 0x00A2: "DHE_DSS", 0xC02B: "ECDHE_ECDSA", 0xC02D: "ECDH_ECDSA",
        0xC02F: "ECDHE_RSA", 0xC031: "ECDH_RSA"}, "AES_128_GCM_SHA256")),
    **_aead("gcm", 32, "sha384", _named({
        0x009D: "RSA", 0x009F: "DHE_RSA", 0x00A3: "DHE_DSS", 0xC02C: "ECDHE_ECDSA", 0xC02E: "ECDH_ECDSA",
        0xC030: "ECDHE_RSA", 0xC032: "ECDH_RSA"}, "AES_256_GCM_SHA384")),
    **_aead("chacha20", 32, "sha256", _named({
        0xCCA8: "ECDHE_RSA", 0xCCA9: "ECDHE_ECDSA", 0xCCAA: "DHE_RSA"}, "CHACHA20_POLY1305_SHA256")),
    **_aead("ccm", 16, "sha256", _named({
        0xC09C: "RSA", 0xC09E: "DHE_RSA", 0xC0AC: "ECDHE_ECDSA"}, "AES_128_CCM")),
    **_aead("ccm", 32, "sha256", _named({
        0xC09D: "RSA", 0xC09F: "DHE_RSA", 0xC0AD: "ECDHE_ECDSA"}, "AES_256_CCM")),
    **_aead("ccm8", 16, "sha256", _named({
        0xC0A0: "RSA", 0xC0A2: "DHE_RSA", 0xC0AE: "ECDHE_ECDSA"}, "AES_128_CCM_8")),
    **_aead("ccm8", 32, "sha256", _named({
        0xC0A1: "RSA", 0xC0A3: "DHE_RSA", 0xC0AF: "ECDHE_ECDSA"}, "AES_256_CCM_8")),
    **_cbc(16, "sha256", "sha1", _named({
        0x002F: "RSA", 0x0032: "DHE_DSS", 0x0033: "DHE_RSA", 0xC004: "ECDH_ECDSA", 0xC009: "ECDHE_ECDSA",
        0xC00E: "ECDH_RSA", 0xC013: "ECDHE_RSA"}, "AES_128_CBC_SHA")),
    **_cbc(32, "sha256", "sha1", _named({
        0x0035: "RSA", 0x0038: "DHE_DSS", 0x0039: "DHE_RSA", 0xC005: "ECDH_ECDSA", 0xC00A: "ECDHE_ECDSA",
        0xC00F: "ECDH_RSA", 0xC014: "ECDHE_RSA"}, "AES_256_CBC_SHA")),
    **_cbc(16, "sha256", "sha256", _named({
        0x003C: "RSA", 0x0040: "DHE_DSS", 0x0067: "DHE_RSA", 0xC023: "ECDHE_ECDSA", 0xC025: "ECDH_ECDSA",
        0xC027: "ECDHE_RSA", 0xC029: "ECDH_RSA"}, "AES_128_CBC_SHA256")),
    **_cbc(32, "sha256", "sha256", _named({
        0x003D: "RSA", 0x006A: "DHE_DSS", 0x006B: "DHE_RSA"}, "AES_256_CBC_SHA256")),
    **_cbc(32, "sha384", "sha384", _named({
        0xC024: "ECDHE_ECDSA", 0xC026: "ECDH_ECDSA", 0xC028: "ECDHE_RSA", 0xC02A: "ECDH_RSA"},
        "AES_256_CBC_SHA384")),
}  # fmt: skip


def suite_name(number: int) -> str:
    """Return the name of a suite, or its number where it is none of the above."""
    suite = SUITES.get(number)
    return suite.name if suite else f"0x{number:04X}"
