"""Certificates and keys in files: what is wrong with one is said in a sentence."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from kdissect.errors import UserError
from kdissect.replay.net.tls_context import tls_context
from kdissect.replay.settings import Tls


def certificate(path: Path, password: bytes | None) -> str:
    """Write a certificate and its key, encrypted if there is a password."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "me")])
    now = datetime(2026, 1, 1, tzinfo=UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=9000))
    kept = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, kept)
    path.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM) + text)
    return str(path)


def test_the_key_of_a_certificate_may_be_encrypted(tmp_path: Path) -> None:
    """Nobody is asked on the terminal, and nothing wrong is a traceback."""
    locked, open_ = certificate(tmp_path / "locked", b"right"), certificate(tmp_path / "open", None)
    assert tls_context(Tls(certificate=open_)).verify_mode is ssl.CERT_REQUIRED
    assert tls_context(Tls(certificate=locked, key_password="right"))
    assert tls_context(Tls(authority=open_)).cert_store_stats()["x509"] == 1
    for tls, reason in (
        (Tls(certificate=locked), "is encrypted: --tls-key-password-file"),
        (Tls(certificate=locked, key_password="wrong secret"), "is the password right"),
        (Tls(certificate=str(tmp_path / "none")), "no such file"),
        (Tls(authority=str(tmp_path / "none")), "no such file"),
        (Tls(certificate=__file__), "cannot read certificate and key from"),
    ):
        with pytest.raises(UserError, match=reason) as failed:
            tls_context(tls)
        assert "wrong secret" not in str(failed.value)
