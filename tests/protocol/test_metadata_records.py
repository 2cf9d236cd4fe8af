"""The headers of metadata records, written by hand: three unsigned varints."""

import pytest

from kdissect.protocol.metadata_records import MetadataHeader, metadata_header


def test_the_header_of_a_record() -> None:
    assert metadata_header(b"\x01\x02\x00rest") == MetadataHeader(frame_version=1, type=2, version=0)
    assert metadata_header(b"\x01\x80\x01\x03") == MetadataHeader(1, 128, 3)


@pytest.mark.parametrize("value", [b"", b"\x01", b"\x01\x02", b"\x01\xff\xff\xff\xff\xff"])
def test_values_that_end_before_their_header_does(value: bytes) -> None:
    assert metadata_header(value) is None


@pytest.mark.parametrize(
    ("kind", "secretive"), [(2, False), (20, False), (4, True), (10, True), (11, True), (99, True)]
)
def test_what_may_hold_a_secret(kind: int, secretive: bool) -> None:
    header = metadata_header(bytes([1, kind, 0]))
    assert header is not None
    assert header.secretive is secretive
