"""A certificate that signs itself, with its key, in one file."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID


def own_certificate(
    path: Path, days: int, addresses: Sequence[IPv4Address | IPv6Address] = (), password: bytes | None = None
) -> Path:
    """Write a certificate that ends in so many days, and its key, encrypted if there is a password."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "own")]), datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(now - timedelta(days=9))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(each) for each in addresses]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    kept = BestAvailableEncryption(password) if password else NoEncryption()
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, kept)
    path.write_bytes(text + made.public_bytes(Encoding.PEM))
    return path
