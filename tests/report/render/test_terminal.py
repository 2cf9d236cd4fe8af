"""Abilities of a stream: width, colours and characters of a terminal."""

import io

import pytest

from kdissect.report.render.terminal import terminal_of
from kdissect.text import (
    display_width,
    escape,
    truncate,
)


def test_escapes():
    assert escape("orders-1.v2_x") == "orders-1.v2_x"
    assert escape("a\x1b[0mb\x07") == "a\\x1b[0mb\\x07"
    assert escape("\u202e\u2028\x85\U000e0001") == "\\u202e\\u2028\\x85\\U000e0001"
    assert escape("back\\x1b") == "back\\\\x1b"
    assert escape("Zoë 文") == "Zoë 文"
    assert escape("Zoe\u0308") == "Zoë"
    assert escape("Zoë 文", ascii_only=True) == "Zo\\xeb \\u6587"
    assert escape("a\u00a0b") == "a\\xa0b"


def test_cut_keeps_both_ends_and_knows_wide_characters():
    assert truncate("short", 10, "…") == "short"
    assert truncate("abcdefghijklmnop", 10, "…") == "abcdef…nop"
    assert display_width("文字") == 4
    assert display_width(truncate("文字文字文字", 7, "…")) <= 7
    assert truncate("abcdef", 1, "…") == "…"


class Stream(io.StringIO):
    def __init__(self, encoding, terminal):
        super().__init__()
        self.spelling, self.terminal = encoding, terminal

    @property
    def encoding(self):  # type: ignore[override]  # the one of a text stream can be set
        return self.spelling

    def isatty(self):
        return self.terminal


@pytest.mark.parametrize(
    ("encoding", "terminal", "environment", "expected"),
    [
        ("utf-8", False, {}, (120, False, True)),
        ("ascii", False, {}, (120, False, False)),
        (None, False, {}, (120, False, False)),
        ("utf-8", False, {"COLUMNS": "90"}, (90, False, True)),
        ("utf-8", True, {"COLUMNS": "90"}, (90, True, True)),
        ("utf-8", True, {"COLUMNS": "90", "NO_COLOR": "1"}, (90, False, True)),
        ("utf-8", True, {"COLUMNS": "90", "NO_COLOR": ""}, (90, True, True)),
        ("utf-8", True, {"COLUMNS": "90", "TERM": "dumb"}, (90, False, True)),
        ("utf-8", True, {"COLUMNS": "5"}, (60, True, True)),
        ("utf-8", True, {"COLUMNS": "999"}, (200, True, True)),
    ],
)
def test_what_a_stream_can_show(monkeypatch, encoding, terminal, environment, expected):
    monkeypatch.delenv("COLUMNS", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = terminal_of(Stream(encoding, terminal), environment)
    assert (found.width, found.colour, found.unicode) == expected
