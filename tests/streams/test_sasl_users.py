"""The user of a SASL token is read, and its password never."""

import pytest

from kdissect.streams.sasl_users import MOST_BYTES, user_of


@pytest.mark.parametrize(
    ("mechanism", "token", "user"),
    [
        ("PLAIN", b"\0billing\0hidden", "billing"),
        ("PLAIN", b"admin\0billing\0hidden", "billing"),
        ("PLAIN", b"billing", None),
        ("PLAIN", b"\0\0hidden", None),
        ("PLAIN", b"\0a\0b\0c", None),
        ("SCRAM-SHA-256", b"n,,n=billing,r=fyko+d2l", "billing"),
        ("SCRAM-SHA-512", b"n,a=admin,n=a=2Cb=3Dc,r=x,tokenauth=true", "a,b=c"),
        ("SCRAM-SHA-512", b"c=biws,r=fyko+d2l,p=dHzbZapWIk4j", None),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer hidden\x01\x01", None),
        (None, b"\0billing\0hidden", None),
        ("PLAIN", b"\0" + b"x" * 1000 + b"\0y", "x" * MOST_BYTES),
        ("PLAIN", b"\0\xff\0y", "�"),
    ],
)
def test_the_user_of_a_token(mechanism: str | None, token: bytes, user: str | None) -> None:
    assert user_of(mechanism, token) == user
