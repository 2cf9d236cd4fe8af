"""Cipher suites by number and name."""

from scapy.layers.tls.crypto.suites import _tls_cipher_suites

from kdissect.streams.tls.cipher_suites import SUITES, suite_name


def test_suites_are_named_as_scapy_names_them() -> None:
    for number, suite in SUITES.items():
        if number in _tls_cipher_suites:
            assert suite.name.removesuffix("_SHA256" if suite.name.endswith("CCM_8_SHA256") else "") in (
                _tls_cipher_suites[number],
                _tls_cipher_suites[number].removesuffix("_SHA256"),
            )
    assert len(SUITES.keys() & _tls_cipher_suites.keys()) > 45
    assert suite_name(0x0A0A) == "0x0A0A"
