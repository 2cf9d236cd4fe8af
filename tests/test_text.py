"""Durations, sizes, counts, shares and clocks as they are shown."""

import pytest

from kdissect.text import (
    format_address,
    format_clock,
    format_count,
    format_duration,
    format_share,
    format_size,
    parse_address,
)


@pytest.mark.parametrize(
    ("ns", "shown"),
    [
        (None, "-"),
        (0, "0ns"),
        (812, "812ns"),
        (999, "999ns"),
        (1000, "1.00µs"),
        (41_234, "41.2µs"),
        (99_949, "99.9µs"),
        (99_950, "100µs"),
        (999_499, "999µs"),
        (999_500, "1.00ms"),
        (1_234_567, "1.23ms"),
        (999_600_000, "1.00s"),
        (12_345_000_000, "12.3s"),
        (119_400_000_000, "119s"),
        (120_000_000_000, "2m00s"),
        (247_000_000_000, "4m07s"),
        (3_599_400_000_000, "59m59s"),
        (3_600_000_000_000, "1h00m"),
        (11_100_000_000_000, "3h05m"),
        (170_940_000_000_000, "47h29m"),
        (172_740_000_000_000, "2d00h"),
        (271_257_900_000_000_000, "3139d13h"),
    ],
)
def test_duration(ns, shown):
    assert format_duration(ns) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1022, "1022 B"),
        (1024, "1.00 KiB"),
        (12_902, "12.6 KiB"),
        (1 << 30, "1.00 GiB"),
        (5 << 41, "10.0 TiB"),
    ],
)
def test_size(count, shown):
    assert format_size(count) == shown


def test_number():
    assert [format_count(count) for count in (0, 182_044, 9_999_999, 12_345_678, 5 * 10**9, 2 * 10**12)] == [
        "0", "182,044", "9,999,999", "12.3M", "5.00G", "2.00T",
    ]  # fmt: skip


def test_share():
    assert [format_share(part) for part in (0, 0.0001, 0.0005, 0.123, 0.9994, 0.9996, 1)] == [
        "0%", "<0.1%", "0.1%", "12.3%", "99.9%", "100%", "100%",
    ]  # fmt: skip


def test_clock():
    assert format_clock(1_772_359_200_123_999_999) == "10:00:00.123"
    assert format_clock(1_772_359_200_123_999_999, date=True) == "2026-03-01 10:00:00.123"
    assert format_clock(None) == "-"
    assert format_clock(-(2**63), date=True) == "1677-09-21 00:12:43.145"
    assert format_clock(2**63 - 1, date=True) == "2262-04-11 23:47:16.854"


@pytest.mark.parametrize(
    ("host", "port", "text"),
    [
        ("10.1.0.3", 9092, "10.1.0.3:9092"),
        ("::1", 9092, "[::1]:9092"),
        ("broker-1", None, "broker-1"),
        ("fe80::1", None, "[fe80::1]"),
    ],
)
def test_addresses_are_read_as_they_are_written(host: str, port: int | None, text: str) -> None:
    assert format_address(host, port) == text
    assert parse_address(text) == (host, port)


def test_addresses_in_other_forms() -> None:
    assert format_address(None, None) == "-"
    assert format_address(None, 9092) == "9092"
    assert parse_address("::1") == ("::1", None)
    assert parse_address("broker-1:") == ("broker-1", None)


@pytest.mark.parametrize("text", ["[::1", "[::1]9092", "host:port", "host:0", "host:65536", "host:٣"])
def test_wrong_addresses_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a"):
        parse_address(text)
