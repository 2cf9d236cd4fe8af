"""Keys are derived as other implementations derive them.

SHA-384 in TLS 1.2 is held to OpenSSL, by whole sessions: see `test_decrypt_stage`.
"""

from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from scapy.layers.tls.crypto.prf import PRF

from kdissect.streams.tls.key_schedule import expand_label, pseudorandom


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
