"""The TLS context of a replay's connections, and the reason why a connection was not made, in words.

Nothing asks on the terminal, and no password is part of a sentence.
"""

import ssl

from kdissect.errors import UserError
from kdissect.replay.settings import Tls

UNKNOWN_ISSUER = (18, 19, 20)
"""Codes of OpenSSL for certificates whose issuer nobody has called trusted (openssl/x509_vfy.h)."""


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Return how to speak TLS. Raise UserError for a file that is not what it should be."""
    try:
        context = ssl.create_default_context(cafile=tls.authority)
    except OSError as error:
        raise UserError(f"cannot read certificates from {tls.authority}: {reason_of(error)}") from None
    if tls.certificate:
        try:
            context.load_cert_chain(tls.certificate, password=lambda: _key_password(tls))
        except OSError as error:
            reason = reason_of(error) + (" (is the password right?)" if tls.key_password else "")
            raise UserError(f"cannot read certificate and key from {tls.certificate}: {reason}") from None
    if tls.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _key_password(tls: Tls) -> str:
    """Return the password of the key; OpenSSL would ask for it on the terminal."""
    if tls.key_password is None:
        raise UserError(
            f"the key in {tls.certificate} is encrypted: --tls-key-password-file takes its password"
        )
    return tls.key_password


def reason_of(error: BaseException) -> str:
    """Return why a file of certificates was not read, or a connection was not made."""
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = " (--tls-ca takes trusted ones)" if error.verify_code in UNKNOWN_ISSUER else ""
        return f"TLS: its certificate is refused: {error.verify_message.rstrip('.')}{hint}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}"
    reason = str(getattr(error, "strerror", None) or error).lower()
    return reason or "the connection was closed before TLS was agreed on"
