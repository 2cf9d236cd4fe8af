"""Certificates and keys in files: what is wrong with one is said in a sentence."""

import ssl
from pathlib import Path

import pytest

from kdissect.errors import UserError
from kdissect.replay.net.tls_context import tls_context
from kdissect.replay.settings import Tls
from tests.helpers.own_certificate import own_certificate


def test_the_key_of_a_certificate_may_be_encrypted(tmp_path: Path) -> None:
    """Nobody is asked on the terminal, and nothing wrong is a traceback."""
    locked = str(own_certificate(tmp_path / "locked", 2, password=b"right"))
    open_ = str(own_certificate(tmp_path / "open", 2))
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
